"""Views and indexing of arrays, against NumPy by random keys."""

import numpy as np
import pytest

from plait import autograd, nd

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = INTEGERS + ["float16", "float32", "float64"]


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
