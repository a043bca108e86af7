"""Saving and loading arrays: MXNet's .params, NumPy's .npz, and safetensors."""

import io
import os
import shutil
import tempfile
import zipfile

import numpy as np

from .. import _plait
from ..error import MXNetError, MXNetOSError, MXNetTypeError, MXNetValueError
from . import ndarray as _nd
from ._core import NDArray, native

__all__ = ["zeros", "empty", "array", "load", "load_frombuffer", "save"]

zeros, empty, array = _nd.zeros, _nd.empty, _nd.array


FORMATS = ("params", "npz", "safetensors")


def save(fname, data, format=None):
    """Writes an array, a list or a dict of name to array to a file.

    fname is a path, or an object with write() that takes bytes. The format is MXNet's
    ("params"), NumPy's ("npz") or "safetensors"; without one the path's ending chooses:
    .npz, .safetensors, and MXNet's for all others.
    A path is written aside and renamed, so that a failure leaves the old file.
    """
    if format not in (None,) + FORMATS:
        raise MXNetValueError(
            "save: format is %r; one of %s was expected" % (format, ", ".join(FORMATS))
        )
    if hasattr(fname, "write"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "arrays")
            save(path, data, format or "params")
            with open(path, "rb") as file:
                shutil.copyfileobj(file, fname, 1 << 20)
        return
    if isinstance(data, NDArray):
        names, arrays = [], [data]
    elif isinstance(data, dict):
        names, arrays = [str(k) for k in data], list(data.values())
    elif isinstance(data, (list, tuple)):
        names, arrays = [], list(data)
    else:
        raise MXNetValueError(
            "save: data needs to either be a NDArray, dict of str, NDArray "
            "pairs or a list of NDarrays; got %s" % type(data).__name__
        )
    for a in arrays:
        if not isinstance(a, NDArray):
            raise MXNetTypeError(
                "save: only NDArrays can be saved; got %s" % type(a).__name__
            )
    fname = os.fsdecode(fname)
    format = format or _format_of(fname)
    if format == "npz":
        _save_npz(fname, names, arrays)
    elif format == "safetensors":
        _plait.save_safetensors(
            fname, names or [str(i) for i in range(len(arrays))], arrays
        )
    else:
        _plait.save_params(fname, names, arrays)


def _format_of(fname):
    for format in FORMATS:
        if fname.endswith("." + format):
            return format
    return "params"


def _save_npz(fname, names, arrays):
    names = names or ["arr_%d" % i for i in range(len(arrays))]
    values = [a.asnumpy() for a in arrays]  # errors of the computation come first
    aside = "%s.part%d" % (fname, os.getpid())
    try:
        with open(aside, "wb") as file:
            # Not numpy.savez: that takes some names as its own arguments.
            with zipfile.ZipFile(file, "w") as archive:
                for name, value in zip(names, values):
                    with archive.open(name + ".npy", "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, value, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, fname)
    except OSError as e:
        raise MXNetOSError("save: %s: %s" % (fname, e.strerror or e)) from None
    finally:
        if os.path.exists(aside):
            os.remove(aside)


def _load_npz(fname):
    try:
        with zipfile.ZipFile(fname) as archive:
            return {
                name[: -len(".npy")]: _array_of_entry(archive, name)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
    except MXNetError:
        raise
    except Exception as e:  # of many classes, when bytes are damaged
        text = getattr(e, "strerror", None) or "%s: %s" % (type(e).__name__, e)
        place = "buffer" if isinstance(fname, io.BytesIO) else fname
        raise MXNetOSError("load: %s: %s" % (place, text)) from e


def _array_of_entry(archive, name):
    with archive.open(name) as entry:
        value = np.lib.format.read_array(entry, allow_pickle=False)
    return _plait.from_buffer(np.asarray(native(value), order="C"), None, 1, 0)


def load(fname):
    """The arrays of a file: a list, or a dict when they have names.

    fname is a path, whose ending says the format, or an object with read(), whose bytes
    do.
    """
    if hasattr(fname, "read"):
        return load_frombuffer(fname.read())
    if not isinstance(fname, (str, bytes, os.PathLike)):
        raise MXNetTypeError("load: fname required to be a string")
    fname = os.fsdecode(fname)
    format = _format_of(fname)
    if format == "npz":
        return _load_npz(fname)
    if format == "safetensors":
        return _load_safetensors(fname)
    return _result(*_plait.load_params(fname))


def load_frombuffer(buf):
    """The arrays of a file's bytes, in any of the formats of save()."""
    if not isinstance(buf, (bytes, bytearray, memoryview)):
        raise MXNetTypeError("load_frombuffer: buf required to be a string or bytes")
    buf = bytes(buf)
    if buf[:2] == b"PK":  # a zip archive
        return _load_npz(io.BytesIO(buf))
    if buf[8:9] == b"{":  # after the length of the header, of which the top is zero
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "buffer.safetensors")
            with open(path, "wb") as file:
                file.write(buf)
            return _load_safetensors(path)
    return _result(*_plait.load_params_bytes(buf))


def _load_safetensors(fname):
    names, arrays = _plait.load_safetensors(fname)
    return dict(zip(names, arrays))


def _result(names, arrays):
    return dict(zip(names, arrays)) if names else arrays
