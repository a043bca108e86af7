"""autograd.Function: gradients written in Python, their errors and their life."""

import gc
import weakref

import numpy as np
import pytest

import plait as mx
from plait import autograd, nd


def leaf(values, req="write", dtype="float32"):
    x = nd.array(values, dtype=dtype)
    x.attach_grad(req)
    return x


def equal(x, expected):
    np.testing.assert_allclose(x.asnumpy(), expected, rtol=1e-5, atol=1e-6)


class Scale(autograd.Function):
    """x * y, with 10 times its gradient."""

    def forward(self, x, y):
        assert not autograd.is_recording()
        self.save_for_backward(x, y)
        return x * y

    def backward(self, dz):
        assert not autograd.is_recording()
        x, y = self.saved_tensors
        return 10 * dz * y, 10 * dz * x


def test_function_has_its_own_gradient():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0], "add")
    for _ in range(2):
        with autograd.record():
            z = Scale()(x * 1, y)
        z.backward()
    equal(z, [3, 8])
    equal(x.grad, [30, 40])
    equal(y.grad, [20, 40])


def test_function_without_recording_is_a_call():
    equal(Scale()(nd.array([2]), nd.array([3])), [6])


def test_function_is_used_once():
    f = Scale()
    f(nd.ones((1,)), nd.ones((1,)))
    with pytest.raises(ValueError, match="can only be called once"):
        f(nd.ones((1,)), nd.ones((1,)))


def test_function_with_two_outputs_and_a_null_input():
    class Two(autograd.Function):
        def forward(self, x, y):
            return x + y, x * 2

        def backward(self, da, db):
            return da + 2 * db, da

    x, y = leaf([1.0], "null"), leaf([2.0])
    with autograd.record():
        a, b = Two()(x, y)
        z = a * 3 + b
    z.backward()
    equal(y.grad, [3])
    equal(x.grad, [0])


def test_function_that_returns_its_input():
    class Same(autograd.Function):
        def forward(self, x):
            return x

        def backward(self, dy):
            return -dy

    x = leaf([1.0])
    with autograd.record():
        y = Same()(x) * 2
    y.backward()
    equal(x.grad, [-2])


@pytest.mark.parametrize("result", [lambda g: (g, g), lambda g: 3, lambda g: "no"])
def test_function_that_returns_nonsense(result):
    class Wrong(autograd.Function):
        def forward(self, x):
            return x * 1

        def backward(self, dy):
            return result(dy)

    x = leaf([1.0])
    with autograd.record():
        y = Wrong()(x)
    with pytest.raises(mx.MXNetError, match="Wrong.backward must return"):
        y.backward()


def test_errors_inside_of_a_function_come_out():
    class Broken(autograd.Function):
        def forward(self, x):
            return x * 1

        def backward(self, dy):
            raise LookupError("mine")

    x = leaf([1.0])
    with autograd.record():
        y = Broken()(x)
    with pytest.raises(LookupError, match="mine"):
        y.backward()
    assert not autograd.is_recording() and not autograd.is_training()


def test_a_function_goes_with_its_graph():
    x, f = leaf([1.0]), Scale()
    with autograd.record():
        y = f(x, x)
    seen = weakref.ref(f)
    del f
    y.backward()
    del y
    gc.collect()
    nd.waitall()
    assert seen() is None
