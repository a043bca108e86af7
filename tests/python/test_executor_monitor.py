"""Executors: what a monitor sees, gradients after a prediction, shared outputs."""

import numpy as np
import pytest

import plait as mx
from plait import nd


def two_layers():
    x = mx.sym.FullyConnected(mx.sym.Variable("x"), num_hidden=3, name="fc")
    return mx.sym.Activation(x, act_type="tanh", name="act")


def watched(is_train, monitor_all=False, backward=False):
    executor = two_layers().simple_bind(mx.cpu(), x=(2, 4))
    for array in executor.arg_arrays:
        array[:] = nd.random.uniform(-1, 1, array.shape)
    seen = {}
    executor.set_monitor_callback(
        lambda name, array: seen.setdefault(name, array.asnumpy()), monitor_all
    )
    executor.forward(is_train=is_train)
    if backward:
        executor.backward(nd.ones((2, 3)))
    return executor, seen


@pytest.mark.parametrize("is_train", [False, True])
def test_a_monitor_sees_every_output(is_train):
    executor, seen = watched(is_train)
    assert list(seen) == ["fc_output", "act_output"]
    np.testing.assert_allclose(
        np.tanh(seen["fc_output"]), seen["act_output"], rtol=1e-5
    )
    np.testing.assert_array_equal(seen["act_output"], executor.outputs[0].asnumpy())
    _, seen = watched(is_train, monitor_all=True)
    assert set(seen) == {"x", "fc_weight", "fc_bias", "fc_output", "act_output"}


def test_a_monitor_sees_what_nodes_give_back():
    executor, seen = watched(True, backward=True)
    names = ["act_backward_output"] + ["fc_backward_output%d" % i for i in range(3)]
    assert list(seen)[2:] == names
    for number, name in enumerate(("x", "fc_weight", "fc_bias")):
        np.testing.assert_allclose(
            seen["fc_backward_output%d" % number],
            executor.grad_dict[name].asnumpy(),
            rtol=1e-5,
        )
    executor.set_monitor_callback(None)
    seen.clear()
    executor.forward(is_train=True)
    assert not seen


def test_gradients_of_a_prediction_are_those_without_training():
    x = mx.sym.Dropout(mx.sym.Variable("x") * 3, p=0.5)
    executor = x.simple_bind(mx.cpu(), x=(50, 2))
    with pytest.raises(mx.MXNetError, match="no forward has run"):
        executor.backward(nd.ones((50, 2)))
    executor.forward(is_train=False, x=nd.ones((50, 2)))
    for head in (1, 2):
        executor.backward(nd.ones((50, 2)) * head)
        assert (executor.grad_arrays[0].asnumpy() == 3 * head).all()
    executor.forward(is_train=True)
    executor.backward(nd.ones((50, 2)))
    assert set(np.unique(executor.grad_arrays[0].asnumpy())) == {0, 6}
    with pytest.raises(mx.MXNetError, match="no forward has run"):
        executor.backward(nd.ones((50, 2)))


def test_reshaped_executors_share_outputs_where_they_fit():
    executor = two_layers().simple_bind(mx.cpu(), x=(4, 4))
    for array in executor.arg_arrays:
        array[:] = nd.random.uniform(-1, 1, array.shape)
    expected = executor.forward()[0].asnumpy().copy()
    smaller = executor.reshape(x=(3, 4))
    executor.outputs[0][:] = 0
    np.testing.assert_array_equal(smaller.forward()[0].asnumpy(), expected[:3])
    np.testing.assert_array_equal(executor.outputs[0].asnumpy()[:3], expected[:3])
    larger = executor.reshape(allow_up_sizing=True, x=(5, 4))
    larger.forward(x=nd.ones((5, 4)))
    np.testing.assert_array_equal(executor.outputs[0].asnumpy()[:3], expected[:3])
