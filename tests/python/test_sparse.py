"""Sparse arrays: making, converting, indexing, files, and what is refused."""

import pickle

import numpy as np
import pytest

import plait as mx
from plait.error import MXNetError

nd = mx.nd
# What MXNet 1.9.1 writes.
CSR_BYTES = bytes.fromhex(
    "c9fa93f902000000010000000100000000000000020000000200000000000000030000000000"
    "0000010000000000000000000000060000000100000003000000000000000600000001000000"
    "01000000000000000000a0400000000000000000010000000000000001000000000000000200"
    "000000000000"
)
ROWS_BYTES = bytes.fromhex(
    "c9fa93f901000000020000000100000000000000020000000000000002000000040000000000"
    "0000020000000000000001000000000000000000000006000000010000000100000000000000"
    "0000803f000000400300000000000000"
)
NO_CSR_BYTES = bytes.fromhex(
    "c9fa93f902000000010000000000000000000000020000000300000000000000020000000000"
    "0000010000000000000000000000060000000100000004000000000000000600000001000000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000"
    "0000"
)
NO_ROWS_BYTES = bytes.fromhex(
    "c9fa93f901000000020000000000000000000000020000000000000002000000030000000000"
    "0000020000000000000001000000000000000000000006000000010000000000000000000000"
)


def random_dense(shape=(6, 5), density=0.4, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * (rng.random(shape) < density)).astype(dtype)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
def test_casts_there_and_back(stype, dtype):
    a = np.abs(random_dense() * 9).astype(dtype)
    x = nd.array(a, dtype=dtype).tostype(stype)
    assert x.stype == stype and x.dtype == np.dtype(dtype).type
    np.testing.assert_array_equal(x.asnumpy(), a)
    np.testing.assert_array_equal(x.tostype("default").asnumpy(), a)
    x.check_format()


def test_minus_zero_and_nan():
    x = nd.array([[-0.0, float("nan")], [0.0, -0.0]])
    assert x.tostype("csr").indices.asnumpy().tolist() == [1]
    assert x.tostype("row_sparse").indices.asnumpy().tolist() == [0]


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_empty_ones(stype):
    x = nd.zeros((3, 4), stype=stype)
    assert x.stype == stype and x.data.size == 0
    assert x.asnumpy().tolist() == np.zeros((3, 4)).tolist()
    assert (x + x).stype == stype
    y = nd.zeros((0, 4)).tostype(stype)
    assert y.asnumpy().shape == (0, 4)


def test_parts_are_copies():
    x = nd.sparse.csr_matrix(([1.0, 2.0], [0, 2], [0, 1, 2]), shape=(2, 3))
    x.data[:] = 7
    x.indices[:] = 1
    assert x.asnumpy().tolist() == [[1, 0, 0], [0, 0, 2]]
    y = x.copy()
    x[:] = nd.ones((2, 3))
    assert y.asnumpy().tolist() == [[1, 0, 0], [0, 0, 2]]


def test_coordinates_add_up():
    x = nd.sparse.csr_matrix(([1.0, 2.0, 4.0], ([1, 0, 1], [2, 1, 2])), shape=(2, 3))
    assert x.asnumpy().tolist() == [[0, 2, 0], [0, 0, 5]]
    assert x.indptr.asnumpy().tolist() == [0, 1, 2]


def test_csr_slices():
    a = random_dense((7, 4))
    x = nd.array(a).tostype("csr")
    for key in (slice(1, 4), slice(-3, None), slice(None), slice(2, 2)):
        np.testing.assert_array_equal(x[key].asnumpy(), a[key])
        x[key].check_format()
    np.testing.assert_array_equal(x[-2].asnumpy(), a[-2:-1])
    np.testing.assert_array_equal(
        nd.slice(x, begin=(1, 1), end=(6, 3)).asnumpy(), a[1:6, 1:3]
    )


def test_files_are_mxnet_s_bytes(tmp_path):
    csr = nd.sparse.csr_matrix(([5.0], [2], [0, 1, 1]), shape=(2, 3))
    rows = nd.sparse.row_sparse_array(([[1.0, 2.0]], [3]), shape=(4, 2))
    path = str(tmp_path / "x.params")
    none = [nd.zeros((3, 2), stype=s) for s in ("csr", "row_sparse")]
    for x, record in (
        (csr, CSR_BYTES),
        (rows, ROWS_BYTES),
        (none[0], NO_CSR_BYTES),
        (none[1], NO_ROWS_BYTES),
    ):
        nd.save(path, [x])
        data = open(path, "rb").read()
        assert data[24 : 24 + len(record)] == record
        assert len(data) == 24 + len(record) + 8
        (y,) = nd.load(path)
        assert y.stype == x.stype and type(y) is type(x)
        np.testing.assert_array_equal(y.asnumpy(), x.asnumpy())
        z = pickle.loads(pickle.dumps(x))
        assert z.stype == x.stype
        np.testing.assert_array_equal(z.asnumpy(), x.asnumpy())


def test_damaged_files(tmp_path):
    path = str(tmp_path / "x.params")
    nd.save(path, [nd.sparse.csr_matrix(([5.0], [2], [0, 1, 1]), shape=(2, 3))])
    data = open(path, "rb").read()
    for n in range(24, len(data)):
        with pytest.raises(MXNetError):
            nd.load_frombuffer(data[:n])
    bad = bytearray(data)
    bad[-16] = 9  # the only column
    with pytest.raises(MXNetError, match=r"indices\[0\] is 9"):
        nd.load_frombuffer(bytes(bad))


@pytest.mark.parametrize(
    "make, text",
    [
        (
            lambda: nd.sparse.csr_matrix(([1.0], [0, 1], [0, 1]), shape=(1, 2)),
            "indices",
        ),
        (lambda: nd.sparse.csr_matrix(([1.0], [0], [0, 1]), shape=(2, 2)), "indptr"),
        (lambda: nd.sparse.csr_matrix(([1.0], ([0], [5])), shape=(1, 2)), "inside"),
        (lambda: nd.sparse.csr_matrix(([1.0], ([-1], [0])), shape=(1, 2)), "from 0"),
        (lambda: nd.sparse.row_sparse_array(([[1.0]], [0]), shape=(3, 2)), "data has"),
        (lambda: nd.sparse.row_sparse_array(([[1.0]], [0.5]), shape=(3, 1)), "whole"),
        (lambda: nd.sparse.csr_matrix((2, 2), shape=(3, 2)), "mismatch"),
        (lambda: nd.zeros((2, 2, 2), stype="csr"), "two axes"),
        (lambda: nd.sparse.zeros("dense", (2, 2)), "unknown storage"),
        (lambda: nd.ones((2, 2)).tostype("coo"), "unknown"),
        (
            lambda: nd.sparse.retain(nd.ones((2, 2)).tostype("csr"), nd.array([0])),
            "csr",
        ),
        (lambda: nd.sparse.CSRNDArray(), "made by functions"),
    ],
)
def test_refused(make, text):
    with pytest.raises(MXNetError, match=text):
        make()


@pytest.mark.parametrize(
    "indices, indptr, text",
    [
        ([2, 0], [0, 2, 2], "indices"),
        ([0, 3], [0, 1, 2], "indices"),
        ([-1, 0], [0, 1, 2], "indices"),
        ([0, 0], [0, 2, 2], "indices"),
        ([0, 1], [0, 2, 1], "indptr"),
        ([0, 1], [1, 2, 2], "indptr"),
        ([0, 1], [0, 3, 2], "indptr"),
    ],
)
def test_broken_csr(indices, indptr, text):
    x = nd.sparse.csr_matrix(([1.0, 2.0], indices, indptr), shape=(2, 3))
    with pytest.raises(MXNetError, match="check_format: csr " + text):
        x.check_format()


def test_broken_csr_is_never_read_wildly():
    far = nd.sparse.csr_matrix(([1.0], [1 << 40], [0, 1]), shape=(1, 3))
    with pytest.raises(MXNetError, match="out of range|columns below"):
        nd.dot(far, nd.ones((3, 2))).asnumpy()
    with pytest.raises(MXNetError, match="columns below 3"):
        far.asnumpy()
    wild = nd.sparse.csr_matrix(([1.0], [0], [0, 1 << 40, 1]), shape=(2, 3))
    assert nd.dot(wild, nd.ones((3, 1))).asnumpy().tolist() == [[1], [0]]


def test_memory_is_refused_where_nobody_asked_for_dense():
    x = nd.ones((2, 2)).tostype("csr")
    with pytest.raises(MXNetError, match="tostype"):
        x.__dlpack__()


def test_unsupported():
    x = nd.ones((2, 2)).tostype("row_sparse")
    with pytest.raises(MXNetError, match="reshape: not supported for row_sparse"):
        x.reshape((4,))
    with pytest.raises(MXNetError):
        x[0]
    with pytest.raises(MXNetError):
        x[0:1] = 1
    y = nd.ones((2, 2)).tostype("csr")
    with pytest.raises(MXNetError):
        y[0, 1]
    with pytest.raises(IndexError):
        y[2]
    with pytest.raises(ValueError, match="continuous"):
        y[::2]
    with pytest.raises(ValueError):
        y.tostype("row_sparse")


def test_scipy_there_and_back():
    sparse = pytest.importorskip("scipy.sparse")
    m = sparse.random(6, 5, 0.4, format="csr", random_state=0, dtype=np.float32)
    x = nd.sparse.csr_matrix(m)
    np.testing.assert_array_equal(x.asscipy().toarray(), m.toarray())
    np.testing.assert_array_equal(nd.array(m.tocoo()).asnumpy(), m.toarray())
