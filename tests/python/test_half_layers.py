"""Layers of transformers in half types: gradients, and what is rounded only once."""

import numpy as np
import pytest

import plait as mx
from plait.contrib import amp
from plait.gluon import nn


@pytest.fixture
def training():
    """amp.init() for one test."""
    yield amp.init
    amp.amp._off()


class Layer(nn.HybridBlock):
    """Attention and two dense layers, as transformers have them."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.inputs = nn.Dense(96, flatten=False, in_units=32)
            self.wide = nn.Dense(64, flatten=False, in_units=32)
            self.narrow = nn.Dense(32, flatten=False, in_units=64)
            self.norm, self.gelu = nn.LayerNorm(in_channels=32), nn.GELU()

    def hybrid_forward(self, F, x):
        q, k, v = F.split(self.inputs(x), 3, axis=2)
        weights = F.softmax(F.batch_dot(q, k, transpose_b=True) / 32**0.5)
        x = self.norm(x + F.batch_dot(weights, v))
        return x + self.narrow(self.gelu(self.wide(x)))


@pytest.mark.parametrize("target", ["float16", "bfloat16"])
def test_gradients_of_attention_and_dense_layers_are_those_of_float32(training, target):
    mx.random.seed(5)
    net = Layer()
    net.initialize(mx.init.Normal(0.2))
    net.hybridize()
    x, weight = mx.nd.random.normal(shape=(2, 2, 100, 32)).split(2, squeeze_axis=True)

    def gradients():
        with mx.autograd.record():
            loss = (net(x).astype("float32") * weight).sum()
        loss.backward()
        return {k: p.grad().asnumpy() for k, p in net.collect_params().items()}

    exact = gradients()
    training(target)
    net.hybridize()
    bound = 0.004 if target == "float16" else 0.03
    for name, gradient in gradients().items():
        assert gradient.dtype == np.float32
        gap = np.linalg.norm(gradient - exact[name]) / np.linalg.norm(exact[name])
        assert 0 < gap < bound, name


@pytest.mark.parametrize("target", ["float16", "bfloat16"])
def test_gelu_and_dropout_are_rounded_once(target):
    x = mx.nd.random.normal(scale=2, shape=(1000,)).astype(target)
    y = mx.nd.LeakyReLU(x, act_type="gelu")
    wide = mx.nd.LeakyReLU(x.astype("float32"), act_type="gelu")
    assert (y == wide.astype(target)).asnumpy().all()
    with mx.autograd.record():
        z = mx.nd.Dropout(x, p=0.3)
    kept = (x.astype("float32") * (1 / (1 - 0.3))).astype(target)
    assert ((z == 0) + (z == kept) > 0).asnumpy().all()
