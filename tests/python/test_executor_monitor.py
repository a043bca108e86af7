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
    fc = ["x", "fc_data", "fc_weight", "fc_bias", "fc_output"]
    assert list(seen) == [*fc, "act_input0", "act_output"]
    np.testing.assert_array_equal(seen["act_input0"], seen["fc_output"])


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
    executor.arg_arrays[0][:] = 2
    executor.backward(nd.ones((50, 2)))
    assert (executor.grad_arrays[0].asnumpy() == 3).all()
    assert (executor.outputs[0].asnumpy() == 6).all()
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


def test_head_gradients_that_do_not_matter_may_have_any_shape():
    x = mx.sym.Variable("x")
    group = mx.sym.Group([x * 2, mx.sym.shape_array(x), mx.sym.BlockGrad(x)])
    executor = group.simple_bind(mx.cpu(), x=(2, 3))
    executor.forward(is_train=True)
    executor.backward([nd.ones((2, 3)), nd.ones((7,)), nd.ones((5,)), nd.ones((1,))])
    assert (executor.grad_arrays[0].asnumpy() == 2).all()
    executor.forward(is_train=True)
    with pytest.raises(mx.MXNetError, match=r"head gradient 0 has shape \(3,\)"):
        executor.backward([nd.ones((3,))])


@pytest.mark.parametrize("request_, expected", [("write", 2), ("add", 7)])
def test_gradients_may_be_kept_in_another_dtype(request_, expected):
    x = mx.sym.Variable("x") * 2
    grad = nd.ones((2,), dtype="float64") * 5
    executor = x.bind(mx.cpu(), [nd.ones((2,))], [grad], request_)
    executor.forward(is_train=True)
    executor.backward(nd.ones((2,)))
    assert grad.dtype == np.float64 and (grad.asnumpy() == expected).all()
    assert executor.grad_arrays[0] is grad


def test_simple_bind_takes_shapes_of_arguments_only():
    x = mx.sym.Variable("x") * 2
    assert x.simple_bind(mx.cpu(), x=(2,), axis=-1).outputs[0].shape == (2,)
    with pytest.raises(TypeError, match="the shape of x is 3; a tuple was expected"):
        x.simple_bind(mx.cpu(), x=3)


def test_monitors_stay_when_shapes_change():
    executor, seen = watched(False)
    seen.clear()
    executor.reshape(x=(1, 4)).forward()
    assert list(seen) == ["fc_output", "act_output"]
    assert seen["act_output"].shape == (1, 3)


def test_an_error_in_a_monitor_is_the_errors_of_forward():
    executor, _ = watched(False)

    def fail(name, array):
        raise ValueError("no %s today" % name)

    executor.set_monitor_callback(fail)
    with pytest.raises(ValueError, match="no fc_output today"):
        executor.forward()
