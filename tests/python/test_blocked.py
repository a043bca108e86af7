"""Blocks of channels in hybridized networks: the same numbers as without."""

import json

import numpy as np
import pytest
from hybrid_parts import check

import plait as mx
from plait import gluon, nd
from plait.gluon import nn


def x(*shape):
    return np.random.randn(*shape).astype("float32")


def sequence(*layers):
    net = nn.HybridSequential()
    net.add(*layers)
    return net


class Residual(gluon.HybridBlock):
    """Two ways through a network that meet again."""

    def __init__(self, channels):
        super().__init__()
        self.body = sequence(
            nn.Conv2D(channels, 3, padding=1, use_bias=False),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.Conv2D(channels, 3, padding=1),
        )

    def hybrid_forward(self, F, x):
        return F.Activation(x + self.body(x), act_type="relu")


class Joined(gluon.HybridBlock):
    """Channels side by side, and a gate for each of them."""

    def __init__(self, *channels):
        super().__init__()
        self.parts = nn.HybridSequential()
        self.parts.add(*[nn.Conv2D(c, 1, activation="relu") for c in channels])
        self.gate = nn.Conv2D(sum(channels), 1, activation="sigmoid")

    def hybrid_forward(self, F, x):
        y = F.concat(*[part(x) for part in self.parts], dim=1)
        mean = F.Pooling(y, pool_type="avg", global_pool=True, kernel=(1, 1))
        return F.broadcast_mul(y, self.gate(mean))


class LocalResponse(gluon.HybridBlock):
    """Normalisation by neighbouring channels."""

    def __init__(self, **options):
        super().__init__()
        self._options = options

    def hybrid_forward(self, F, x):
        return F.LRN(x, **self._options)


class Inverted(gluon.HybridBlock):
    """A block of a MobileNet: to many channels, depthwise, to few."""

    def __init__(self, channels, wide, out, stride=1):
        super().__init__()
        self.body = nn.HybridSequential()
        self.adds = channels == out and stride == 1

        def bounded(*args, **kwargs):
            self.body.add(nn.Conv2D(*args, use_bias=False, **kwargs), nn.BatchNorm())
            self.body.add(nn.HybridLambda(lambda F, x: F.clip(x, 0, 6)))

        bounded(wide, 1, in_channels=channels)
        bounded(wide, 3, strides=stride, padding=1, groups=wide, in_channels=wide)
        self.body.add(nn.Conv2D(out, 1, in_channels=wide))

    def hybrid_forward(self, F, x):
        return x + self.body(x) if self.adds else self.body(x)


NETWORKS = {
    "local response": lambda: sequence(
        nn.Conv2D(32, 3, activation="relu"),
        LocalResponse(nsize=5, alpha=0.1),
        nn.Conv2D(24, 3),
        LocalResponse(nsize=3, alpha=0.2, beta=0.6, knorm=1),
        nn.Conv2D(32, 3),
    ),
    "stem": lambda: sequence(
        nn.Conv2D(32, 7, 2, 3), nn.Activation("relu"), nn.MaxPool2D(3, 2, 1)
    ),
    "gray": lambda: sequence(nn.Conv2D(16, 3), nn.Conv2D(16, 3)),
    "odd channels": lambda: sequence(
        nn.Conv2D(32, 3),
        nn.Conv2D(24, 3, activation="relu"),
        nn.Conv2D(40, 3),
        nn.Conv2D(32, 1),
    ),
    "norm": lambda: sequence(
        nn.Conv2D(32, 3, use_bias=False),
        nn.BatchNorm(),
        nn.Conv2D(24, 3),
        nn.BatchNorm(scale=False),
    ),
    "relu6": lambda: sequence(
        nn.Conv2D(32, 3),
        nn.HybridLambda(lambda F, x: F.clip(x, 0, 6)),
        nn.Conv2D(20, 3),
    ),
    "depthwise": lambda: sequence(
        nn.Conv2D(32, 3),
        nn.Conv2D(32, 3, 2, 1, groups=32),
        nn.Conv2D(48, 1),
        nn.LeakyReLU(0.1),
    ),
    "groups": lambda: sequence(
        nn.Conv2D(32, 3), nn.Conv2D(64, 3, groups=2), nn.Conv2D(32, 3)
    ),
    "dilated": lambda: sequence(
        nn.Conv2D(32, 3), nn.Conv2D(32, (3, 2), (1, 2), (2, 1), (2, 1))
    ),
    "pools": lambda: sequence(
        nn.Conv2D(32, 3),
        nn.AvgPool2D(3, 2, 1, ceil_mode=True),
        nn.Conv2D(32, 3, padding=1),
        nn.AvgPool2D(2, 1, count_include_pad=False),
        nn.MaxPool2D(2),
        nn.GlobalAvgPool2D(),
    ),
    "dropout": lambda: sequence(nn.Conv2D(32, 3), nn.Dropout(0.3), nn.Conv2D(32, 3)),
    "residual": lambda: sequence(
        nn.Conv2D(32, 3), Residual(32), Residual(32), nn.Flatten(), nn.Dense(3)
    ),
    "joined": lambda: sequence(nn.Conv2D(32, 3), Joined(16, 32, 48), nn.Conv2D(32, 3)),
    "joined odd": lambda: sequence(nn.Conv2D(32, 3), Joined(16, 24), nn.Conv2D(32, 3)),
    "transposed": lambda: sequence(
        nn.Conv2D(32, 3), nn.Conv2DTranspose(16, 2, 2), nn.Conv2D(16, 3)
    ),
    "inverted residual": lambda: sequence(
        nn.Conv2D(24, 3, 2, 1), Inverted(24, 60, 24), Inverted(24, 40, 32, 2)
    ),
    "not finite at zero": lambda: sequence(
        nn.Conv2D(24, 3),
        nn.HybridLambda(lambda F, x: 1 / (x * x + 0.1) + F.log(x * x + 1)),
        nn.Conv2D(32, 3),
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_gives_the_same(name):
    channels = 1 if name == "gray" else 3
    check(NETWORKS[name], x(3, channels, 22, 19), rtol=5e-3)


def test_inverted_residual_blocks_are_one_call_in_prediction(tmp_path):
    net = sequence(Inverted(32, 96, 32), Inverted(32, 96, 40, 2))
    net.initialize(mx.init.Uniform(0.6))
    data = nd.array(x(2, 32, 15, 12))
    wanted = net(data).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(data).asnumpy(), wanted, rtol=1e-4, atol=1e-4)
    file = tmp_path / "profile.json"
    mx.profiler.set_config(profile_all=True, filename=str(file))
    mx.profiler.set_state("run")
    net(data).wait_to_read()
    mx.profiler.set_state("stop")
    mx.profiler.dump()
    names = [e.get("name") for e in json.loads(file.read_text())["traceEvents"]]
    if "_blocked_convolution" in names or "_blocked_bottleneck" in names:
        assert names.count("_blocked_bottleneck") == 2
        assert "_blocked_convolution" not in names


def test_nan_stays_where_it_is():
    net = sequence(
        nn.Conv2D(32, 1, activation="relu"), nn.Conv2D(24, 1, activation="relu")
    )
    net.initialize()
    net.hybridize()
    data = np.random.randn(2, 16, 5, 5).astype("float32")
    data[1, 3, 2, 4] = np.nan
    y = np.isnan(net(nd.array(data)).asnumpy())
    assert y[1, :, 2, 4].all() and y.sum() == 24


def test_an_output_in_the_middle_is_plain():
    data = mx.sym.var("data")
    inner = mx.sym.Convolution(data, num_filter=32, kernel=(3, 3), name="a")
    outer = mx.sym.Convolution(inner, num_filter=24, kernel=(3, 3), name="b")
    both = mx.sym.Group([outer, inner])
    args = {"data": nd.array(x(2, 16, 9, 8))}
    shapes, _, _ = both.infer_shape(data=(2, 16, 9, 8))
    for name, shape in zip(both.list_arguments(), shapes):
        args.setdefault(name, nd.array(x(*shape)))
    b, a = both.bind(mx.cpu(), args).forward()
    kwargs = dict(num_filter=32, kernel=(3, 3))
    wanted = nd.Convolution(args["data"], args["a_weight"], args["a_bias"], **kwargs)
    np.testing.assert_allclose(a.asnumpy(), wanted.asnumpy(), rtol=1e-4, atol=1e-4)
    kwargs["num_filter"] = 24
    wanted = nd.Convolution(wanted, args["b_weight"], args["b_bias"], **kwargs)
    np.testing.assert_allclose(b.asnumpy(), wanted.asnumpy(), rtol=1e-3, atol=1e-3)


def test_long_sums_are_taken_in_parts():
    net = nn.Conv2D(32, 112, in_channels=3)
    net.initialize()
    data = nd.array(np.random.uniform(-1, 1, (1, 3, 112, 112)))
    net.hybridize()
    found = net(data).asnumpy().astype("float64")
    weight = net.weight.data().asnumpy().astype("float64")
    exact = np.tensordot(data.asnumpy().astype("float64"), weight, ([1, 2, 3],) * 2)
    # 37,632 products a sum: one after the other they would be ten times as far off.
    np.testing.assert_allclose(found.reshape(1, 32), exact, rtol=0, atol=1e-5)
