"""Record files: reading and writing them, and images with labels as records.

The bytes are MXNet's in both directions. Importing this module starts no thread.
"""

import numbers
import os
import struct
from collections import namedtuple

import numpy as np

from . import _plait
from .error import (
    MXNetIndexError,
    MXNetKeyError,
    MXNetOSError,
    MXNetRuntimeError,
    MXNetValueError,
    check,
)

__all__ = [
    "IRHeader",
    "MXIndexedRecordIO",
    "MXRecordIO",
    "pack",
    "pack_img",
    "unpack",
    "unpack_img",
]


class MXRecordIO:
    """A record file: ``flag`` is 'r' to read, 'w' to write anew, 'a' to append.

    It may be pickled, used by several threads, and read on in a forked child.
    """

    def __init__(self, uri, flag):
        self.uri = os.fspath(uri)
        self.flag = flag
        self.is_open = False
        self.open()

    def open(self):
        """Opens the file."""
        if self.flag not in ("r", "w", "a"):
            raise MXNetValueError(
                "MXRecordIO: flag is %r; 'r', 'w' or 'a' was expected" % (self.flag,)
            )
        self.writable = self.flag != "r"
        if self.writable:
            self.handle = _plait.RecordWriter(self.uri, self.flag == "a")
        else:
            self.handle = _plait.RecordReader(self.uri)
        self.pid = os.getpid()
        self.is_open = True

    def close(self):
        """Closes the file; what was written is in it then."""
        if not getattr(self, "is_open", False):
            return
        self.is_open = False
        handle, self.handle = self.handle, None
        if self.writable:
            if self.pid == os.getpid():
                handle.close()
            else:
                handle.abandon()

    def __del__(self):
        self.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def flush(self):
        """Hands over what was written to the system, for readers to see."""
        self._writer("flush").flush()

    def reset(self):
        """Goes back to the first record; of a writer: empties the file ('w')."""
        self.close()
        self.open()

    def __getstate__(self):
        if self.is_open and self.writable:
            # A second writer would overwrite the first one's records.
            self.close()
        state = dict(self.__dict__)
        state["handle"] = None
        return state

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.is_open:
            self.is_open = False
            if not self.writable:
                self.open()

    def _reader(self, what):
        check(not self.writable, "%s: the file was opened for writing" % what)
        return self._opened(what)

    def _writer(self, what):
        check(self.writable, "%s: the file was opened for reading" % what)
        if self.is_open and self.pid != os.getpid():
            raise MXNetRuntimeError(
                "%s: %s was opened by another process, which goes on writing it"
                % (what, self.uri)
            )
        return self._opened(what)

    def _opened(self, what):
        if not self.is_open:
            raise MXNetRuntimeError("%s: %s is closed" % (what, self.uri))
        return self.handle

    def write(self, buf):
        """Appends bytes as a record."""
        self._writer("write").write(buf)

    def read(self):
        """The next record as bytes, or None at the end."""
        if self.writable or not self.is_open:
            self._reader("read")
        return self.handle.read()

    def recover(self):
        """After an error of read(): goes on behind the damage; False at the end."""
        return self._reader("recover").recover()


class MXIndexedRecordIO(MXRecordIO):
    """A record file with an index file, for reading by key.

    Keys are of ``key_type``. ``keys`` is the list of them in the file's order, ``idx``
    a dict from keys to offsets; both are made when first asked for.
    """

    def __init__(self, idx_path, uri, flag, key_type=int):
        self.idx_path = os.fspath(idx_path)
        self.key_type = key_type
        self.fidx = None
        self._index = self._idx = self._keys = None
        super().__init__(uri, flag)

    def open(self):
        super().open()
        try:
            self._open_index()
        except BaseException:
            super().close()
            raise

    def _open_index(self):
        if self.flag == "w":
            self._index, self._idx, self._keys = None, {}, []
        elif self._index is None and self._idx is None:
            if self.flag == "a" and not os.path.exists(self.idx_path):
                self._idx, self._keys = {}, []
            elif self.key_type is int:
                self._index = _plait.RecordIndex(self.idx_path)
            else:
                self._read_index()
        if self.writable:
            self.idx, self.keys  # noqa: B018 - made before they grow
            # Lines are kept here: a forked child must not have any to write.
            self._lines = []
            self.fidx = open(self.idx_path, self.flag, newline="\n")

    def _read_index(self):
        self._idx, self._keys = {}, []
        try:
            file = open(self.idx_path, newline="\n")
        except OSError as error:
            raise MXNetOSError(
                "record index: %s: cannot be opened: %s"
                % (self.idx_path, error.strerror)
            ) from error
        with file:
            for number, line in enumerate(file, 1):
                key, tab, offset = line.strip("\r\n").partition("\t")
                if not tab and not key:
                    continue
                try:
                    key, offset = self.key_type(key), int(offset)
                except ValueError:
                    raise MXNetOSError(
                        "record index: %s: line %d is wrong; a key, a tab and an "
                        "offset were expected" % (self.idx_path, number)
                    ) from None
                self._idx[key] = offset
                self._keys.append(key)

    @property
    def keys(self):
        """The keys, in the order of the file."""
        if self._keys is None:
            self._keys = self._index.keys()
        return self._keys

    @keys.setter
    def keys(self, value):
        self._keys = value

    @property
    def idx(self):
        """Offsets by key."""
        if self._idx is None:
            self._idx = dict(zip(self._index.keys(), self._index.offsets()))
        return self._idx

    @idx.setter
    def idx(self, value):
        self._idx = value

    def close(self):
        if not getattr(self, "is_open", False):
            return
        fidx, self.fidx = self.fidx, None
        super().close()
        if fidx is not None:
            if self.pid == os.getpid():
                fidx.write("".join(self._lines))
            fidx.close()

    def flush(self):
        super().flush()
        self.fidx.write("".join(self._lines))
        self.fidx.flush()
        self._lines = []

    def __getstate__(self):
        state = super().__getstate__()
        if state["_index"] is not None:  # it is read again
            state["_index"] = None
        state["fidx"] = None
        return state

    def _offset(self, key):
        if self._idx is None:
            offset = None
            if isinstance(key, numbers.Integral):
                offset = self._index.find(int(key))
        else:
            offset = self._idx.get(key)
        if offset is None:
            raise MXNetKeyError(
                "read_idx: %s has no record with the key %r" % (self.idx_path, key)
            )
        return offset

    def seek(self, idx):
        """Sets the place of the next read() to the record of a key."""
        self._reader("seek").seek(self._offset(idx))

    def tell(self):
        """The offset at which the next record will be written."""
        return self._writer("tell").tell()

    def read_idx(self, idx):
        """The record of a key, as bytes."""
        reader, offset = self._reader("read_idx"), self._offset(idx)
        try:
            record = reader.read(offset)
        except MXNetOSError as error:
            raise MXNetOSError("read_idx: key %r: %s" % (idx, error)) from None
        if record is None:
            raise MXNetOSError(
                "read_idx: key %r: record file: %s: nothing stands at offset %d; the "
                "file is cut off, or the index is another file's"
                % (idx, self.uri, offset)
            )
        return record

    def write_idx(self, idx, buf):
        """Appends bytes as the record of a key."""
        key = self.key_type(idx)
        offset = self._writer("write_idx").write(buf)
        self.idx[key] = offset
        self.keys.append(key)
        self._lines.append("%s\t%d\n" % (key, offset))
        if len(self._lines) == 4096:
            self.flush()


IRHeader = namedtuple("HEADER", ["flag", "label", "id", "id2"])
IRHeader.__doc__ = """What stands before an image in a record.

flag: how many float32 labels follow, 0: `label` is the only one. pack() sets it.
label: a number, or an array of numbers. id, id2: the image's number.
"""

_IR_FORMAT = "<IfQQ"
_IR_SIZE = struct.calcsize(_IR_FORMAT)


def exact_label(label, text=False):
    """The label as float32; whole numbers that it cannot hold are refused: integers,
    and with `text`, where all numbers were texts, floats as well.
    """
    array = np.asarray(label)
    result = array.astype(np.float32)
    if text and array.dtype.kind == "f":
        whole = (np.trunc(array) == array) & (np.abs(array) < 2.0**53)
        exact = not (whole & (result != array)).any()
    else:
        exact = array.dtype.kind not in "iu" or np.array_equal(
            result.astype(np.int64), array
        )
    if not exact:
        raise MXNetValueError(
            "label %s is no float32 number, as which it would be stored; whole "
            "numbers up to 2**24 were expected" % (label,)
        )
    return result


def pack(header, s):
    """The record of a header and an image's bytes."""
    flag, label, id_, id2 = IRHeader(*header)
    if isinstance(label, numbers.Number):
        flag, labels, label = 0, b"", float(exact_label(label))
    else:
        values = exact_label(label)
        flag, labels, label = values.size, values.astype("<f4").tobytes(), 0
    try:
        return struct.pack(_IR_FORMAT, flag, label, id_, id2) + labels + s
    except struct.error as error:
        raise MXNetValueError("pack: header %s: %s" % (header, error)) from None


def unpack(s):
    """(header, the image's bytes) of a record."""
    if len(s) < _IR_SIZE:
        raise MXNetValueError(
            "unpack: a record of %d bytes; at least %d were expected"
            % (len(s), _IR_SIZE)
        )
    header = IRHeader(*struct.unpack_from(_IR_FORMAT, s))
    begin = _IR_SIZE
    if header.flag > 0:
        begin += 4 * header.flag
        if len(s) < begin:
            raise MXNetIndexError(
                "unpack: a record of %d bytes says that it has %d labels"
                % (len(s), header.flag)
            )
        labels = np.frombuffer(s, "<f4", header.flag, _IR_SIZE)
        header = header._replace(label=labels)
    return header, s[begin:]


def unpack_img(s, iscolor=-1):
    """(header, image) of a record; the image is a NumPy array, blue first.

    iscolor: 0 gray, 1 colour, -1 as it is stored.
    """
    header, image = unpack(s)
    return header, _plait.decode_image(image, iscolor, False)


def pack_img(header, img, quality=95, img_fmt=".jpg"):
    """The record of a header and an image that is encoded.

    img: a NumPy array (height, width[, channels]), blue first. quality: of JPEG 1 to
    100, of PNG the compression 1 to 9 (more counts as 9).
    """
    if img_fmt.lower() == ".png":
        quality = min(quality, 9)
    return pack(header, _plait.encode_image(np.asarray(img), img_fmt, quality))
