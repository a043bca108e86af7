"""Random arrays and shapes, dense and sparse, for tests."""

import numpy as np
import numpy.random as rnd

from .. import ndarray as nd
from .tolerance import default_context, default_dtype

__all__ = [
    "random_arrays",
    "random_uniform_arrays",
    "random_sample",
    "rand_ndarray",
    "rand_sparse_ndarray",
    "create_sparse_array",
    "create_sparse_array_zd",
    "shuffle_csr_column_indices",
    "rand_shape_2d",
    "rand_shape_3d",
    "rand_shape_nd",
    "rand_coord_2d",
    "np_reduce",
    "collapse_sum_like",
    "assign_each",
    "assign_each2",
    "create_2d_tensor",
    "create_vector",
    "get_identity_mat",
    "get_identity_mat_batch",
    "new_matrix_with_real_eigvals_2d",
    "new_matrix_with_real_eigvals_nd",
    "new_orthonormal_matrix_2d",
    "new_sym_matrix_with_real_eigvals_2d",
    "new_sym_matrix_with_real_eigvals_nd",
]


def random_arrays(*shapes):
    """Standard normal float32 NumPy arrays; one alone for one shape."""
    arrays = [np.array(rnd.randn(*s), dtype=default_dtype()) for s in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes, low=0.0, high=1.0, dtype=None):
    """A list of uniform NumPy arrays."""
    return [
        rnd.uniform(low, high, size=s).astype(dtype or default_dtype()) for s in shapes
    ]


def random_sample(population, k):
    """k elements of a list, without repetition."""
    assert 0 <= k <= len(population)
    chosen = population[:]
    rnd.shuffle(chosen)
    return chosen[:k]


def _low(allow_zero_size):
    return 0 if allow_zero_size else 1


def rand_shape_2d(dim0=10, dim1=10, allow_zero_size=False):
    """A random shape of two axes, up to the given sizes."""
    return tuple(rnd.randint(_low(allow_zero_size), d + 1) for d in (dim0, dim1))


def rand_shape_3d(dim0=10, dim1=10, dim2=10, allow_zero_size=False):
    """A random shape of three axes, up to the given sizes."""
    return tuple(rnd.randint(_low(allow_zero_size), d + 1) for d in (dim0, dim1, dim2))


def rand_shape_nd(num_dim, dim=10, allow_zero_size=False):
    """A random shape of num_dim axes, each up to dim."""
    return tuple(rnd.randint(_low(allow_zero_size), dim + 1, size=num_dim))


def rand_coord_2d(x_low, x_high, y_low, y_high):
    """A random pair of int64."""
    return (
        rnd.randint(x_low, x_high, dtype=np.int64),
        rnd.randint(y_low, y_high, dtype=np.int64),
    )


def rand_ndarray(
    shape,
    stype="default",
    density=None,
    dtype=None,
    modifier_func=None,
    shuffle_csr_indices=False,
    distribution=None,
    ctx=None,
):
    """A random NDArray of any storage type."""
    ctx = ctx or default_context()
    if stype == "default":
        return nd.array(random_arrays(shape), dtype=dtype or default_dtype(), ctx=ctx)
    return rand_sparse_ndarray(
        shape,
        stype,
        density=density,
        modifier_func=modifier_func,
        dtype=dtype,
        shuffle_csr_indices=shuffle_csr_indices,
        distribution=distribution,
        ctx=ctx,
    )[0]


def shuffle_csr_column_indices(csr):
    """Shuffles the column numbers inside each row of a SciPy matrix."""
    for begin, end in zip(csr.indptr[:-1], csr.indptr[1:]):
        part = np.array(csr.indices[begin:end])
        rnd.shuffle(part)
        csr.indices[begin:end] = part


def _powerlaw_dense(rows, columns, density, dtype):
    """A matrix whose row r has twice as many values as row r-1, until none are left."""
    left = int(rows * columns * density)
    if left < 2 * rows:
        raise ValueError(
            "not supported for this density: %s for this shape (%s, %s)"
            % (density, rows, columns)
        )
    dense = np.zeros((rows, columns), dtype=dtype)
    dense[:, 0] = 1 + rnd.uniform(0.001, 2, rows)
    left -= rows
    width = 2
    for row in range(rows):
        count = min(columns, width) - 1
        count = min(count, left)
        dense[row, 1 : 1 + count] = 1 + rnd.uniform(0.001, 2, count)
        left -= count
        width *= 2
        if left <= 0:
            break
    return dense


def rand_sparse_ndarray(
    shape,
    stype,
    density=None,
    dtype=None,
    distribution=None,
    data_init=None,
    rsp_indices=None,
    modifier_func=None,
    shuffle_csr_indices=False,
    ctx=None,
):
    """(sparse array, its parts): (values, indices), or (indptr, indices, values) for
    csr.
    """
    ctx = ctx or default_context()
    density = rnd.rand() if density is None else density
    dtype = dtype or default_dtype()
    if stype == "row_sparse":
        rows = (
            np.argwhere(rnd.rand(shape[0]) < density).flatten()
            if rsp_indices is None
            else rsp_indices
        )
        assert len(rows) <= shape[0]
        if len(rows) == 0:
            return (
                nd.zeros(shape, stype="row_sparse", dtype=dtype, ctx=ctx),
                (np.array([], dtype=dtype), np.array([])),
            )
        values = rnd.rand(len(rows), *shape[1:]).astype(dtype)
        if data_init is not None:
            values.fill(data_init)
        if modifier_func is not None:
            values = assign_each(values, modifier_func)
        return (
            nd.sparse.row_sparse_array(
                (values, rows), shape=shape, dtype=dtype, ctx=ctx
            ),
            (values, rows),
        )
    assert stype == "csr" and len(shape) == 2, "unknown storage type %s" % stype
    if distribution == "powerlaw":
        csr = nd.array(_powerlaw_dense(*shape, density, dtype), ctx=ctx).tostype("csr")
    else:
        from scipy import sparse

        matrix = sparse.rand(*shape, density, dtype=dtype, format="csr")
        if data_init is not None:
            matrix.data.fill(data_init)
        if shuffle_csr_indices:
            shuffle_csr_column_indices(matrix)
        csr = nd.sparse.csr_matrix(
            (matrix.data, matrix.indices, matrix.indptr), shape=shape, dtype=dtype
        ).as_in_context(ctx)
    return csr, (csr.indptr, csr.indices, csr.data)


def create_sparse_array(
    shape,
    stype,
    data_init=None,
    rsp_indices=None,
    dtype=None,
    modifier_func=None,
    density=0.5,
    shuffle_csr_indices=False,
):
    """A sparse array with chosen rows or a chosen value."""
    if rsp_indices is not None:
        rsp_indices = np.sort(np.asarray(rsp_indices))
    return rand_sparse_ndarray(
        shape,
        stype,
        density=density,
        data_init=data_init,
        rsp_indices=rsp_indices if stype == "row_sparse" else None,
        dtype=dtype,
        modifier_func=modifier_func,
        shuffle_csr_indices=shuffle_csr_indices,
    )[0]


def create_sparse_array_zd(
    shape,
    stype,
    density,
    data_init=None,
    rsp_indices=None,
    dtype=None,
    modifier_func=None,
    shuffle_csr_indices=False,
):
    """create_sparse_array, row_sparse with no rows but the chosen ones."""
    if stype == "row_sparse":
        density = 0.0
        assert rsp_indices is None or len(rsp_indices) <= shape[0]
    return create_sparse_array(
        shape,
        stype,
        data_init,
        rsp_indices,
        dtype,
        modifier_func,
        density,
        shuffle_csr_indices,
    )


def np_reduce(dat, axis, keepdims, numpy_reduce_func):
    """A NumPy reduction over one axis, several, or (None) all."""
    axes = (
        range(dat.ndim)
        if axis is None
        else [axis]
        if isinstance(axis, int)
        else list(axis)
    )
    result = dat
    for i in sorted(axes, reverse=True):
        result = numpy_reduce_func(result, axis=i)
    if keepdims:
        result = np.reshape(
            result, [1 if i in axes else n for i, n in enumerate(dat.shape)]
        )
    return result


def collapse_sum_like(a, shape):
    """`a` summed down to a shape that broadcasts to it."""
    assert a.ndim >= len(shape)
    if np.prod(shape) == 0 or a.size == 0:
        return np.zeros(shape, dtype=a.dtype)
    more = a.ndim - len(shape)
    axes = list(range(more))
    for i, size in enumerate(shape):
        if size != a.shape[i + more]:
            assert size == 1
            axes.append(i + more)
    return np.sum(a, axis=tuple(axes)).reshape(shape)


def assign_each(the_input, function):
    """function of each element."""
    return (
        np.array(the_input) if function is None else np.vectorize(function)(the_input)
    )


def assign_each2(input1, input2, function):
    """function of each pair of elements."""
    if function is None:
        return np.array(input1)
    assert input1.shape == input2.shape
    return np.vectorize(function)(input1, input2)


def create_2d_tensor(rows, columns, dtype=np.int64):
    """Row r filled with r."""
    return nd.array(np.arange(0, rows).reshape(rows, 1), dtype=dtype).broadcast_to(
        shape=(rows, columns)
    )


def create_vector(size, dtype=np.int64):
    """0, 1, 2, ..."""
    return nd.arange(0, size, dtype=dtype)


def get_identity_mat(size):
    """An identity matrix."""
    return nd.array(np.eye(size))


def get_identity_mat_batch(size):
    """Two identity matrices."""
    return nd.array(np.stack([np.eye(size)] * 2))


def new_orthonormal_matrix_2d(n):
    """An orthonormal matrix."""
    return np.linalg.qr(rnd.randn(n, n))[0]


def _eigenvalues(n):
    """n distinct positive numbers."""
    return np.cumsum(rnd.uniform(0.5, 1.0, n))


def new_matrix_with_real_eigvals_2d(n):
    """A well-conditioned matrix with real eigenvalues that are apart."""
    q = new_orthonormal_matrix_2d(n) @ np.diag(rnd.uniform(0.8, 1.25, n))
    return q @ np.diag(_eigenvalues(n)) @ np.linalg.inv(q)


def new_sym_matrix_with_real_eigvals_2d(n):
    """A symmetric matrix with eigenvalues that are apart."""
    q = new_orthonormal_matrix_2d(n)
    return q @ np.diag(_eigenvalues(n)) @ q.T


def _batch(make, shape):
    count = int(np.prod(shape[:-2])) if len(shape) > 2 else 1
    return np.array([make(shape[-1]) for _ in range(count)]).reshape(shape)


def new_matrix_with_real_eigvals_nd(shape):
    """Matrices of new_matrix_with_real_eigvals_2d in a batch of that shape."""
    return _batch(new_matrix_with_real_eigvals_2d, shape)


def new_sym_matrix_with_real_eigvals_nd(shape):
    """Matrices of new_sym_matrix_with_real_eigvals_2d in a batch of that shape."""
    return _batch(new_sym_matrix_with_real_eigvals_2d, shape)
