"""Networks in half types on blocks of channels, against the same ones in float32."""

import numpy as np
import pytest
from test_blocked import NETWORKS, x

import plait as mx
from plait import autograd, nd
from plait.contrib import amp

# What rounds randomly has nothing to be compared with.
NAMES = [name for name in NETWORKS if name != "dropout"]


@pytest.fixture
def training():
    """amp.init for one test."""
    yield amp.init
    amp.amp._off()


def made(name, data):
    mx.random.seed(3)
    net = NETWORKS[name]()
    net.initialize(mx.init.Xavier(magnitude=3))
    net.hybridize()
    net(data)
    return net


def error(got, wanted):
    """The distance of two arrays, relative to the second one's length."""
    return np.linalg.norm(got - wanted) / (np.linalg.norm(wanted) + 1e-6)


def data_for(name):
    np.random.seed(7)
    return nd.array(x(3, 1 if name == "gray" else 3, 22, 19))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", NAMES)
def test_prediction_differs_by_rounding(name, dtype):
    data = data_for(name)
    net = made(name, data)
    for value in net.collect_params(".*running_.*").values():
        value.set_data(nd.array(np.random.uniform(0.5, 1.5, value.shape)))
    wanted = net(data).asnumpy()
    half = amp.convert_hybrid_block(net, dtype)
    half.hybridize()
    assert error(half(data).astype("float32").asnumpy(), wanted) < 0.02


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_differ_by_rounding(name, dtype, training):
    data = data_for(name)

    def gradients(net):
        data.attach_grad()
        with autograd.record():
            y = net(data).astype("float32")
            head = nd.array(np.random.RandomState(1).randn(*y.shape))
            loss = (y * head).sum()
        loss.backward()
        grads = {
            key.split("_", 1)[1]: p.grad().asnumpy()
            for key, p in net.collect_params().items()
            if p.grad_req != "null"
        }
        return y.asnumpy(), data.grad.asnumpy(), list(grads.values())

    wanted = gradients(made(name, data))
    net = made(name, data)
    training(dtype)
    net.hybridize()
    got = gradients(net)
    assert error(got[0], wanted[0]) < 0.02
    # Some maxima and some signs are others after rounding.
    assert error(got[1], wanted[1]) < 0.15
    for a, b in zip(got[2], wanted[2]):
        if np.linalg.norm(b) > 1e-2:  # biases before a BatchNorm have none
            assert error(a, b) < 0.15
