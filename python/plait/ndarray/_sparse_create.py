"""Making sparse arrays: of shapes, parts, coordinates, scipy matrices, dense arrays."""

import numpy as np

from .. import _plait
from ..context import current_context
from ..error import MXNetTypeError, MXNetValueError
from . import ndarray as _nd
from ._core import NDArray, device_of, dtype_name
from ._core import op as _op
from ._sparse_arrays import CSRNDArray, RowSparseNDArray
from .creation import array as _dense_array

__all__ = ["csr_matrix", "row_sparse_array", "array", "zeros", "empty"]


def zeros(stype, shape, ctx=None, dtype=None, **kwargs):
    """An array of zeros of a storage type; float32 unless `dtype` is given."""
    if stype == "default":
        return _nd.zeros(shape, ctx=ctx, dtype=dtype, **kwargs)
    if stype not in ("row_sparse", "csr"):
        raise MXNetValueError("unknown storage type: %s" % (stype,))
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    out = kwargs.pop("out", None)
    result = _plait.empty_sparse(stype, shape, dtype_name(dtype), *device_of(ctx))
    return result if out is None else result.copyto(out)


def empty(stype, shape, ctx=None, dtype=None):
    """zeros(); a sparse array has no undefined values."""
    if stype not in ("row_sparse", "csr"):
        raise MXNetValueError("unknown stype : %s" % (stype,))
    return zeros(stype, shape, ctx, dtype)


def array(source_array, ctx=None, dtype=None):
    """A sparse array of the values of a sparse one, or of a scipy.sparse matrix."""
    if isinstance(source_array, NDArray):
        if source_array.stype == "default":
            raise MXNetValueError(
                "Please use mx.nd.array to create an NDArray with source_array of "
                "type %s" % type(source_array)
            )
        if source_array.stype == "csr":
            return csr_matrix(source_array, ctx=ctx, dtype=dtype)
        return row_sparse_array(source_array, ctx=ctx, dtype=dtype)
    if _is_scipy(source_array):
        csr = source_array.tocsr(copy=True)
        csr.sum_duplicates()
        return csr_matrix(csr, ctx=ctx, dtype=dtype)
    raise MXNetValueError("Unexpected source_array type: %s" % type(source_array))


def _is_scipy(x):
    return type(x).__module__.startswith("scipy.sparse")


def _is_shape(x):
    return isinstance(x, tuple) and all(isinstance(n, (int, np.integer)) for n in x)


def _check_shape(given, wanted):
    if wanted is not None and tuple(given) != tuple(wanted):
        raise MXNetValueError(
            "Shape mismatch detected. %s v.s. %s" % (tuple(given), tuple(wanted))
        )


def _values(source, dtype):
    """A dense array; without dtype an array keeps its own, and others are float32."""
    if dtype is None and isinstance(source, (NDArray, np.ndarray)):
        dtype = source.dtype
    if _is_scipy(source):
        raise MXNetTypeError("values must be array like object")
    return _dense_array(source, dtype=dtype)


def _indices(source):
    if isinstance(source, NDArray):
        return source.astype("int64").reshape((-1,))
    values = np.asarray(source)
    if values.size and values.dtype.kind not in "iu" and np.any(values != values // 1):
        raise MXNetTypeError(
            "sparse: indices are %s; whole numbers were expected" % values.dtype
        )
    return _plait.from_buffer(
        np.ascontiguousarray(values.reshape(-1), dtype=np.int64), None, 1, 0
    )


def _made(shape, ctx, data, *indices):
    result = _plait.make_sparse(tuple(int(n) for n in shape), 1, 0, data, *indices)
    ctx = current_context() if ctx is None else ctx
    return result.as_in_context(ctx)


def _converted(dense, stype, ctx, dtype, shape):
    _check_shape(dense.shape, shape)
    result = _plait.cast_storage(_values(dense, dtype), stype)
    return result.as_in_context(current_context() if ctx is None else ctx)


def _recast(x, ctx, dtype):
    x = x.copy() if dtype is None else x.astype(dtype)
    return x.as_in_context(current_context() if ctx is None else ctx)


def csr_matrix(arg1, shape=None, ctx=None, dtype=None):
    """A csr array of: a shape (M, N); (data, indices, indptr); (data, (row, column)),
    where values of the same place are added up; a scipy.sparse.csr_matrix; a csr array;
    or anything dense.

    Indices are taken as they are: check_format() tells whether they are sound.
    """
    if isinstance(arg1, tuple):
        if len(arg1) == 2 and _is_shape(arg1):
            _check_shape(arg1, shape)
            return zeros("csr", arg1, ctx=ctx, dtype=dtype)
        if len(arg1) == 2:
            return _csr_of_coordinates(*arg1, shape, ctx, dtype)
        if len(arg1) == 3:
            return _csr_of_parts(*arg1, shape, ctx, dtype)
        raise MXNetValueError("Unexpected length of input tuple: %d" % len(arg1))
    if isinstance(arg1, CSRNDArray):
        _check_shape(arg1.shape, shape)
        return _recast(arg1, ctx, dtype)
    if isinstance(arg1, RowSparseNDArray):
        raise MXNetValueError("Unexpected input type: RowSparseNDArray")
    if _is_scipy(arg1):
        csr = arg1.tocsr()
        _check_shape(csr.shape, shape)
        return _csr_of_parts(csr.data, csr.indices, csr.indptr, csr.shape, ctx, dtype)
    return _converted(_values(arg1, dtype), "csr", ctx, dtype, shape)


def _csr_of_coordinates(data, places, shape, ctx, dtype):
    row, column = (_indices(p).asnumpy() for p in places)
    data = _values(data, dtype)
    if shape is None:
        if not len(row):
            raise MXNetValueError("invalid shape")
        shape = (int(row.max()) + 1, int(column.max()) + 1)
    low = min(row.min(), column.min()) if len(row) else 0
    if len(row) != len(column) or len(row) != data.shape[0] or low < 0:
        raise MXNetValueError(
            "csr_matrix: %d values, %d rows and %d columns are given, the lowest "
            "number being %d; as many of each, from 0, were expected"
            % (data.shape[0], len(row), len(column), low)
        )
    if len(row) and (row.max() >= shape[0] or column.max() >= shape[1]):
        raise MXNetValueError(
            "csr_matrix: a value is at (%d, %d) or beyond; places inside of shape %s "
            "were expected" % (row.max(), column.max(), tuple(shape))
        )
    keys, at = np.unique(row * shape[1] + column, return_inverse=True)
    if len(keys):
        data = _op("_backward_take")(data, _indices(at), axis=0, size=len(keys))
    bounds = np.searchsorted(keys, np.arange(shape[0] + 1) * shape[1])
    return _made(shape, ctx, data, _indices(keys % shape[1]), _indices(bounds))


def _csr_of_parts(data, indices, indptr, shape, ctx, dtype):
    data, indices, indptr = _values(data, dtype), _indices(indices), _indices(indptr)
    if shape is None:
        if indices.size == 0:
            raise MXNetValueError("invalid shape")
        shape = (indptr.size - 1, int(indices.asnumpy().max()) + 1)
    elif len(shape) != 2:
        raise MXNetValueError("invalid shape")
    return _made(shape, ctx, data.reshape((-1,)), indices, indptr)


def row_sparse_array(arg1, shape=None, ctx=None, dtype=None):
    """A row_sparse array of: a shape; (data, indices); a row_sparse array; or anything
    dense.
    """
    if isinstance(arg1, tuple):
        if len(arg1) < 2:
            raise MXNetValueError("Unexpected length of input tuple: %d" % len(arg1))
        if _is_shape(arg1):
            _check_shape(arg1, shape)
            return zeros("row_sparse", arg1, ctx=ctx, dtype=dtype)
        if len(arg1) != 2:
            raise MXNetValueError("Unexpected length of input tuple: %d" % len(arg1))
        data, indices = _values(arg1[0], dtype), _indices(arg1[1])
        if shape is None:
            if indices.size == 0:
                raise MXNetValueError("invalid shape")
            shape = (int(indices.asnumpy().max()) + 1,) + data.shape[1:]
        if data.size == 0 and data.ndim < len(shape):  # of no rows, as [] is
            data = _plait.empty((0,) + tuple(shape[1:]), data._dtype_name, 1, 0)
        return _made(shape, ctx, data, indices)
    if isinstance(arg1, RowSparseNDArray):
        _check_shape(arg1.shape, shape)
        return _recast(arg1, ctx, dtype)
    if isinstance(arg1, CSRNDArray):
        raise MXNetValueError("Unexpected input type: CSRNDArray")
    return _converted(_values(arg1, dtype), "row_sparse", ctx, dtype, shape)
