"""Operators on the parts of sparse arrays: each takes (arrays, params) and returns the
result, or None where dense arrays have to do.
"""

import operator

import numpy as np

from .. import _plait
from ..base import dtype_name
from ..error import MXNetTypeError, MXNetValueError
from ._core import NDArray, op

_take = op("take")
_scatter = op("_backward_take")


def storage(x):
    """'default', 'row_sparse' or 'csr'."""
    return x.stype if isinstance(x, NDArray) else "default"


def int64(values, like):
    """An int64 array of NumPy numbers, on the device of an array."""
    return _plait.from_buffer(
        np.ascontiguousarray(values, np.int64), None, *like._device
    )


def same_storage(x, data, *indices):
    """A sparse array of x's shape and device with other parts."""
    return _plait.make_sparse(x.shape, *x._device, data, *indices)


def csr_rows(x):
    """The row number of each value of a csr array, as NumPy numbers."""
    _, indices, indptr = _plait.sparse_parts(x)
    bounds = indptr.asnumpy()
    return np.repeat(np.arange(len(bounds) - 1), np.diff(bounds)), indices.asnumpy()


def from_keys(x, data, keys):
    """A csr array like x with values at places row * columns + column, ascending."""
    columns = max(x.shape[1], 1)
    bounds = np.searchsorted(keys, np.arange(x.shape[0] + 1) * columns)
    return _plait.make_sparse(
        x.shape, *x._device, data, int64(keys % columns, x), int64(bounds, x)
    )


def keyed(x):
    """(values, places) of any sparse array: rows, or elements of csr in order."""
    if x.stype == "row_sparse":
        data, indices = _plait.sparse_parts(x)
        return data, indices.asnumpy()
    rows, columns = csr_rows(x)
    keys = rows * max(x.shape[1], 1) + columns
    data = _plait.sparse_parts(x)[0]
    if np.any(keys[1:] <= keys[:-1]):
        order = np.argsort(keys, kind="stable")
        data, keys = _take(data, int64(order, x)), keys[order]
    return data, keys


def placed(x, data, keys):
    """The sparse array like x with the values of keyed()."""
    if x.stype == "row_sparse":
        return same_storage(x, data, int64(keys, x))
    return from_keys(x, data, keys)


# ---------------------------------------------------------------- one array


def on_data(name):
    """An operator with f(0) = 0, on the values alone."""

    def compute(arrays, params):
        data, *indices = _plait.sparse_parts(arrays[0])
        return same_storage(arrays[0], op(name)(data, **params), *indices)

    return compute


_SCALAR = {
    "_mul_scalar": operator.mul,
    "_div_scalar": lambda x, c: x / c if c else np.nan,
    "_plus_scalar": operator.add,
    "_minus_scalar": operator.sub,
    "_equal_scalar": operator.eq,
    "_not_equal_scalar": operator.ne,
    "_greater_scalar": operator.gt,
    "_greater_equal_scalar": operator.ge,
    "_lesser_scalar": operator.lt,
    "_lesser_equal_scalar": operator.le,
}


def scalar_keeps_zero(name):
    """Whether an operator with a number gives 0 for 0, as a function of its params."""
    function = _SCALAR[name]

    def keeps(params):
        return name == "_mul_scalar" or function(0.0, float(params["scalar"])) == 0

    return keeps


def scalar_on_data(name):
    """An operator with a number, sparse where it keeps zeros."""
    on_parts, keeps = on_data(name), scalar_keeps_zero(name)
    return lambda arrays, params: on_parts(arrays, params) if keeps(params) else None


def clip_keeps_zero(params):
    return float(params["a_min"]) <= 0 <= float(params["a_max"])


def clip(arrays, params):
    return on_data("clip")(arrays, params) if clip_keeps_zero(params) else None


def quadratic_type(stypes, params):
    csr = stypes[0] == "csr" and float(params.get("c", 0.0)) == 0
    return "csr" if csr else "default"


def quadratic(arrays, params):
    """a x^2 + b x + c, csr where c is 0."""
    if quadratic_type([arrays[0].stype], params) != "csr":
        return None
    return on_data("_contrib_quadratic")(arrays, params)


def checked(rule):
    """Dense arrays have to do, where the rule of storage allows it."""

    def compute(arrays, params):
        rule([storage(x) for x in arrays if x is not None], params)
        return None

    return compute


def zeros_like(arrays, params):
    x = arrays[0]
    dtype = params.get("dtype")
    dtype = x._dtype_name if dtype is None else dtype_name(dtype)
    return _plait.empty_sparse(x.stype, x.shape, dtype, *x._device)


def copy(arrays, params):
    return same_storage(arrays[0], *_plait.sparse_parts(arrays[0]))


def cast(arrays, params):
    return on_data("Cast")(arrays, params)


def cast_storage(arrays, params):
    return _plait.cast_storage(arrays[0], params["stype"])


def retain(arrays, params):
    x, rows = arrays
    if storage(x) != "row_sparse":
        raise MXNetTypeError(
            "sparse_retain: data is %s; a row_sparse array was expected" % storage(x)
        )
    return _plait.retain_rows(x, op("Cast")(rows.reshape((-1,)), dtype="int64"))


def slice_csr(arrays, params):
    x = arrays[0]
    step = params.get("step") or ()
    step = step if isinstance(step, (tuple, list)) else (step,)
    if x.stype != "csr" or any(s not in (None, 1) for s in step):
        return None
    bounds = []
    for axis in range(2):
        first, last = (_entry(params[key], axis) for key in ("begin", "end"))
        first, last, _ = slice(first, last).indices(x.shape[axis])
        bounds.append((first, last))
    (r0, r1), (c0, c1) = bounds
    if r1 <= r0 or c1 <= c0:
        raise MXNetValueError(
            "slice: begin %s and end %s select nothing of shape %s; at least one "
            "element was expected" % (params["begin"], params["end"], x.shape)
        )
    return sliced(x, r0, r1, c0, c1)


def _entry(value, axis):
    value = value if isinstance(value, (tuple, list)) else (value,)
    return value[axis] if axis < len(value) else None


def sliced(x, r0, r1, c0, c1):
    """Rows [r0, r1) and columns [c0, c1) of a csr array."""
    data, indices, indptr = _plait.sparse_parts(x)
    bounds = indptr.asnumpy()[r0 : r1 + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    shape = (r1 - r0, c1 - c0)
    if c0 == 0 and c1 == x.shape[1]:
        at, columns, bounds = np.arange(first, last), None, bounds - first
        columns = indices.asnumpy()[first:last]
    else:
        all_columns = indices.asnumpy()[first:last]
        keep = (all_columns >= c0) & (all_columns < c1)
        at, columns = first + np.flatnonzero(keep), all_columns[keep] - c0
        bounds = np.concatenate([[0], np.cumsum(keep)])[bounds - first]
    values = _take(data, int64(at, x)) if len(at) else _empty(data, x)
    return _plait.make_sparse(
        shape, *x._device, values, int64(columns, x), int64(bounds, x)
    )


def _empty(data, x):
    return _plait.empty((0,) + data.shape[1:], data._dtype_name, *x._device)


def reduced(name):
    """sum and mean of csr along one axis; the norm of all elements."""

    def compute(arrays, params):
        x, axis = arrays[0], params.get("axis")
        axis = axis[0] if isinstance(axis, (tuple, list)) and len(axis) == 1 else axis
        if params.get("exclude") or x.stype != "csr" or axis not in (0, 1, -1, -2):
            return None
        data, _, _ = _plait.sparse_parts(x)
        rows, columns = csr_rows(x)
        axis %= 2
        at, size = (columns, x.shape[1]) if axis == 0 else (rows, x.shape[0])
        y = _scatter(data, int64(at, x), axis=0, size=size)
        y = y / x.shape[axis] if name == "mean" else y
        return op("expand_dims")(y, axis=axis) if params.get("keepdims") else y

    return compute


def norm(arrays, params):
    x, axis = arrays[0], params.get("axis")
    if axis not in (None, ()) or params.get("keepdims") or params.get("ord", 2) != 2:
        return None
    data = _plait.sparse_parts(x)[0]
    return op("norm")(data.reshape((-1,)), **params) if data.size else None


def square_sum(arrays, params):
    """The sum of squares of the rows (axis 1) or columns (axis 0) of a row_sparse."""
    x, axis = arrays[0], params.get("axis")
    axis = axis[0] if isinstance(axis, (tuple, list)) and len(axis) == 1 else axis
    if x.stype != "row_sparse" or x.ndim != 2 or axis not in (0, 1, -1, -2):
        return None
    data, indices = _plait.sparse_parts(x)
    y = op("sum")(op("square")(data), axis=axis, keepdims=bool(params.get("keepdims")))
    if axis % 2 == 0 or not params.get("keepdims"):
        return y if axis % 2 == 0 else _scatter(y, indices, size=x.shape[0])
    return _plait.make_sparse((x.shape[0], 1), *x._device, y, indices)


def getnnz(arrays, params):
    x, axis = arrays[0], params.get("axis")
    if x.stype != "csr":
        raise MXNetTypeError(
            "getnnz: data is %s; a csr array was expected" % storage(x)
        )
    _, indices, indptr = _plait.sparse_parts(x)
    if axis is None:
        return int64([indices.size], x)
    if axis not in (1, -1):
        raise MXNetValueError("getnnz: axis is %r; None or 1 was expected" % (axis,))
    return int64(np.diff(indptr.asnumpy()), x)


# ---------------------------------------------------------------- several arrays


def combine(name):
    """Sums and differences: values where either array has some."""

    def compute(arrays, params):
        x, y = arrays
        kinds = {storage(x), storage(y)}
        if x.shape != y.shape or len(kinds) > 1 or x._dtype_name != y._dtype_name:
            return None
        (a, p), (b, q) = keyed(x), keyed(y)
        if np.array_equal(p, q):
            return placed(x, op("elemwise_" + name)(a, b), p)
        b = op("negative")(b) if name == "sub" else b
        keys, at = np.unique(np.concatenate([p, q]), return_inverse=True)
        both = op("Concat")(a, b, dim=0)
        data = _scatter(both, int64(at.reshape(-1), x), axis=0, size=len(keys))
        return placed(x, data, keys)

    return compute


def united(name):
    """f(x, y) with f(0, 0) = 0 of equal storages: values where either has some."""

    def compute(arrays, params):
        x, y = arrays
        if x.shape != y.shape or storage(x) != storage(y):
            return None
        if x._dtype_name != y._dtype_name:
            return None
        (a, p), (b, q) = keyed(x), keyed(y)
        keys = np.union1d(p, q)
        if not len(keys):
            return zeros_like([x], {})
        a = _at(a, np.searchsorted(keys, p), len(keys), x)
        b = _at(b, np.searchsorted(keys, q), len(keys), x)
        return placed(x, op(name)(a, b), keys)

    return compute


def _at(data, places, size, x):
    """The values at places of `size`, zeros elsewhere."""
    if not len(places):
        shape = (size,) + data.shape[1:]
        return op("_zeros")(shape=shape, dtype=data._dtype_name)
    return _scatter(data, int64(places, x), axis=0, size=size)


def scatter_div(arrays, params):
    """x / y where x has values; zero elsewhere, whatever y is there."""
    x, y = arrays
    if storage(x) == "default" or x.shape != y.shape:
        return None
    data, keys = keyed(x)
    if not len(keys):
        return copy([x], {})
    y = y.tostype("default")
    values = y.reshape((-1,)) if x.stype == "csr" else y
    return placed(x, op("elemwise_div")(data, _take(values, int64(keys, x))), keys)


def product(broadcasts):
    """Products: values where both arrays have some."""

    def compute(arrays, params):
        x, y = arrays
        kinds = {storage(x), storage(y)}
        if x.shape != y.shape:
            return _by_columns("broadcast_mul", x, y) if broadcasts else None
        if x._dtype_name != y._dtype_name or kinds == {"row_sparse", "csr"}:
            return None
        if "default" in kinds:
            if broadcasts and x.stype != "csr":
                return None
            sparse, dense = (y, x) if storage(x) == "default" else (x, y)
            data, keys = keyed(sparse)
            values = dense.reshape((-1,)) if sparse.stype == "csr" else dense
            others = _take(values, int64(keys, x)) if len(keys) else data
            return placed(sparse, op("elemwise_mul")(data, others), keys)
        (a, p), (b, q) = keyed(x), keyed(y)
        keys, i, j = np.intersect1d(p, q, assume_unique=True, return_indices=True)
        if not len(keys):
            return zeros_like([x], {})
        a, b = _take(a, int64(i, x)), _take(b, int64(j, x))
        return placed(x, op("elemwise_mul")(a, b), keys)

    return compute


def _by_columns(name, x, y):
    """csr with a dense row that is broadcast: a value with that of its column."""
    row = (x.shape[1],) if x.ndim == 2 else ()
    if x.stype != "csr" or storage(y) != "default" or y.shape not in (row, (1,) + row):
        return None
    data, indices, indptr = _plait.sparse_parts(x)
    if not data.size:
        return copy([x], {})
    others = _take(y.reshape((-1,)), indices)
    return same_storage(x, op(name)(data, others), indices, indptr)


def divided_by_row(arrays, params):
    return _by_columns("broadcast_div", *arrays)


def add_n(arrays, params):
    if any(storage(x) != "row_sparse" for x in arrays):
        return None
    total = arrays[0]
    for x in arrays[1:]:
        total = _plait.add_sparse(total, x)
    return total if len(arrays) > 1 else copy(arrays, params)


def concat(arrays, params):
    if any(storage(x) != "csr" for x in arrays) or int(params.get("dim", 1)) != 0:
        return None
    columns = {x.shape[1] for x in arrays}
    if len(columns) > 1:
        raise MXNetValueError(
            "Concat: the csr arrays have %s columns; the same number was expected"
            % sorted(columns)
        )
    parts = [_plait.sparse_parts(x) for x in arrays]
    bounds, total = [np.zeros(1, np.int64)], 0
    for _, indices, indptr in parts:
        bounds.append(indptr.asnumpy()[1:] + total)
        total += indices.size
    first = arrays[0]
    data = op("Concat")(*[p[0] for p in parts], dim=0)
    indices = op("Concat")(*[p[1] for p in parts], dim=0)
    shape = (sum(x.shape[0] for x in arrays), first.shape[1])
    return _plait.make_sparse(
        shape, *first._device, data, indices, int64(np.concatenate(bounds), first)
    )


def take(arrays, params):
    x, ids = arrays
    if storage(x) != "csr" or storage(ids) != "default" or ids.ndim != 1:
        return None
    if int(params.get("axis", 0)) != 0 or params.get("mode") == "raise":
        return None
    rows, n = ids.asnumpy().astype(np.int64), x.shape[0]
    rows = rows % n if params.get("mode") == "wrap" else np.clip(rows, 0, n - 1)
    data, indices, indptr = _plait.sparse_parts(x)
    bounds = indptr.asnumpy()
    counts = np.diff(bounds)[rows]
    new = np.concatenate([[0], np.cumsum(counts)])
    at = np.repeat(bounds[rows] - new[:-1], counts) + np.arange(new[-1])
    if len(at):
        data, indices = _take(data, int64(at, x)), _take(indices, int64(at, x))
    else:
        data, indices = _empty(data, x), _empty(indices, x)
    shape = (len(rows), x.shape[1])
    return _plait.make_sparse(shape, *x._device, data, indices, int64(new, x))


def where(arrays, params):
    condition, x, y = arrays
    if storage(condition) != "csr" or "default" != storage(x) != storage(y):
        return None
    picked = op("where")
    dense = op("_not_equal_scalar")(condition.tostype("default"), scalar=0)
    return picked(dense, x, y)


def rows_of(weight, ids):
    """(data, places): weight[ids[j]] is data[places[j]]; a row that a row_sparse
    weight lacks is one of zeros.
    """
    data, indices = _plait.sparse_parts(weight)
    have = indices.asnumpy()
    if len(have) == weight.shape[0]:
        return data, ids
    at = np.searchsorted(have, ids)
    found = np.isin(ids, have)
    zero = op("_zeros")(shape=(1,) + data.shape[1:], dtype=data._dtype_name)
    return op("Concat")(data, zero, dim=0), np.where(found, at, len(have))


def embedding(arrays, params):
    data, weight = arrays
    if storage(weight) != "row_sparse" or storage(data) != "default":
        return None
    shape = (int(params["input_dim"]), int(params["output_dim"]))
    if weight.shape != shape:
        raise MXNetValueError(
            "Embedding: weight has shape %s; (input_dim, output_dim), %s, was expected"
            % (weight.shape, shape)
        )
    ids = np.clip(data.asnumpy().astype(np.int64), 0, shape[0] - 1)
    values, places = rows_of(weight, ids)
    return _take(values, int64(places, weight))


def fully_connected(arrays, params):
    """Dense data and a row_sparse weight of all rows, which are the weight."""
    weight = arrays[1]
    if storage(weight) != "row_sparse" or storage(arrays[0]) != "default":
        return None
    data, indices = _plait.sparse_parts(weight)
    if indices.size != weight.shape[0]:
        return None
    rest = [x.tostype("default") for x in arrays[2:] if x is not None]
    return op("FullyConnected")(arrays[0], data, *rest, **params)
