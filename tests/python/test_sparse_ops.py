"""Operators on sparse arrays, against NumPy on dense ones."""

import numpy as np
import pytest

import plait as mx
from plait import autograd
from plait.error import MXNetError

nd = mx.nd


def pair(stype, shape=(6, 5), seed=0, density=0.4):
    rng = np.random.default_rng(seed)
    a = (rng.normal(size=shape) * (rng.random(shape) < density)).astype(np.float32)
    if stype == "row_sparse":
        a[1::3] = 0
    return a, nd.array(a).tostype(stype)


def same(x, a, stype=None, tol=1e-6):
    np.testing.assert_allclose(x.asnumpy(), a, rtol=tol, atol=tol)
    assert stype is None or x.stype == stype
    if x.stype != "default":
        x.check_format()


SPARSE = ["csr", "row_sparse"]


@pytest.mark.parametrize("stype", SPARSE)
def test_functions_of_one_array(stype):
    a, x = pair(stype)
    same(nd.sin(x), np.sin(a), stype)
    same(x.square(), a * a, stype)
    same(-x, -a, stype)
    same(abs(x), np.abs(a), stype)
    same(nd.cos(x), np.cos(a), "default")
    same(nd.clip(x, -0.5, 0.5), np.clip(a, -0.5, 0.5), stype)
    same(nd.clip(x, 0.1, 0.5), np.clip(a, 0.1, 0.5), "default")
    same(x * 3, a * 3, stype)
    same(x / 2, a / 2, stype)
    same(x + 1, a + 1, "default")
    same(2 - x, 2 - a, "default")
    same(x.zeros_like(), a * 0, stype)
    same(x.T, a.T, "default")
    same(x.norm(), np.sqrt((a * a).sum()), "default")
    same(x.sum(axis=0), a.sum(axis=0), "default")
    same(x.mean(axis=1, keepdims=True), a.mean(axis=1, keepdims=True), "default")
    same(x.sum(), a.sum(), "default", 1e-5)


@pytest.mark.parametrize("left", SPARSE + ["default"])
@pytest.mark.parametrize("right", SPARSE + ["default"])
def test_functions_of_two_arrays(left, right):
    (a, x), (b, y) = pair(left), pair(right, seed=1)
    kept = left if left == right else "default"
    same(x + y, a + b, kept)
    same(x - y, a - b, kept)
    same(nd.elemwise_add(x, y), a + b, kept)
    same(x * y, a * b)
    sparse = {left, right} - {"default"}
    product = nd.elemwise_mul(x, y)
    same(product, a * b, sparse.pop() if len(sparse) == 1 else "default")
    same(x > y, a > b, "default")


def test_csr_with_unsorted_columns():
    x = nd.sparse.csr_matrix(([1.0, 2.0], [2, 0], [0, 2]), shape=(1, 3))
    assert x.asnumpy().tolist() == [[2, 0, 1]]
    same(x + x, [[4, 0, 2]], "csr")
    same(x * x, [[4, 0, 1]], "csr")
    same(nd.dot(x, nd.array([[1.0], [2.0], [3.0]])), [[5]])


def test_in_place_and_out():
    a, x = pair("csr")
    b, y = pair("csr", seed=2)
    before = x
    x += y
    assert x is before
    same(x, a + b, "csr")
    dense = nd.array(a)
    dense += y
    same(dense, a + b, "default")
    out = nd.zeros(a.shape, stype="row_sparse")
    nd.broadcast_add(nd.array(a), nd.array(b), out=out)
    same(out, a + b, "row_sparse")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
@pytest.mark.parametrize("transposed", [False, True])
def test_dot(transposed, dtype):
    a, x = pair("csr", (7, 4))
    a, x = np.round(a * 5).astype(dtype), nd.array(np.round(a * 5), dtype=dtype)
    x = x.tostype("csr")
    b = np.arange(14 if transposed else 8).reshape(-1, 2).astype(dtype)
    expected = (a.T if transposed else a) @ b
    y = nd.dot(x, nd.array(b, dtype=dtype), transpose_a=transposed)
    same(y, expected, "row_sparse" if transposed else "default", 1e-4)
    y = nd.dot(
        x, nd.array(b, dtype=dtype), transpose_a=transposed, forward_stype="default"
    )
    same(y, expected, "default", 1e-4)
    v = nd.dot(x, nd.array(b[:, 0], dtype=dtype), transpose_a=transposed)
    same(v, expected[:, 0], "default", 1e-4)


def test_dense_times_csr():
    a, x = pair("csr", (4, 6))
    b = np.arange(8, dtype=np.float32).reshape(2, 4)
    same(nd.dot(nd.array(b), x), b @ a, "csr", 1e-5)
    c = np.arange(12, dtype=np.float32).reshape(2, 6)
    same(nd.dot(nd.array(c), x, transpose_b=True), c @ a.T, "default", 1e-5)


def test_dot_of_wrong_shapes():
    _, x = pair("csr", (3, 4))
    with pytest.raises(MXNetError, match="dot: rhs has shape"):
        nd.dot(x, nd.ones((3, 2)))
    with pytest.raises(MXNetError, match="same dtype"):
        nd.dot(x, nd.ones((4, 2), dtype="float64"))


def test_retain_and_take_and_concat():
    a, x = pair("row_sparse")
    kept = nd.sparse.retain(x, nd.array([5, 0, 1, 99]))
    expected = np.zeros_like(a)
    expected[[0, 5]] = a[[0, 5]]
    same(kept, expected, "row_sparse")
    a, x = pair("csr")
    same(nd.take(x, nd.array([3, 3, -9, 9])), a[[3, 3, 0, 5]], "csr")
    same(nd.concat(x, x, x, dim=0), np.concatenate([a] * 3), "csr")
    same(nd.concat(x, x, dim=1), np.concatenate([a, a], 1), "default")
    assert nd.contrib.getnnz(x).asnumpy() == np.count_nonzero(a)
    counts = nd.contrib.getnnz(x, axis=1).asnumpy()
    assert counts.tolist() == np.count_nonzero(a, axis=1).tolist()


def test_sums_of_many():
    arrays = [pair("row_sparse", seed=s) for s in range(4)]
    total = nd.add_n(*[x for _, x in arrays])
    same(total, sum(a for a, _ in arrays), "row_sparse")


def test_gradient_of_embedding_is_row_sparse():
    weight = nd.arange(0, 12).reshape((6, 2))
    weight.attach_grad(stype="row_sparse")
    ids = nd.array([[4, 1], [4, 9]])
    with autograd.record():
        y = nd.Embedding(ids, weight, input_dim=6, output_dim=2, sparse_grad=True)
        loss = (y * nd.array([1, 10])).sum()
    loss.backward()
    assert weight.grad.stype == "row_sparse"
    assert weight.grad.indices.asnumpy().tolist() == [1, 4, 5]
    assert weight.grad.data.asnumpy().tolist() == [[1, 10], [2, 20], [1, 10]]
    with autograd.record():
        y = nd.Embedding(nd.array([0]), weight, input_dim=6, output_dim=2)
    y.backward()
    assert weight.grad.indices.asnumpy().tolist() == [0]


def test_gradients_add_up():
    weight = nd.ones((5, 2))
    weight.attach_grad(grad_req="add", stype="row_sparse")
    for ids in ([0, 2], [2, 3]):
        with autograd.record():
            y = nd.Embedding(nd.array(ids), weight, input_dim=5, output_dim=2)
            z = nd.Embedding(nd.array([4]), weight, input_dim=5, output_dim=2)
            loss = y.sum() + z.sum()
        loss.backward()
    assert weight.grad.indices.asnumpy().tolist() == [0, 2, 3, 4]
    assert weight.grad.data.asnumpy()[:, 0].tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
def test_gradient_of_dot(stype):
    a, x = pair("csr", (4, 6))
    weight = nd.ones((6, 3))
    weight.attach_grad(stype=stype)
    with autograd.record():
        y = nd.dot(x, weight)
    y.backward(nd.array(np.arange(12).reshape(4, 3)))
    expected = a.T @ np.arange(12).reshape(4, 3)
    same(weight.grad, expected, stype, 1e-4)


@pytest.mark.parametrize("stype", SPARSE)
def test_gradient_of_a_sparse_leaf(stype):
    a, x = pair(stype)
    x.attach_grad()
    with autograd.record():
        y = nd.sin(x) * 2
    assert y.stype == stype
    y.backward()
    assert x.grad.stype == stype
    same(x.grad, 2 * np.cos(a), stype)
    with autograd.record():
        y = nd.sin(x) + x * nd.ones(a.shape)
    y.backward(nd.ones(a.shape).tostype(stype))
    same(x.grad, np.cos(a) + 1, stype)


def test_dense_results_do_not_change():
    x = nd.ones((2, 2))
    y = (x + 1) * 2
    assert type(y) is nd.NDArray and y.stype == "default"
    assert y.tostype("default") is y


def test_zeros_like_takes_a_dtype():
    x = nd.array([[0, 1], [2, 0]]).tostype("csr")
    for y, dtype in (
        (nd.zeros_like(x), "float32"),
        (nd.zeros_like(x, dtype="int64"), "int64"),
    ):
        assert y.stype == "csr" and y.dtype == np.dtype(dtype)
        assert not y.asnumpy().any()
