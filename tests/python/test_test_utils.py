"""test_utils: comparisons that say where, numeric gradients, random arrays."""

import os

import numpy as np
import pytest

import plait as mx
from plait import nd
from plait import test_utils as T


def test_assert_almost_equal():
    a = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    T.assert_almost_equal(a, nd.array(a))
    b = a.copy()
    b[1, 2] += 0.5
    with pytest.raises(AssertionError, match=r"\(1, 2\), left=0.54"):
        T.assert_almost_equal(a, b, names=("left", "right"))
    T.assert_almost_equal(a, b, atol=1)
    with pytest.raises(AssertionError, match="not equal"):
        T.assert_almost_equal(a, a[:2])
    nan = np.array([np.nan, 1])
    T.assert_almost_equal(nan, nan, equal_nan=True)
    with pytest.raises(AssertionError):
        T.assert_almost_equal(nan, nan)
    assert T.same(a, a.copy()) and not T.almost_equal(a, b)
    T.assert_almost_equal(a, a * (1 + 1e-3), rtol=1e-2)
    T.assert_almost_equal_ignore_nan(nan, np.array([5.0, 1]))


def test_tolerances_follow_the_narrower_dtype():
    half = np.ones(3, np.float16)
    T.assert_almost_equal(half, np.full(3, 1.001, np.float32))
    with pytest.raises(AssertionError):
        T.assert_almost_equal(np.ones(3), np.full(3, 1.001))
    assert T.get_rtol(0.5) == 0.5 and T.get_atol() > 0


def test_same_array():
    a = nd.ones((4,))
    assert T.same_array(a, a[:]) and not T.same_array(a, a.copy())


def test_random_arrays():
    assert len(T.rand_shape_nd(4, 3)) == 4 and max(T.rand_shape_nd(4, 3)) <= 3
    assert T.rand_ndarray((2, 3)).shape == (2, 3)
    one, two = T.random_arrays((2,), (3, 1))
    assert one.shape == (2,) and two.shape == (3, 1)
    assert sorted(T.random_sample([3, 1, 2], 3)) == [1, 2, 3]
    x = np.random.rand(2, 3, 4)
    got = T.np_reduce(x, (0, 2), True, np.sum)
    np.testing.assert_allclose(got, x.sum((0, 2), keepdims=True))
    assert T.collapse_sum_like(x, (1, 4)).shape == (1, 4)
    basis = T.new_orthonormal_matrix_2d(5)
    np.testing.assert_allclose(basis @ basis.T, np.eye(5), atol=1e-6)


def test_numeric_gradient_of_a_block():
    class Cube(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return x * x * x

    T.check_numeric_gradient(Cube(), [np.random.rand(3, 2)])
    T.check_numeric_gradient(Cube(), [nd.array([1.0, 2.0])], dtype=np.float64)


def test_environment():
    os.environ.pop("PLAIT_TEST_A", None)
    with T.environment("PLAIT_TEST_A", "1"):
        assert os.environ["PLAIT_TEST_A"] == "1"
        with T.environment({"PLAIT_TEST_A": None, "PLAIT_TEST_B": "2"}):
            assert "PLAIT_TEST_A" not in os.environ
            assert os.environ["PLAIT_TEST_B"] == "2"
    assert "PLAIT_TEST_A" not in os.environ and "PLAIT_TEST_B" not in os.environ


def test_retry_tries_again():
    tries = []

    @T.retry(3)
    def flaky():
        tries.append(1)
        assert len(tries) > 2

    flaky()
    assert len(tries) == 3


def test_default_context():
    assert T.default_context() == mx.cpu()
    old = T.default_context()
    T.set_default_context(mx.cpu(1))
    assert mx.context.current_context() == mx.cpu(1)
    T.set_default_context(old)


def test_generators_are_checked():
    pytest.importorskip("scipy")
    mx.random.seed(0)
    np.random.seed(0)
    buckets, probs = T.gen_buckets_probs_with_ppf(lambda p: p, 5)
    good = lambda n: nd.random.uniform(shape=n).asnumpy()  # noqa: E731
    p, *_ = T.chi_square_check(good, buckets, probs, 100000)
    assert p > 1e-4
    bad = lambda n: good(n) ** 1.1  # noqa: E731
    p, *_ = T.chi_square_check(bad, buckets, probs, 100000)
    assert p < 1e-4


def test_optimizers_compare():
    T.compare_optimizer(
        mx.optimizer.SGD(learning_rate=0.1, momentum=0.9),
        mx.optimizer.SGD(learning_rate=0.1, momentum=0.9),
        [(3, 2)],
        np.float32,
    )


def test_nothing_is_downloaded(tmp_path):
    here = tmp_path / "a.txt"
    here.write_text("x")
    assert T.download("http://example.com/a.txt", fname=str(here)) == str(here)
    with pytest.raises(OSError):
        T.download("http://example.com/b.txt", dirname=str(tmp_path))
