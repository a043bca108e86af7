"""Arrays: views, indexing against NumPy, dtypes, in-place calls, DLPack, copies."""

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


# ---------------------------------------------------------------- views

VIEWS = {
    "int": lambda x: x[1],
    "negative int": lambda x: x[-1],
    "rows": lambda x: x[1:3],
    "row": lambda x: x[2:3],
    "part of a row": lambda x: x[1, 1:3],
    "element": lambda x: x[1, 2],
    "new axis": lambda x: x[None, 1:3],
    "ellipsis": lambda x: x[1, ...],
    "all": lambda x: x[:],
    "reshape": lambda x: x.reshape((2, -1)),
    "reshape of rows": lambda x: x[1:3].reshape((-1,)),
    "rows of rows": lambda x: x[1:][1:],
    "detach": lambda x: x.detach(),
    "expand_dims": lambda x: x.expand_dims(0, inplace=True),
    "flatten": lambda x: x.flatten(inplace=True),
    "squeeze": lambda x: x.reshape((1, 3, 4)).squeeze(0, inplace=True),
}
COPIES = {
    "columns": lambda x: x[:, 1:3],
    "steps": lambda x: x[::2],
    "backwards": lambda x: x[::-1],
    "array": lambda x: x[nd.array([0, 1])],
    "list": lambda x: x[[0, 1]],
    "copy": lambda x: x.copy(),
    "astype": lambda x: x.astype("float32"),
    "T": lambda x: x.T,
    "flatten": lambda x: x.flatten(),
    "expand_dims": lambda x: x.expand_dims(0),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_write_through_both_ways(name):
    x = counted((3, 4))
    view = VIEWS[name](x)
    expected = x.asnumpy()
    seen = np.isin(expected, view.asnumpy())
    view[:] = -1
    expected[seen] = -1
    same(x, expected)
    x += 10
    assert (view.asnumpy() == 9).all()


@pytest.mark.parametrize("name", COPIES)
def test_copies_do_not_write_through(name):
    x = counted((3, 4))
    COPIES[name](x)[:] = -1
    same(x, np.arange(12).reshape(3, 4))


def test_a_view_keeps_the_memory():
    view = counted((3, 4))[1]
    same(view, [4, 5, 6, 7])


def test_a_view_sees_what_is_still_pending():
    x = counted((3, 4))
    view = x[1]
    x += 1
    x *= 2
    same(view, [10, 12, 14, 16])
    view -= 10
    same(x[1], [0, 2, 4, 6])


def test_a_write_does_not_reach_results_computed_before():
    x = counted((4,))
    y = x + 1
    x[:] = 100
    view = x[1:3]
    z = view * 2
    view[:] = 0
    same(y, [1, 2, 3, 4])
    same(z, [200, 200])


# ---------------------------------------------------------------- indexing

SHAPES = [(5,), (3, 4), (2, 3, 4), (1, 5, 2), (2, 3, 2, 3)]


def random_slice(n, rng):
    def bound():
        return None if rng.rand() < 0.3 else int(rng.randint(-n - 1, n + 2))

    return slice(bound(), bound(), [None, 1, 2, -1, -2, 3, -3][rng.randint(7)])


def random_int(n, rng):
    i = rng.randint(-n, n)
    return int(i) if rng.rand() < 0.7 else np.int64(i)


def random_array(n, shape, rng):
    values = rng.randint(-n, n, shape)
    kind = rng.randint(3)
    if kind == 0:
        return values, values
    if kind == 1:
        return values, nd.array(values, dtype=["int32", "int64"][rng.randint(2)])
    return values, values.tolist() if values.size else values


def random_key(shape, rng, advanced):
    """A key for NumPy and the same one for plait, with lists and arrays of both."""
    ours, numpys = [], []
    index_shape = [(2,), (3,), (2, 3), (1,), (0,)][rng.randint(5)]
    axes = rng.randint(1, len(shape) + 1)
    has_array = False
    for axis in range(axes):
        if rng.rand() < 0.15:
            ours.append(None)
            numpys.append(None)
        n, kind = shape[axis], rng.rand()
        if advanced and (kind < 0.4 or (axis == axes - 1 and not has_array)):
            values, own = random_array(n, index_shape, rng)
            ours.append(own)
            numpys.append(values)
            has_array = True
        else:
            k = random_int(n, rng) if kind < 0.6 else random_slice(n, rng)
            ours.append(k)
            numpys.append(k)
    if rng.rand() < 0.25:  # the rest of the axes, or none of them
        ours.append(Ellipsis)
        numpys.append(Ellipsis)
    if len(ours) == 1 and rng.rand() < 0.5:
        return ours[0], numpys[0]
    return tuple(ours), tuple(numpys)


def keys(count, advanced):
    rng = np.random.RandomState(7 + advanced)
    for _ in range(count):
        shape = SHAPES[rng.randint(len(SHAPES))]
        yield shape, *random_key(shape, rng, advanced)


@pytest.mark.parametrize("advanced", [False, True])
def test_reading_is_numpys(advanced):
    for shape, ours, numpys in keys(400, advanced):
        x = counted(shape)
        expected = x.asnumpy()[numpys]
        try:
            same(x[ours], expected)
        except Exception as e:
            raise AssertionError("x%s[%r]" % (shape, ours)) from e


@pytest.mark.parametrize("advanced", [False, True])
def test_reading_while_recording_is_numpys_and_has_its_gradient(advanced):
    for shape, ours, numpys in keys(200, advanced):
        x = counted(shape)
        a = x.asnumpy()
        expected = a[numpys]
        x.attach_grad()
        with autograd.record():
            y = x[ours]
        try:
            same(y, expected)
            if not expected.size:
                continue
            weight = np.arange(1, y.size + 1, dtype=np.float32).reshape(y.shape)
            y.backward(nd.array(weight))
            gradient = np.zeros_like(a)
            np.add.at(gradient, numpys, weight.reshape(expected.shape))
            same(x.grad, gradient)
        except Exception as e:
            raise AssertionError("x%s[%r]" % (shape, ours)) from e


def random_value(shape, rng):
    """Something to assign to a selection of a shape, for NumPy and for plait."""
    kind = rng.randint(5)
    if kind == 0:
        return 7, 7
    if kind == 1:
        return 2.5, np.float32(2.5)
    keep = tuple(n if rng.rand() < 0.7 else 1 for n in shape)
    keep = keep[rng.randint(len(keep) + 1) if rng.rand() < 0.3 else 0 :]
    values = rng.randint(100, 999, keep).astype(np.float32)
    if kind == 2:
        return values, values
    if kind == 3:
        return values, values.tolist()
    return values, nd.array(values)


@pytest.mark.parametrize("advanced", [False, True])
def test_writing_is_numpys(advanced):
    rng = np.random.RandomState(3)
    for shape, ours, numpys in keys(400, advanced):
        x = counted(shape)
        expected = x.asnumpy()
        selected = expected[numpys]
        if advanced and np.unique(selected).size < selected.size:
            continue  # of equal indices any may win
        theirs, own = random_value(selected.shape, rng)
        expected[numpys] = theirs
        try:
            x[ours] = own
            same(x, expected)
        except Exception as e:
            raise AssertionError("x%s[%r] = %r" % (shape, ours, own)) from e


def test_all_ints_give_one_element():
    x = counted((2, 3))
    assert x[1, 2].shape == (1,) and x[1, 2].asscalar() == 5
    assert counted((3,))[1].shape == (1,)


def test_indexing_keeps_the_dtype():
    for dtype in DTYPES:
        x = counted((3, 4), dtype)
        for key in (1, slice(0, 2), (slice(None), 1), [0, 2], (slice(None), [0, 1])):
            assert x[key].dtype == x.dtype


def test_assigning_casts_and_keeps_large_integers():
    x = nd.zeros((3,), dtype="int64")
    x[1] = 2**53 + 1
    x[2:] = np.array([2**62 + 1])
    assert x.asnumpy().tolist() == [0, 2**53 + 1, 2**62 + 1]
    x[:] = 2.75
    assert x.asnumpy().tolist() == [2, 2, 2] and x.dtype == np.int64
    x[[0, 1]] = nd.array([1.5, -1.5])
    assert x.asnumpy().tolist() == [1, -1, 2]


def test_strided_scalars_keep_large_integers():
    x = nd.zeros((4,), dtype="int64")
    x[::2] = 2**53 + 1
    assert x.asnumpy().tolist() == [2**53 + 1, 0, 2**53 + 1, 0]


def test_assigning_overlapping_views_is_numpys():
    for write, read in [(slice(1, 5), slice(0, 4)), (slice(0, 4), slice(1, 5))]:
        x = counted((5,))
        expected = x.asnumpy()
        x[write] = x[read]
        expected[write] = expected[read].copy()
        same(x, expected)


def test_numpys_other_byte_orders_and_long_doubles():
    for dtype in (">f4", ">i2", ">f8", np.longdouble):
        a = np.array([1, 2, 3], dtype=dtype)
        same(nd.array(a), a)
        x = nd.zeros((3,))
        x[:] = a
        same(x, a)
        x[::2] = a[::-2]
        same(x, [3, 2, 1])


def test_an_array_object_always_stands_for_an_array():
    x = nd.NDArray()
    assert x.shape == (0,) and x.asnumpy().size == 0 and (x + 1).shape == (0,)
    assert "0" in repr(x)
    y = counted((2,))
    alias = nd.NDArray(y.handle)
    alias[:] = 5
    same(y, [5, 5])
    with pytest.raises(TypeError, match="nd.array makes arrays"):
        nd.NDArray([1, 2])


def test_iteration_and_len():
    x = counted((3, 2))
    assert len(x) == 3
    assert [row.asnumpy().tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    assert nd.ones((0, 2)).shape == (0, 2) and len(nd.ones((0, 2))) == 0


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
