"""Arrays: dtypes, in-place calls, DLPack, pickles, copies, text."""

import copy
import pickle

import numpy as np
import pytest

import plait as mx
from plait import _plait, autograd, nd

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
DTYPES = INTEGERS + FLOATS


def counted(shape, dtype="float32"):
    return nd.array(np.arange(int(np.prod(shape))).reshape(shape), dtype=dtype)


def same(x, expected):
    """Equal in shape and values; without axes in NumPy is (1,) here."""
    expected = np.asarray(expected)
    assert x.shape == (expected.shape or (1,))
    np.testing.assert_array_equal(x.asnumpy(), expected.reshape(x.shape))


# ---------------------------------------------------------------- dtypes


@pytest.mark.parametrize("dtype", DTYPES + ["bool"])
def test_creation_keeps_the_dtype_that_is_asked_for(dtype):
    for x in (
        nd.zeros((2,), dtype=dtype),
        nd.ones((2,), dtype=np.dtype(dtype)),
        nd.full((2,), 1, dtype=np.dtype(dtype).type),
        nd.array([1, 0], dtype=dtype),
    ):
        assert x.dtype is np.dtype(dtype).type
        assert x.asnumpy().dtype == dtype


def test_creation_is_float32_without_a_dtype():
    for source in ([1, 2], np.arange(3), np.ones(3), 5, (True, False)):
        assert nd.array(source).dtype == np.float32
    assert nd.array(nd.array([1], dtype="int32")).dtype == np.int32
    for x in (nd.arange(3), nd.eye(2), nd.linspace(0, 1, 3), nd.empty((1,))):
        assert x.dtype == np.float32


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_keeps_the_dtype(dtype):
    x = nd.array([6, 7, 9], dtype=dtype)
    y = nd.array([2, 4, 3], dtype=dtype)
    a, b = x.asnumpy(), y.asnumpy()
    for z, expected in [
        (x + y, a + b),
        (x - y, a - b),
        (x * y, a * b),
        (x % y, a % b),
        (x**2, a**2),
        (x + 1, a + 1),
        (10 - x, 10 - a),
        (0 - (-x), a),
        (x > y, a > b),
        (x == 7, a == 7),
        (abs(x), a),
        (nd.maximum(x, y), a),
        (nd.maximum(x, 8), np.maximum(a, 8)),
    ]:
        assert z.dtype is x.dtype
        np.testing.assert_allclose(z.asnumpy(), expected.astype(dtype), rtol=1e-3)
    quotient = a / b if dtype in FLOATS else a // b
    assert (x / y).dtype is x.dtype
    np.testing.assert_allclose((x / y).asnumpy(), quotient, rtol=1e-3)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arrays_truncate_numbers(dtype):
    x = nd.array([1, 2, 3], dtype=dtype)
    assert (x + 1.5).dtype is x.dtype
    assert (x + 1.5).asnumpy().tolist() == [2, 3, 4]


PROMOTIONS = [
    ("float32", "float64", "float64"),
    ("float16", "float32", "float32"),
    ("float16", "bfloat16", "float32"),
    ("int32", "float32", "float32"),
    ("int64", "float16", "float16"),
    ("int32", "int64", "int64"),
    ("int8", "uint8", "int16"),
    ("bool", "float32", "float32"),
    ("bool", "int8", "int8"),
]


@pytest.mark.parametrize("pair", PROMOTIONS)
def test_arrays_of_two_dtypes_meet_in_the_wider(pair):
    x, y = (nd.array([1, 0], dtype=d) for d in pair[:2])
    expected = np.dtype(pair[2]).type
    for a, b in ((x, y), (y, x)):
        for z in (a + b, a * b, nd.maximum(a, b), nd.broadcast_add(a, b), a > b):
            assert z.dtype is expected
    assert (x + y).asnumpy().tolist() == [2, 0]


def test_in_place_promotion_is_undone():
    x = nd.array([1, 2], dtype="int32")
    x += nd.array([0.5, 0.5])
    assert x.dtype == np.int32 and x.asnumpy().tolist() == [1, 2]


def test_gradients_have_the_dtype_of_their_array():
    x, y = nd.ones((2,), dtype="float32"), nd.ones((2,), dtype="float64") * 3
    x.attach_grad()
    y.attach_grad()
    with autograd.record():
        z = x * y
    z.backward()
    assert x.grad.dtype == np.float32 and x.grad.asnumpy().tolist() == [3, 3]
    assert y.grad.dtype == np.float64 and y.grad.asnumpy().tolist() == [1, 1]


def test_remainders_have_the_divisors_sign_and_zero_for_zero():
    x = nd.array([-7, 7, -7, 7])
    y = nd.array([3, -3, -3, 0])
    same(x % y, [2, -2, -1, 0])


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_astype_is_numpys(source, target):
    x = nd.array([0, 1, 2, 100], dtype=source)
    y = x.astype(target)
    assert y.dtype is np.dtype(target).type
    np.testing.assert_array_equal(y.asnumpy(), x.asnumpy().astype(target))


def test_astype_truncates_and_can_return_itself():
    x = nd.array([1.9, -1.9])
    assert x.astype("int32").asnumpy().tolist() == [1, -1]
    assert x.astype("float32", copy=False) is x
    assert x.astype("float32") is not x
    assert not _plait.shares_memory(x.astype("float32"), x)


def test_dtypes_may_be_spelled_as_in_numpy():
    for text, expected in [("f4", "float32"), ("double", "float64"), ("i8", "int64")]:
        assert nd.ones((1,)).astype(text).dtype == np.dtype(expected)
        assert nd.zeros((1,), dtype=text).dtype == np.dtype(expected)
    assert nd.ones((1,)).astype(float).dtype == np.float64
    assert nd.ones((1,)).astype(np.dtype(">i4")).dtype == np.int32


def test_bfloat16_is_numpys_structured_dtype():
    x = nd.array([1, 2.5, -3], dtype="bfloat16")
    assert x.asnumpy()["bfloat16"].tolist() == [0x3F80, 0x4020, 0xC040]
    assert x.astype("float32").asnumpy().tolist() == [1, 2.5, -3]
    again = nd.array(x.asnumpy(), dtype="bfloat16")
    assert again.astype("float32").asnumpy().tolist() == [1, 2.5, -3]


# ---------------------------------------------------------------- in place


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "mod", "pow"])
@pytest.mark.parametrize("kind", ["number", "array", "row", "itself"])
def test_in_place_writes_the_same_memory(name, kind):
    x = counted((2, 3)) + 1
    alias, view, expected = x, x[1], x.asnumpy()
    other = {"number": 2, "array": counted((2, 3)) + 1, "row": nd.array([[1, 2, 3]])}
    other = other.get(kind, x)
    value = other.asnumpy().copy() if isinstance(other, nd.NDArray) else other
    x = getattr(x, "__i%s__" % name)(other)
    assert x is alias
    expected = getattr(expected, "__%s__" % name)(value)
    np.testing.assert_allclose(x.asnumpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(view.asnumpy(), expected[1], rtol=1e-6)


def test_in_place_keeps_dtype_and_shape():
    x = nd.ones((3,), dtype="int32")
    x += 1.5
    assert x.dtype == np.int32 and x.asnumpy().tolist() == [2, 2, 2]
    with pytest.raises(ValueError):
        x += nd.ones((2, 3), dtype="int32")
    assert x.shape == (3,)


def test_out_overwrites_an_array():
    x, out = counted((3,)), nd.zeros((3,))
    view = out[1:]
    assert nd.exp(x, out=out) is out
    np.testing.assert_allclose(view.asnumpy(), np.exp([1, 2]), rtol=1e-6)
    nd.broadcast_add(out, out, out=out)
    np.testing.assert_allclose(out.asnumpy(), 2 * np.exp([0, 1, 2]), rtol=1e-6)


# ---------------------------------------------------------------- DLPack


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_sees_the_memory_through_dlpack(dtype):
    x = counted((2, 3), dtype)
    a = np.from_dlpack(x)
    assert a.dtype == dtype and a.shape == (2, 3)
    x += 1
    x.wait_to_read()
    np.testing.assert_array_equal(a, np.arange(1, 7).reshape(2, 3))


def test_dlpack_of_a_view_begins_at_its_element():
    x = counted((3, 4))
    a = np.from_dlpack(x[1])
    assert a.tolist() == [4, 5, 6, 7]
    x[1] = 0
    x.wait_to_read()
    assert a.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_on_numpys_memory(dtype):
    a = np.arange(6, dtype=dtype).reshape(2, 3)
    x = nd.from_dlpack(a)
    assert x.dtype is a.dtype.type and x.shape == a.shape
    a += 1
    same(x, a)
    x *= 2
    x.wait_to_read()
    assert a[1, 2] == 12


def test_dlpack_keeps_the_memory_alive():
    x = nd.from_dlpack(np.arange(1000.0))
    a = np.from_dlpack(counted((1000,)) * 2)
    junk = [np.ones(1000) for _ in range(10)] + [nd.ones((1000,)) for _ in range(10)]
    assert x.asnumpy()[999] == 999 and a[999] == 1998 and len(junk) == 20


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (1,), (2, 1, 3)])
def test_dlpack_of_odd_shapes(shape):
    a = np.ones(shape, np.float32)
    assert nd.from_dlpack(a).shape == shape
    assert np.from_dlpack(nd.from_dlpack(a)).shape == shape


def test_dlpack_refuses_what_it_cannot_share():
    with pytest.raises(ValueError, match="not contiguous"):
        nd.from_dlpack(np.ones((2, 3)).T)
    with pytest.raises(TypeError):
        nd.from_dlpack(np.ones(2, np.complex64))


def test_a_capsule_is_used_once():
    capsule = counted((3,)).to_dlpack_for_read()
    same(nd.from_dlpack(capsule), [0, 1, 2])
    with pytest.raises((ValueError, TypeError)):
        nd.from_dlpack(capsule)
    with pytest.raises((ValueError, TypeError)):
        nd.from_dlpack(3)


def test_unused_capsules_release_the_memory():
    before = _plait.memory_stats("cpu", 0)["live"]
    for _ in range(10):
        nd.ones((1000,)).to_dlpack_for_write()
    nd.waitall()
    assert _plait.memory_stats("cpu", 0)["live"] <= before + 4096


def test_from_numpy_shares_and_locks():
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = nd.from_numpy(a)
    with pytest.raises(ValueError):
        a[0] = 1
    x += 1
    x.wait_to_read()
    assert a[0, 0] == 1
    b = np.arange(3, dtype=np.int32)
    y = nd.from_numpy(b, zero_copy=False)
    b[:] = 9
    assert y.asnumpy().tolist() == [0, 1, 2] and y.dtype == np.int32


# ---------------------------------------------------------------- large sizes


def test_sizes_beyond_32_bits_are_inferred():
    infer = _plait.infer_shape
    assert infer("Reshape", [(2**20, 2**14)], {"shape": (-1,)}) == (2**34,)
    assert infer("Concat", [(2**31, 2), (2**31, 2)], {"dim": 0}) == (2**32, 2)
    assert infer("dot", [(2**20, 2), (2, 2**20)], {}) == (2**20, 2**20)


def test_large_integers_in_parameters():
    x = nd.array([0, 5], dtype="int64")
    same(nd.clip(x, 0, 2**40), [0, 5])
    assert nd.arange(2**33, 2**33 + 2, dtype="int64").asnumpy().tolist() == [
        2**33,
        2**33 + 1,
    ]


# ---------------------------------------------------------------- copies and text


@pytest.mark.parametrize("dtype", DTYPES + ["bfloat16", "bool"])
@pytest.mark.parametrize("shape", [(2, 3), (), (0,), (1,)])
def test_pickles_and_copies(dtype, shape):
    x = nd.ones(shape, dtype=dtype)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        y = pickle.loads(pickle.dumps(x, protocol))
        assert y.shape == shape and y.dtype == x.dtype
        np.testing.assert_array_equal(y.asnumpy(), x.asnumpy())
    for y in (copy.copy(x), copy.deepcopy(x), x.copy()):
        assert y.shape == shape and y.dtype == x.dtype and y is not x
        assert not shape or not x.size or not _plait.shares_memory(x, y)


def test_pickle_of_a_view_has_only_the_view():
    x = nd.zeros((1000, 10))
    assert len(pickle.dumps(x[3])) < 400
    same(pickle.loads(pickle.dumps(x[3])), np.zeros(10))


def test_deepcopy_of_a_structure():
    x = counted((2,))
    y = copy.deepcopy({"a": [x], "b": x})
    y["a"][0][:] = 5
    same(x, [0, 1])


def test_copyto():
    x, y = counted((2, 3)), nd.zeros((2, 3), dtype="int32")
    assert x.copyto(y) is y and y.dtype == np.int32
    same(y, x.asnumpy())
    z = x.copyto(mx.cpu(0))
    z[:] = 0
    same(x, np.arange(6).reshape(2, 3))
    with pytest.warns(RuntimeWarning, match="to itself"):
        assert x.copyto(x) is False
    with pytest.raises(ValueError):
        x.copyto(nd.zeros((3, 2)))


def test_text():
    assert repr(nd.ones((2, 1))) == "\n[[1.]\n [1.]]\n<NDArray 2x1 @cpu(0)>"
    assert str(nd.array([1, 2], dtype="int32")) == "\n[1 2]\n<NDArray 2 @cpu(0)>"
    assert repr(nd.ones((1,), dtype="bfloat16")) == "\n[1.]\n<NDArray 1 @cpu(0)>"
    assert "0x3" in repr(nd.ones((0, 3)))


def test_truth_and_numbers():
    assert nd.array([2]) and not nd.array([0]) and not nd.ones((0,))
    assert int(nd.array([3.7])) == 3 and float(nd.array([2.5])) == 2.5
    assert [10, 11, 12][nd.array([1], dtype="int32")] == 11
    x = nd.ones((2,))
    assert hash(x) == hash(x) and len({x, x, nd.ones((2,))}) == 2
    assert (x == None) is False and (x != None) is True  # noqa: E711


def test_numpy_takes_arrays():
    x = counted((2, 3))
    assert np.asarray(x).tolist() == x.asnumpy().tolist()
    assert np.asarray(x, dtype=np.int32).dtype == np.int32
    with pytest.raises(TypeError):
        np.ones(3, np.float32) * nd.ones((3,))
    assert isinstance(np.float32(2) + nd.ones((3,)), nd.NDArray)


def test_read_only_memory_of_numpy_is_copied():
    source = np.arange(4, dtype=np.float32)
    source.flags.writeable = False
    x = nd.from_numpy(source)
    x += 1
    assert x.asnumpy().tolist() == [1, 2, 3, 4] and source.tolist() == [0, 1, 2, 3]
    shared = np.arange(4, dtype=np.float32)
    y = nd.from_numpy(shared)
    y += 1
    y.wait_to_read()
    assert shared.tolist() == [1, 2, 3, 4] and not shared.flags.writeable


def test_shapes_of_broadcasting_are_inferred_without_a_call():
    infer = mx._plait.infer_shape
    assert infer("broadcast_add", [(2, 1, 4), (3, 1)], {}) == (2, 3, 4)
    assert infer("broadcast_add", [(), (3, 1)], {}) == (3, 1)
    assert infer("where", [(2, 3)] * 3, {}) == (2, 3)
    with pytest.raises(ValueError, match="broadcast_add: .*\\(2, 3\\)"):
        infer("broadcast_add", [(2, 3), (4,)], {})


def test_boolean_mask_takes_slices_and_gives_their_gradients():
    x = nd.array(np.arange(12).reshape(4, 3))
    x.attach_grad()
    with autograd.record():
        y = nd.contrib.boolean_mask(x, nd.array([0, 1, 0, 2]))
    assert y.asnumpy().tolist() == [[3, 4, 5], [9, 10, 11]]
    y.backward(nd.ones((2, 3)) * 2)
    assert x.grad.asnumpy()[:, 0].tolist() == [0, 2, 0, 2]
    assert nd.contrib.boolean_mask(x, nd.zeros(4)).shape == (0, 3)
    with pytest.raises(ValueError, match="boolean_mask: index of shape .3,."):
        nd.contrib.boolean_mask(x, nd.zeros(3))


def test_set_value_fills_what_out_is():
    for dtype in ("float32", "int64"):
        x = nd.zeros((2, 3), dtype=dtype)
        nd._internal._set_value(src=7, out=x)
        assert x.dtype == np.dtype(dtype) and (x.asnumpy() == 7).all()


def test_cumsum_follows_numpy():
    x = np.random.RandomState(0).uniform(-1, 1, (3, 4)).astype("float32")
    for axis in (None, 0, 1, -1):
        np.testing.assert_allclose(
            nd.cumsum(nd.array(x), axis=axis).asnumpy(), np.cumsum(x, axis), 1e-6, 1e-6
        )
    ints = nd.array([100, 100, 100], dtype="int8")
    assert nd.cumsum(ints, dtype="int32").asnumpy().tolist() == [100, 200, 300]
