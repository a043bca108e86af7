"""Saving and loading arrays: MXNet's .params, NumPy's .npz, and safetensors."""

import os
import zipfile

import numpy as np

from .. import _plait
from ..error import MXNetError, MXNetOSError, MXNetTypeError, MXNetValueError
from . import ndarray as _nd
from ._core import NDArray, native

__all__ = ["zeros", "empty", "array", "load", "load_frombuffer", "save"]

zeros, empty, array = _nd.zeros, _nd.empty, _nd.array


def save(fname, data):
    """Writes an array, a list or a dict of name to array to a file.

    The ending chooses the format: .npz (NumPy), .safetensors, and MXNet's for all
    others.
    The file is written aside and renamed, so that a failure leaves the old one.
    """
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
    if fname.endswith(".npz"):
        _save_npz(fname, names, arrays)
    elif fname.endswith(".safetensors"):
        _plait.save_safetensors(
            fname, names or [str(i) for i in range(len(arrays))], arrays
        )
    else:
        _plait.save_params(fname, names, arrays)


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
        raise MXNetOSError("load: %s: %s" % (fname, text)) from e


def _array_of_entry(archive, name):
    with archive.open(name) as entry:
        value = np.lib.format.read_array(entry, allow_pickle=False)
    return _plait.from_buffer(np.asarray(native(value), order="C"), None, 1, 0)


def load(fname):
    """The arrays of a file: a list, or a dict when they have names."""
    if not isinstance(fname, (str, bytes, os.PathLike)):
        raise MXNetTypeError("load: fname required to be a string")
    fname = os.fsdecode(fname)
    if fname.endswith(".npz"):
        return _load_npz(fname)
    if fname.endswith(".safetensors"):
        names, arrays = _plait.load_safetensors(fname)
        return dict(zip(names, arrays))
    return _result(*_plait.load_params(fname))


def load_frombuffer(buf):
    """The arrays of a file's bytes."""
    if not isinstance(buf, (bytes, bytearray, memoryview, str)):
        raise MXNetTypeError("load_frombuffer: buf required to be a string or bytes")
    return _result(*_plait.load_params_bytes(bytes(buf)))


def _result(names, arrays):
    return dict(zip(names, arrays)) if names else arrays
