"""The helpers that check symbols pass right ones and refuse wrong ones."""

import numpy as np
import pytest

import plait as mx
from plait import test_utils as tu

X = np.array([[0.5, -1.0], [2.0, 3.0]], dtype="float32")


def square():
    return mx.sym.square(mx.sym.Variable("x"))


def test_values_are_checked():
    outputs = tu.check_symbolic_forward(square(), [X], [X * X])
    np.testing.assert_allclose(outputs[0].asnumpy(), X * X)
    tu.check_symbolic_forward(square(), {"x": X}, {"square0_output": X * X}) if (
        square().list_outputs() == ["square0_output"]
    ) else None
    with pytest.raises(AssertionError):
        tu.check_symbolic_forward(square(), [X], [X])
    with pytest.raises(ValueError, match=r"arguments of the symbol are \['x'\]"):
        tu.check_symbolic_forward(square(), {"y": X}, [X])


@pytest.mark.parametrize("request_", ["write", "add", "null"])
def test_gradients_are_checked(request_):
    found = tu.check_symbolic_backward(
        square(), [X], [np.ones_like(X)], [2 * X], grad_req=request_
    )
    assert set(found) == {"x"}
    if request_ != "null":
        with pytest.raises(AssertionError):
            tu.check_symbolic_backward(
                square(), [X], [np.ones_like(X)], [X], grad_req=request_
            )


def test_finite_differences():
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    tu.check_numeric_gradient(a * b + mx.sym.sin(a), [X, X + 1])
    tu.check_numeric_gradient(a * b, {"a": X, "b": X}, grad_nodes=["b"])
    tu.check_numeric_gradient(a * b, [X, X], grad_nodes={"a": "add", "b": "write"})
    wrong = mx.sym.BlockGrad(a) * b
    with pytest.raises(AssertionError):
        tu.check_numeric_gradient(wrong, [X, X])


def test_consistency_of_dtypes():
    x = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=3, name="fc")
    places = [
        {"ctx": mx.cpu(), "x": (2, 4), "type_dict": {"x": dtype}}
        for dtype in (np.float64, np.float32)
    ]
    for request in ("write", "add", "null"):
        tu.check_consistency(x, places, grad_req=request)
    y = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=3, name="fc")
    with pytest.raises(AssertionError):
        tu.check_consistency([x, -2 * y], places)


def test_small_helpers():
    assert tu.same_symbol_structure(square(), square())
    assert not tu.same_symbol_structure(square(), mx.sym.sqrt(mx.sym.Variable("x")))
    np.testing.assert_allclose(tu.simple_forward(square(), x=X), X * X)
    for kind in ("whole", "forward"):
        assert tu.check_speed(square(), N=2, typ=kind, x=(3, 4)) > 0
        assert tu.check_speed(square(), {"x": X}, N=2, typ=kind) > 0
    with pytest.raises(ValueError, match="typ is 'half'"):
        tu.check_speed(square(), typ="half", x=(3, 4))
