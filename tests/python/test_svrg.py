"""Variance reduced gradients: SVRGModule."""

import numpy as np
import pytest

import plait as mx
from plait.contrib.svrg_optimization.svrg_module import SVRGModule


def _module(**kwargs):
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc")
    net = mx.sym.LinearRegressionOutput(net, mx.sym.var("label"), name="out")
    return SVRGModule(
        net, data_names=["data"], label_names=["label"], update_freq=2, **kwargs
    )


def _data(rows, batch_size=4):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(rows, 2)).astype("float32")
    y = (x @ np.array([1.0, -2.0], "float32") + 0.5).reshape(-1, 1)
    return x, y, mx.io.NDArrayIter(x, y, batch_size, label_name="label")


def test_a_step_at_the_snapshot_is_a_step_of_the_mean_gradient():
    x, y, batches = _data(8)
    mod = _module()
    mod.bind(batches.provide_data, batches.provide_label)
    mod.init_params(mx.init.One())
    mod.init_optimizer(optimizer_params={"learning_rate": 0.5, "rescale_grad": 0.25})
    mod.update_full_grads(batches)
    batches.reset()
    batch = next(batches)
    mod.forward_backward(batch)
    mod.update()
    error = x @ np.ones((2, 1), "float32") - y  # the bias begins as 0
    mean = (error * x).sum(0) / 2  # of two batches
    weight = mod.get_params()[0]["fc_weight"].asnumpy()
    np.testing.assert_allclose(weight, [1 - 0.5 * 0.25 * mean], rtol=1e-5)
    # The next step is at new weights w, with g(w) - g(s) + mean.
    bias = mod.get_params()[0]["fc_bias"].asnumpy()
    mod.forward_backward(batch)
    mod.update()
    now = x[:4] @ weight.T + bias - y[:4]
    grad = (now * x[:4]).sum(0) - (error[:4] * x[:4]).sum(0) + mean
    want = weight - 0.5 * 0.25 * grad
    after = mod.get_params()[0]["fc_weight"].asnumpy()
    np.testing.assert_allclose(after, want, rtol=1e-4)


@pytest.mark.parametrize("devices", [1, 2])
def test_svrg_learns_a_line(devices):
    _, _, batches = _data(64, 16)
    mod = _module(context=[mx.cpu(i) for i in range(devices)])
    mod.fit(
        batches,
        eval_metric="mse",
        optimizer_params={"learning_rate": 0.2},
        num_epoch=12,
    )
    params = mod.get_params()[0]
    np.testing.assert_allclose(params["fc_weight"].asnumpy(), [[1, -2]], atol=0.02)
    np.testing.assert_allclose(params["fc_bias"].asnumpy(), [0.5], atol=0.02)


def test_bad_frequencies_are_refused():
    net = mx.sym.var("data")
    with pytest.raises(ValueError, match="update_freq is 0"):
        SVRGModule(net, update_freq=0)
    for bad in (None, 1.5):
        with pytest.raises(TypeError, match="a number of epochs was expected"):
            SVRGModule(net, update_freq=bad)
