"""ImageIter: batches of images from record files or from files of a list."""

import logging
import os
import random
from numbers import Number

import numpy as np

from .. import ndarray as nd
from .. import recordio
from ..error import (
    MXNetError,
    MXNetKeyError,
    MXNetOSError,
    MXNetRuntimeError,
    MXNetValueError,
    check,
)
from ..io import DataBatch, DataIter
from .augment import CreateAugmenter
from .functions import imdecode

__all__ = ["ImageIter"]


def _labels(label, dtype, text=False):
    if dtype == "float32":
        return recordio.exact_label(label, text)
    return np.asarray(label).astype(dtype)


def read_list(path, dtype):
    """{number: (labels, path)} of a .lst file, in its order."""
    found = {}
    try:
        file = open(path)
    except OSError as error:
        raise MXNetOSError(
            "image list: %s: cannot be opened: %s" % (path, error.strerror)
        ) from None
    with file:
        for number, line in enumerate(file, 1):
            fields = line.strip("\r\n").split("\t")
            if fields == [""]:
                continue
            try:
                check(len(fields) >= 3, "%d fields", len(fields))
                labels = np.array([float(f) for f in fields[1:-1]])
                found[int(fields[0])] = _labels(labels, dtype, True), fields[-1]
            except MXNetValueError as error:
                raise MXNetValueError(
                    "image list: %s: line %d: %s" % (path, number, error)
                ) from None
            except ValueError:
                raise MXNetOSError(
                    "image list: %s: line %d is wrong; a number, labels and a path, "
                    "with tabs between them, were expected" % (path, number)
                ) from None
    return found


def given_list(images, dtype):
    """{text of a number: (labels, path)} of a list of [label, ..., path]."""
    found = {}
    for number, image in enumerate(images, 1):
        label = image[:-1] if len(image) > 2 else image[0]
        if isinstance(label, Number):
            label = [label]
        if isinstance(label, nd.NDArray):
            label = label.asnumpy()
        found[str(number)] = _labels(label, dtype), image[-1]
    return found


class ImageIter(DataIter):
    """Batches (batch, channels, height, width) of decoded and augmented images.

    Images come from a record file (path_imgrec, with path_imgidx where they are
    shuffled or shared out), or from files under path_root that path_imglist (a .lst
    file) or imglist (a list of [label, ..., path]) names. With a list beside a record
    file, its labels count.

    last_batch_handle: 'pad' fills the last batch from the start, 'discard' drops it,
    'roll_over' keeps its images for the next epoch. on_error: 'raise', or 'skip' to
    pass over images that cannot be read; how many is said at the end of the epoch.
    kwargs go to CreateAugmenter, unless aug_list is given.
    """

    def __init__(
        self,
        batch_size,
        data_shape,
        label_width=1,
        path_imgrec=None,
        path_imglist=None,
        path_root=None,
        path_imgidx=None,
        shuffle=False,
        part_index=0,
        num_parts=1,
        aug_list=None,
        imglist=None,
        data_name="data",
        label_name="softmax_label",
        dtype="float32",
        last_batch_handle="pad",
        on_error="raise",
        **kwargs,
    ):
        super().__init__(batch_size)
        name = type(self).__name__
        check(
            path_imgrec or path_imglist or isinstance(imglist, list),
            "%s: one of path_imgrec, path_imglist and imglist must be given",
            name,
        )
        check(
            dtype in ("int32", "float32", "int64", "float64"),
            "%s label not supported",
            dtype,
        )
        check(
            last_batch_handle in ("pad", "discard", "roll_over"),
            "%s: last_batch_handle is %r; 'pad', 'discard' or 'roll_over' was expected",
            name,
            last_batch_handle,
        )
        check(
            on_error in ("raise", "skip"),
            "%s: on_error is %r; 'raise' or 'skip' was expected",
            name,
            on_error,
        )
        self.imgrec = self.imgidx = self.imglist = None
        if path_imgrec and path_imgidx:
            self.imgrec = recordio.MXIndexedRecordIO(path_imgidx, path_imgrec, "r")
            self.imgidx = list(self.imgrec.keys)
        elif path_imgrec:
            self.imgrec = recordio.MXRecordIO(path_imgrec, "r")
        if path_imglist:
            self.imglist = read_list(path_imglist, dtype)
        elif isinstance(imglist, list):
            self.imglist = given_list(imglist, dtype)
        self.path_root = path_root
        self.dtype = dtype
        self.on_error = on_error

        data_shape = tuple(data_shape)
        self.check_data_shape(data_shape)
        self.data_shape = data_shape
        self.label_width = label_width
        self.provide_data = [(data_name, (batch_size, *data_shape))]
        labels = (batch_size, label_width) if label_width > 1 else (batch_size,)
        self.provide_label = [(label_name, labels)]
        self.shuffle = shuffle
        if self.imgrec is None:
            self.seq = list(self.imglist)
        elif shuffle or num_parts > 1 or path_imgidx:
            check(
                self.imgidx is not None,
                "%s: shuffle and num_parts need path_imgidx beside path_imgrec",
                name,
            )
            self.seq = self.imgidx
        else:
            self.seq = None
        if num_parts > 1:
            check(
                0 <= part_index < num_parts,
                "%s: part_index is %d; 0 to num_parts - 1 was expected",
                name,
                part_index,
            )
            # Every image is in one part, also where they cannot be equally large.
            total = len(self.seq)
            first = total * part_index // num_parts
            self.seq = self.seq[first : total * (part_index + 1) // num_parts]
        if aug_list is None:
            aug_list = CreateAugmenter(data_shape, **kwargs)
        self.auglist = aug_list
        self.last_batch_handle = last_batch_handle
        self.num_image = len(self.seq) if self.seq is not None else None
        self.cur = 0
        self.skipped = 0
        self._at = None  # key of the current image, for errors
        self._allow_read = True
        self._cache_data = self._cache_label = self._cache_idx = None
        self.reset()

    def _rewind(self):
        if self.imgrec is not None:
            self.imgrec.reset()
        self.cur = 0
        self._allow_read = True

    def reset(self):
        """Begins an epoch; images that were rolled over come first."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        if self.last_batch_handle != "roll_over" or self._cache_data is None:
            self._rewind()

    def hard_reset(self):
        """Begins an epoch, without images that were rolled over."""
        if self.seq is not None and self.shuffle:
            random.shuffle(self.seq)
        self._rewind()
        self._cache_data = self._cache_label = self._cache_idx = None

    def state_dict(self):
        """Where the next batch is, and the generators that the augmenters draw from; it
        can be pickled.
        """
        cache = None
        if self._cache_data is not None:
            cache = self._cache_data.asnumpy(), self._cache_label, self._cache_idx
        return {
            "cur": self.cur,
            "order": None if self.seq is None else list(self.seq),
            "offset": self.imgrec.handle.tell() if self.seq is None else None,
            "reads": self._allow_read,
            "cache": cache,
            "random": random.getstate(),
            "numpy": np.random.get_state(),
        }

    def load_state_dict(self, state):
        """Goes to a place that state_dict() of an iterator of the same images told."""
        mine, theirs = self.seq, state["order"]
        check(
            (mine is None) == (theirs is None)
            and (mine is None or sorted(mine) == sorted(theirs)),
            "%s: the state is one of other images",
            type(self).__name__,
        )
        if mine is None:
            self.imgrec.handle.seek(state["offset"])
        else:
            self.seq[:] = theirs
        self.cur, self._allow_read = state["cur"], state["reads"]
        self._cache_data = self._cache_label = self._cache_idx = None
        if state["cache"] is not None:
            data, self._cache_label, self._cache_idx = state["cache"]
            self._cache_data = nd.array(data)
        random.setstate(state["random"])
        np.random.set_state(state["numpy"])

    def next_sample(self):
        """(label, the bytes of the file) of the next image, or StopIteration."""
        if not self._allow_read:
            raise StopIteration
        if self.seq is None:
            record = self.imgrec.read()
            if record is None:
                if self.last_batch_handle != "discard":
                    self.imgrec.reset()
                raise StopIteration
            header, image = recordio.unpack(record)
            self._at = header.id
            return header.label, image
        if self.cur >= self.num_image:
            if self.last_batch_handle != "discard":
                self.cur = 0
            raise StopIteration
        self._at = self.seq[self.cur]
        self.cur += 1
        if self.imgrec is None:
            label, path = self.imglist[self._at]
            return label, self.read_image(path)
        header, image = recordio.unpack(self.imgrec.read_idx(self._at))
        if self.imglist is None:
            return header.label, image
        if self._at not in self.imglist:
            raise MXNetKeyError(
                "%s: the list has no entry for record %s"
                % (type(self).__name__, self._at)
            )
        return self.imglist[self._at][0], image

    def _sample(self):
        """next_sample, over images that cannot be read where that is asked for."""
        while True:
            try:
                label, image = self.next_sample()
                return label, self.imdecode(image)
            except (MXNetError, OSError) as error:
                if self.on_error == "raise":
                    raise
                logging.warning("%s: skipped: %s", type(self).__name__, error)
                self.skipped += 1
                if self.seq is None and not isinstance(error, MXNetOSError):
                    continue  # the record was read, its image is broken
                if self.seq is None and not self.imgrec.recover():
                    raise StopIteration from None

    def _batchify(self, batch_data, batch_label, start=0):
        """Fills the rows from `start` on; how many are filled then."""
        i = start
        try:
            while i < self.batch_size:
                label, data = self._sample()
                self.check_valid_image([data])
                batch_data[i] = self.postprocess_data(self.augmentation_transform(data))
                batch_label[i] = self._label(label)
                i += 1
        except StopIteration:
            if i == 0:
                raise
        return i

    def _label(self, label):
        width = self.label_width
        if isinstance(label, nd.NDArray):
            label = label.asnumpy()
        label = np.asarray(label)
        if label.size != width:
            raise MXNetValueError(
                "%s: image %s has %d labels; label_width is %d"
                % (type(self).__name__, self._at, label.size, width)
            )
        return label if width > 1 else label.reshape(())

    def _empty_batch(self):
        return (
            nd.zeros(self.provide_data[0][1]),
            np.zeros(self.provide_label[0][1], self.dtype),
        )

    def next(self):
        """The next batch."""
        if self._cache_data is not None:
            data, label, i = self._cache_data, self._cache_label, self._cache_idx
            rolled = True
        else:
            data, label = self._empty_batch()
            rolled = False
            try:
                i = self._batchify(data, label)
            except StopIteration:
                self._say_skipped()
                raise
        pad = self.batch_size - i
        if pad:
            self._say_skipped()
            if self.last_batch_handle == "discard":
                raise StopIteration
            if self.last_batch_handle == "roll_over" and not rolled:
                self._cache_data, self._cache_label, self._cache_idx = data, label, i
                raise StopIteration
            while i < self.batch_size:  # a set smaller than a batch is repeated
                i = self._batchify(data, label, i)
                if self.seq is not None and not self.seq:
                    break
            if self.last_batch_handle == "pad":
                self._allow_read = False
            else:
                self._cache_data = self._cache_label = self._cache_idx = None
        return DataBatch([data], [nd.array(label, dtype=label.dtype)], pad=pad)

    def _say_skipped(self):
        if self.skipped:
            logging.warning(
                "%s: %d images could not be read and were skipped",
                type(self).__name__,
                self.skipped,
            )
            self.skipped = 0

    def check_data_shape(self, data_shape):
        """Raises unless data_shape is (3, height, width)."""
        if len(data_shape) != 3:
            raise MXNetValueError(
                "data_shape should have length 3, with dimensions CxHxW"
            )
        if data_shape[0] != 3:
            raise MXNetValueError("This iterator expects inputs to have 3 channels.")

    def check_valid_image(self, data):
        """Raises where data[0] is no image."""
        if len(data[0].shape) == 0:
            raise MXNetRuntimeError("Data shape is wrong")

    def imdecode(self, s):
        """The image of a file's bytes; an error names the image."""
        try:
            return imdecode(s)
        except MXNetError as error:
            where = "index: %s" % self._at
            if self.imglist is not None and self._at in self.imglist:
                where = "filename: %s" % self.imglist[self._at][1]
            raise MXNetValueError("Broken image %s, %s" % (where, error)) from None

    def read_image(self, fname):
        """The bytes of a file under path_root."""
        path = os.path.join(self.path_root or "", fname)
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            raise MXNetOSError(
                "%s: image %s: %s: cannot be read: %s"
                % (type(self).__name__, self._at, path, error.strerror)
            ) from None

    def augmentation_transform(self, data):
        """All augmenters, one after the other."""
        for aug in self.auglist:
            data = aug(data)
        return data

    def postprocess_data(self, datum):
        """Channels first."""
        return nd.transpose(datum, axes=(2, 0, 1))
