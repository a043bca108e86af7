"""Saving and loading arrays: MXNet's .params, NumPy's .npz, and safetensors."""

import os

import numpy as np

from .. import _plait
from ..error import MXNetTypeError, MXNetValueError
from . import ndarray as _nd
from ._core import NDArray

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
    fname = os.fspath(fname)
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
    aside = fname + ".part.npz"
    try:
        np.savez(aside, **{n: a.asnumpy() for n, a in zip(names, arrays)})
        os.replace(aside, fname)
    finally:
        if os.path.exists(aside):
            os.remove(aside)


def load(fname):
    """The arrays of a file: a list, or a dict when they have names."""
    if not isinstance(fname, (str, os.PathLike)):
        raise MXNetTypeError("load: fname required to be a string")
    fname = os.fspath(fname)
    if fname.endswith(".npz"):
        with np.load(fname, allow_pickle=False) as file:
            return {
                n: _plait.from_buffer(np.asarray(file[n], order="C"), None, 1, 0)
                for n in file.files
            }
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
