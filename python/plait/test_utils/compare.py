"""Comparison of arrays with messages that show where they differ most."""

import numpy as np
import numpy.testing as npt

from .. import ndarray as nd
from .. import random as mx_random
from .arrays import rand_ndarray
from .tolerance import default_context, get_atol, get_etol, get_rtol, get_tols

__all__ = [
    "same",
    "checkShapes",
    "almost_equal",
    "locationError",
    "assert_almost_equal",
    "assert_allclose",
    "assert_almost_equal_with_err",
    "assert_almost_equal_ignore_nan",
    "assert_exception",
    "same_array",
    "compare_ndarray_tuple",
    "compare_optimizer",
]


def _numpy(x):
    return x.asnumpy() if hasattr(x, "asnumpy") else x


def same(a, b):
    """Whether two NumPy arrays are equal in shape and values."""
    return np.array_equal(a, b)


def checkShapes(a, b):
    """Asserts equal shapes."""
    if a.shape != b.shape:
        raise AssertionError(
            npt.build_err_msg(
                [a, b],
                err_msg="a.shape = %s and b.shape = %s are not equal"
                % (a.shape, b.shape),
            )
        )


def almost_equal(a, b, rtol=None, atol=None, equal_nan=False, use_broadcast=True):
    """Whether |a - b| <= atol + rtol * |b| everywhere."""
    if not use_broadcast:
        checkShapes(a, b)
    return np.allclose(
        _numpy(a),
        _numpy(b),
        rtol=get_rtol(rtol),
        atol=get_atol(atol),
        equal_nan=equal_nan,
    )


def locationError(a, b, index, names, maxError=False):
    """One line that shows both values at an index."""
    return "Location of %serror: %s, %s=%.8f, %s=%.8f" % (
        "maximum " if maxError else "",
        index,
        names[0],
        a[index],
        names[1],
        b[index],
    )


def _violations(a, b, rtol, atol, equal_nan):
    """By how many tolerances each element is off; above 1 is a mismatch."""
    with np.errstate(all="ignore"):
        off = np.abs(a - b) / (atol + rtol * np.abs(b) + 1e-20)
    off = np.where(a == b, 0, np.where(np.isnan(off), np.inf, off))
    if equal_nan:
        off = np.where(np.isnan(a) & np.isnan(b), 0, off)
    return off


def _raise_mismatch(a, b, rtol, atol, names, equal_nan, shown):
    a, b = np.broadcast_arrays(np.asarray(a, "float64"), np.asarray(b, "float64"))
    off = _violations(a, b, rtol, atol, equal_nan)
    order = np.argsort(-off, axis=None)[: max(shown, 1)]
    places = [tuple(map(int, np.unravel_index(k, off.shape))) for k in order]
    wrong = int((off > 1).sum())
    lines = [
        "%3d: Error %f  %s" % (n + 1, off[place], locationError(a, b, place, names))
        for n, place in enumerate(places[:wrong])
    ]
    text = "Error %f exceeds tolerance rtol=%e, atol=%e (mismatch %f%%).\n%s\n%s" % (
        off[places[0]],
        rtol,
        atol,
        100.0 * wrong / max(a.size, 1),
        locationError(a, b, places[0], names, maxError=True),
        "\n".join(lines),
    )
    with np.printoptions(threshold=4, suppress=True):
        raise AssertionError(npt.build_err_msg([a, b], err_msg=text))


def _surely_near(a, b, rtol, atol):
    """Whether two large arrays are seen to be near without NumPy, which is slower."""
    if not (isinstance(a, nd.NDArray) and isinstance(b, nd.NDArray)):
        return False
    if a.shape != b.shape or a.size < 4096 or a.dtype != b.dtype:
        return False
    if a.dtype == np.float16:
        a, b = a.astype("float32"), b.astype("float32")
    if a.dtype not in (np.float32, np.float64):
        return False
    excess = (nd.abs(a - b) - rtol * nd.abs(b)).max()
    return excess.asscalar() <= atol  # a NaN is not


def assert_almost_equal(
    a,
    b,
    rtol=None,
    atol=None,
    names=("a", "b"),
    equal_nan=False,
    use_broadcast=True,
    mismatches=(10, 10),
):
    """Asserts |a - b| <= atol + rtol * |b|; tolerances default by dtype.

    mismatches: how many of the greatest errors are shown, and counted.
    """
    if not use_broadcast:
        checkShapes(a, b)
    rtol, atol = get_tols(a, b, rtol, atol)
    if _surely_near(a, b, rtol, atol):
        return
    a, b = _numpy(a), _numpy(b)
    if getattr(a, "dtype", None) == np.bool_ and getattr(b, "dtype", None) == np.bool_:
        npt.assert_equal(a, b)
        return
    try:
        np.broadcast_shapes(np.shape(a), np.shape(b))
    except ValueError:
        checkShapes(a, b)
    if not almost_equal(a, b, rtol, atol, equal_nan=equal_nan):
        _raise_mismatch(a, b, rtol, atol, names, equal_nan, mismatches[0])


def assert_allclose(a, b, rtol=1e-07, atol=0, equal_nan=True):
    """assert_almost_equal with NumPy's defaults."""
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(
    a,
    b,
    rtol=None,
    atol=None,
    etol=None,
    names=("a", "b"),
    equal_nan=False,
    mismatches=(10, 10),
):
    """assert_almost_equal, but a share of up to etol elements may differ."""
    etol = get_etol(etol)
    rtol, atol = get_tols(a, b, rtol, atol)
    a, b = _numpy(a), _numpy(b)
    near = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if 1 - np.count_nonzero(near) / max(near.size, 1) > etol:
        _raise_mismatch(a, b, rtol, atol, names, equal_nan, mismatches[0])


def assert_almost_equal_ignore_nan(a, b, rtol=None, atol=None, names=("a", "b")):
    """assert_almost_equal where neither is NaN."""
    a, b = np.copy(_numpy(a)), np.copy(_numpy(b))
    skip = np.isnan(a) | np.isnan(b)
    a[skip] = b[skip] = 0
    assert_almost_equal(a, b, rtol, atol, names)


def assert_exception(f, exception_type, *args, **kwargs):
    """Asserts that f(*args, **kwargs) raises an exception of that type."""
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(
        "%s did not raise %s" % (getattr(f, "__name__", f), exception_type)
    )


def same_array(array1, array2):
    """Whether two NDArrays share their memory."""
    array1[:] += 1
    shared = same(array1.asnumpy(), array2.asnumpy())
    array1[:] -= 1
    return shared and same(array1.asnumpy(), array2.asnumpy())


def compare_ndarray_tuple(t1, t2, rtol=None, atol=None):
    """Asserts that nested tuples of arrays are almost equal; None is skipped."""
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for s1, s2 in zip(t1, t2):
            compare_ndarray_tuple(s1, s2, rtol, atol)
    else:
        assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def _two_equal(shape, stype, dtype, **options):
    """A dense array, and an equal one of storage type stype."""
    if stype == "default":
        second = mx_random.uniform(shape=shape, ctx=default_context(), dtype=dtype)
        return second.copyto(default_context()), second
    if stype not in ("row_sparse", "csr"):
        raise ValueError("compare_optimizer: unknown storage type %r" % (stype,))
    second = rand_ndarray(shape, stype, dtype=dtype, **options)
    return second.copyto(default_context()).tostype("default"), second


def compare_optimizer(
    opt1,
    opt2,
    shape,
    dtype,
    w_stype="default",
    g_stype="default",
    rtol=1e-4,
    atol=1e-5,
    compare_states=True,
    ntensors=1,
):
    """Asserts that two optimizers do the same to equal weights.

    A list of shapes: opt2 updates all in one call, opt1 one by one.
    """
    single = not isinstance(shape, list)
    assert not single or ntensors == 1
    weights = [
        _two_equal(s, w_stype, dtype, density=1)
        if w_stype != "default"
        else _two_equal(s, w_stype, dtype)
        for s in ([shape] if single else shape)
    ]
    grads = [_two_equal(s, g_stype, dtype) for s in ([shape] if single else shape)]
    (w1, w2), (g1, g2) = zip(*weights), zip(*grads)
    state1 = [opt1.create_state_multi_precision(i, w) for i, w in enumerate(w1)]
    state2 = [opt2.create_state_multi_precision(i, w) for i, w in enumerate(w2)]
    if compare_states:
        compare_ndarray_tuple(tuple(state1), tuple(state2))
    for i in range(len(w1)):
        opt1.update_multi_precision(i, w1[i], g1[i], state1[i])
    if single:
        opt2.update_multi_precision(0, w2[0], g2[0], state2[0])
    else:
        opt2.update_multi_precision(list(range(len(w2))), w2, g2, state2)
    nd.waitall()
    if compare_states:
        compare_ndarray_tuple(tuple(state1), tuple(state2), rtol, atol)
    compare_ndarray_tuple(w1, w2, rtol, atol)
