"""Products with csr matrices, and their gradients."""

from .. import _plait
from ..error import MXNetTypeError
from ._core import op
from ._sparse_math import storage

_csr_dot = op("_csr_dot")


def _dense_product(x, y, transpose_a):
    data, indices, indptr = _plait.sparse_parts(x)
    return _csr_dot(
        data, indices, indptr, y, transpose_a=transpose_a, num_cols=x.shape[1]
    )


def _row_sparse_product(x, y):
    """x^T y by the columns of x that have values."""
    data, indices, indptr = _plait.sparse_parts(x)
    rows, places = _plait.distinct_ids(indices, x.shape[1])
    shape = (x.shape[1],) + y.shape[1:]
    if not rows.size:
        return _plait.empty_sparse("row_sparse", shape, y._dtype_name, *x._device)
    values = _csr_dot(
        data,
        places,
        indptr,
        y,
        transpose_a=True,
        num_cols=rows.size,
    )
    return _plait.make_sparse(shape, *x._device, values, rows)


def product(x, y, transpose_a, sparse):
    """csr x, transposed or not, times dense y; row_sparse where asked for."""
    if x._dtype_name != y._dtype_name:
        raise MXNetTypeError(
            "dot: lhs is %s and rhs is %s; the same dtype was expected"
            % (x._dtype_name, y._dtype_name)
        )
    if transpose_a and sparse:
        return _row_sparse_product(x, y)
    return _dense_product(x, y, transpose_a)


def flags(params):
    """(transpose_a, transpose_b, forward_stype) of a call."""
    return (
        bool(params.get("transpose_a", False)),
        bool(params.get("transpose_b", False)),
        params.get("forward_stype"),
    )


def whole(x):
    """A dense array of the values, to be read only: no copy where that is possible."""
    if storage(x) == "row_sparse":
        data, indices = _plait.sparse_parts(x)
        if indices.size == x.shape[0]:
            return data
    return x.tostype("default")


def dot(arrays, params):
    """csr times dense or row_sparse, and dense times csr."""
    x, y = arrays
    left, right, wanted = flags(params)
    if storage(x) == "csr" and storage(y) != "csr" and not right and y.ndim <= 2:
        if wanted not in (None, "default", "row_sparse"):
            return None
        dense = whole(y)
        sparse = left and wanted != "default" and y.ndim == 2
        return product(x, dense, left, sparse)
    if storage(y) == "csr" and storage(x) == "default" and not left and x.ndim == 2:
        # x y = (y^T x^T)^T
        turned = product(y, op("transpose")(x), not right, False)
        result = op("transpose")(turned)
        if wanted == "default" or (right and wanted is None):
            return result
        return _plait.cast_storage(result, "csr")
    return None


def dot_gradient(arrays, params):
    """The gradient with respect to a dense or row_sparse rhs of csr times rhs."""
    x, y = arrays
    left, right, _ = flags(params)
    if storage(x) != "csr" or storage(y) == "csr" or right or _plait.is_tracked(x):
        return None
    grad = _plait.grad_of(y)
    sparse = storage(y) == "row_sparse" or (
        grad is not None and storage(grad) == "row_sparse"
    )

    def gradient(heads):
        return [None, product(x, heads[0], not left, sparse and not left)]

    return gradient


def embedding_gradient(arrays, params):
    """Rows of the head gradient added up where data says."""
    data, weight = arrays
    if storage(weight) != "row_sparse" or storage(data) != "default":
        return None
    return lambda heads: [None, _plait.sum_rows(heads[0], data, weight.shape)]
