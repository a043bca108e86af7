"""Functions that make arrays, and exchange with NumPy and through DLPack."""

import weakref

import numpy as np

from .. import _plait
from ..error import MXNetTypeError, MXNetValueError
from ._core import (
    NDArray,
    bfloat16,
    device_of,
    dtype_name,
    native,
    number_of,
    numpy_type,
    op,
)

__all__ = [
    "array",
    "empty",
    "zeros",
    "ones",
    "full",
    "arange",
    "linspace",
    "eye",
    "from_numpy",
    "from_dlpack",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
]

_full = op("_full")
_WRITEABLE = {"WRITEABLE": True}


def empty(shape, ctx=None, dtype=None, stype=None):
    """An array of undefined values; a sparse one has none, so it is zeros."""
    if stype not in (None, "default"):
        from . import sparse

        return sparse.empty(stype, shape, ctx, dtype)
    if not isinstance(shape, (int, tuple)):
        shape = int(shape) if isinstance(shape, np.integer) else tuple(shape)
    return _plait.empty(shape, dtype, *device_of(ctx))


def full(shape, val, ctx=None, dtype=None, out=None):
    """An array filled with a number; of the default dtype unless `dtype` is given."""
    if out is not None:
        out[:] = val
        return out
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    value = number_of(val, "full: val")
    return _full(shape=shape, value=value, dtype=dtype_name(dtype), ctx=ctx)


def zeros(shape, ctx=None, dtype=None, stype=None, **kwargs):
    """An array of zeros; of the default dtype unless `dtype` is given."""
    if stype not in (None, "default"):
        from . import sparse

        return sparse.zeros(stype, shape, ctx, dtype)
    return full(shape, 0, ctx, dtype, **kwargs)


def ones(shape, ctx=None, dtype=None, **kwargs):
    """An array of ones; of the default dtype unless `dtype` is given."""
    return full(shape, 1, ctx, dtype, **kwargs)


def array(source_array, ctx=None, dtype=None):
    """A new array with the values of an array, a NumPy array or nested sequences.

    Without `dtype` an NDArray keeps its own and everything else becomes float32, also a
    NumPy array of float64 or int64; with util.set_np_default_dtype(True) NumPy arrays
    keep theirs, and other numbers become float64.
    """
    device = device_of(ctx)
    if isinstance(source_array, NDArray):
        return source_array.astype(source_array.dtype if dtype is None else dtype)
    if type(source_array).__module__.startswith("scipy.sparse"):
        from . import sparse

        return sparse.array(source_array, ctx, dtype)
    if not isinstance(source_array, np.ndarray):
        try:
            source_array = np.array(_plain(source_array), dtype=_source_type(dtype))
        except (TypeError, ValueError) as e:
            raise MXNetTypeError(
                "array: source_array must be array like object; %s" % e
            ) from None
    source_array = np.asarray(native(source_array), order="C")
    if source_array.dtype.kind in "OUSMmV" and source_array.dtype != bfloat16:
        raise MXNetTypeError(
            "array: dtype %s has no counterpart here; numbers were expected"
            % source_array.dtype
        )
    if dtype is None and _plait.default_dtype() == "float32":
        dtype = "float32"
    return _plait.from_buffer(source_array, dtype, *device)


def _source_type(dtype):
    # Python numbers go straight to the wanted type, so that large integers stay exact.
    name = dtype_name(dtype)
    return np.float32 if name == "bfloat16" else numpy_type(name)


def _plain(values):
    """Arrays inside sequences as NumPy arrays."""
    if isinstance(values, (list, tuple)):
        return [_plain(v) for v in values]
    return values.asnumpy() if isinstance(values, NDArray) else values


def arange(
    start, stop=None, step=1.0, repeat=1, infer_range=None, ctx=None, dtype=None
):
    """Numbers from start (0 when only one is given) to stop, each repeated."""
    if stop is None and not infer_range:
        start, stop = 0, start
    return op("_arange")(
        start=start,
        stop=stop,
        step=step,
        repeat=repeat,
        dtype=dtype_name(dtype),
        ctx=ctx,
    )


def linspace(start, stop, num, endpoint=True, ctx=None, dtype=None):
    """`num` numbers at equal distances from start to stop."""
    return op("_linspace")(
        start=start,
        stop=stop,
        num=num,
        endpoint=endpoint,
        dtype=dtype_name(dtype),
        ctx=ctx,
    )


def eye(N, M=0, k=0, ctx=None, dtype=None, **kwargs):
    """Ones on the k-th diagonal of an (N, M) array, M = N by default."""
    return op("_eye")(N=N, M=M, k=k, dtype=dtype_name(dtype), ctx=ctx, **kwargs)


# NumPy arrays whose memory from_numpy shares; that is why they are read-only.
_lent = weakref.WeakValueDictionary()


def from_numpy(ndarray, zero_copy=True, array_cls=None):
    """An array on the memory of a NumPy array, which becomes read-only; or a copy.

    The memory of an array that is read-only for another reason is copied: what it
    belongs to must not change.
    """
    writeable = getattr(ndarray, "flags", _WRITEABLE)["WRITEABLE"]
    if not zero_copy or not (writeable or _lent.get(id(ndarray)) is ndarray):
        return _plait.from_buffer(np.asarray(ndarray, order="C"), None, 1, 0)
    if not isinstance(ndarray, np.ndarray):
        raise MXNetTypeError(
            "from_numpy: got %s; a numpy.ndarray was expected" % type(ndarray).__name__
        )
    if not ndarray.flags["C_CONTIGUOUS"]:
        raise MXNetValueError(
            "from_numpy: the array is not contiguous; only C-contiguous "
            "numpy.ndarrays can share memory (zero_copy=False copies)"
        )
    ndarray.flags["WRITEABLE"] = True
    result = _plait.borrow_buffer(ndarray)
    ndarray.flags["WRITEABLE"] = False
    _lent[id(ndarray)] = ndarray
    return result


def from_dlpack(dlpack):
    """An array on the memory of a DLPack capsule, or of an object with __dlpack__."""
    return _plait.from_dlpack(
        dlpack.__dlpack__() if hasattr(dlpack, "__dlpack__") else dlpack
    )


def to_dlpack_for_read(data):
    """A DLPack capsule of the array, once earlier writes are done."""
    return _plait.to_dlpack(data)


def to_dlpack_for_write(data):
    """A DLPack capsule of the array, once earlier reads and writes are done."""
    data.wait_to_write()
    return _plait.to_dlpack(data)
