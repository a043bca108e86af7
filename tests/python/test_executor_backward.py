"""Backward more than once after a forward."""

import numpy as np
import pytest

import plait as mx
from plait import nd


def test_two_backwards_after_one_forward_give_what_each_alone_gives():
    x = mx.sym.var("x")
    y = mx.sym.tanh(mx.sym.FullyConnected(x, num_hidden=3, name="fc"))
    executor = y.simple_bind(mx.cpu(), grad_req="add", x=(2, 4))
    for array in executor.arg_arrays:
        array[:] = nd.random.normal(shape=array.shape)
    executor.forward(is_train=True)
    executor.backward(nd.ones((2, 3)))
    once = executor.grad_dict["x"].asnumpy()
    executor.backward(2 * nd.ones((2, 3)))
    np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), 3 * once, rtol=1e-5)


def test_a_graph_that_draws_numbers_is_not_run_again_unseen():
    y = mx.sym.Dropout(mx.sym.var("x"), p=0.5)
    executor = y.simple_bind(mx.cpu(), x=(4, 4))
    executor.forward(is_train=True)
    executor.backward(nd.ones((4, 4)))
    with pytest.raises(RuntimeError, match="draws random"):
        executor.backward(nd.ones((4, 4)))


@pytest.mark.parametrize("result", ["int32", "float32", "float16"])
@pytest.mark.parametrize("source", ["int32", "float32", "float16"])
def test_head_gradients_of_casts_flow_through_integers(source, result):
    y = mx.sym.Cast(mx.sym.var("x", dtype=source), dtype=result)
    executor = y.simple_bind(mx.cpu(), x=(4, 5))
    head = np.random.RandomState(0).uniform(-9, 9, (4, 5))
    executor.forward(is_train=True, x=nd.array(head, dtype=source))
    executor.backward(nd.array(head, dtype=result))
    grad = executor.grad_dict["x"]
    assert grad.dtype == np.dtype(source)
    want = head.astype(result).astype(source)
    np.testing.assert_allclose(grad.asnumpy(), want, rtol=1e-3)
