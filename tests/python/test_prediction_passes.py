"""Networks compiled for prediction, with parameters that change between calls."""

import ctypes
import threading

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd
from plait.gluon import nn
from plait.gluon.model_zoo import vision


def trained(make):
    """A network whose statistics are not those of the start."""
    net = make()
    net.initialize(mx.init.Xavier())
    x = nd.random.uniform(shape=(2, 3, 32, 32))
    with autograd.record():
        net(x)
    rng = np.random.RandomState(3)
    for name, p in net.collect_params().items():
        if name.endswith(("gamma", "running_var")):
            p.set_data(nd.array(rng.uniform(0.7, 1.3, p.shape)))
        elif name.endswith(("beta", "running_mean")):
            p.set_data(nd.array(rng.uniform(-0.2, 0.2, p.shape)))
    return net, x


def assert_as_imperative(net, x):
    """Whether a hybridized network gives what its layers give one by one."""
    got = net(x).asnumpy()
    net.hybridize(False)
    expected = net(x).asnumpy()
    net.hybridize()  # forgets what is compiled
    again = net(x).asnumpy()
    scale = np.abs(expected).max()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4 * scale)
    np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-4 * scale)
    return expected


@pytest.mark.parametrize("name", ["resnet18_v1", "resnet18_v2", "mobilenet_v2_0_25"])
def test_networks_follow_their_parameters(name, tmp_path):
    net, x = trained(lambda: getattr(vision, name)(classes=10))
    net.save_parameters(str(tmp_path / "first"))
    net.hybridize()
    first = assert_as_imperative(net, x)
    params = [p for p in net.collect_params().values() if p.grad_req != "null"]
    for i in (0, 1, 2, len(params) // 2, len(params) - 1):
        p = params[i]
        p.data()[:] = p.data().asnumpy() * 1.5 + 0.01  # in place
        changed = assert_as_imperative(net, x)
        assert not np.array_equal(changed, first)
        p.set_data(p.data() * 0.7)
        assert_as_imperative(net, x)
    net.load_parameters(str(tmp_path / "first"))
    np.testing.assert_allclose(assert_as_imperative(net, x), first, rtol=1e-5)


def small():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
    net.add(nn.Conv2DTranspose(4, 2, groups=2, in_channels=4), nn.BatchNorm())
    net.add(nn.Dense(6), nn.BatchNorm(scale=False), nn.Dense(5))
    return net


def test_predictions_between_training_steps():
    net, x = trained(small)
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    for _ in range(4):
        before = assert_as_imperative(net, x)
        net(x)
        with autograd.record():
            loss = (net(x) ** 2).sum()
        loss.backward()
        trainer.step(2)
        # Without a wait: what is compiled must wait for the update.
        assert not np.array_equal(net(x).asnumpy(), before)
        assert_as_imperative(net, x)


def test_copies_on_several_devices():
    net, x = trained(small)
    devices = [mx.cpu(0), mx.cpu(1)]
    net.collect_params().reset_ctx(devices)
    net.hybridize()
    first = [net(x.as_in_context(d)).asnumpy() for d in devices]
    np.testing.assert_array_equal(*first)
    weight = net[0].weight
    weight.data(devices[1])[:] *= 2
    for _ in range(2):
        got = [net(x.as_in_context(d)).asnumpy() for d in devices]
        np.testing.assert_array_equal(got[0], first[0])
        assert not np.array_equal(got[1], first[1])


def test_memory_of_other_libraries():
    numbers = np.ones((1, 4), "float32")

    class Doubled(gluon.HybridBlock):
        def hybrid_forward(self, F, x, weight):
            return F.FullyConnected(x, weight * 2, num_hidden=1, no_bias=True)

    f = Doubled()
    f.hybridize()
    x = nd.ones((1, 4))
    shared = mx.nd.from_numpy(numbers, zero_copy=True)
    assert f(x, shared).asscalar() == 8
    numbers.flags.writeable = True
    numbers[0, 0] = 5
    assert f(x, shared).asscalar() == 16
    own = nd.ones((1, 4))
    assert f(x, own).asscalar() == 8
    lent = np.from_dlpack(own)
    ctypes.c_float.from_address(lent.ctypes.data).value = 3
    assert f(x, own).asscalar() == 12
    del lent
    assert f(x, own).asscalar() == 12


def test_executor_follows_its_parameters():
    net, x = trained(small)
    symbol = net(mx.sym.var("data"))
    arrays = {p.name: p.data() for p in net.collect_params().values()}
    aux = {k: arrays.pop(k) for k in list(arrays) if "running" in k}
    exe = symbol.bind(
        mx.cpu(),
        {**{k: v.copy() for k, v in arrays.items()}, "data": x},
        aux_states=aux,
    )
    np.testing.assert_allclose(
        exe.forward()[0].asnumpy(), net(x).asnumpy(), rtol=1e-4, atol=1e-5
    )
    for p in net.collect_params().values():
        if p.grad_req != "null":
            p.set_data(p.data() * 1.1)
    exe.copy_params_from(
        {p: v.data() for p, v in net.collect_params().items() if p in arrays}
    )
    expected = net(x).asnumpy()
    np.testing.assert_allclose(
        exe.forward()[0].asnumpy(), expected, rtol=1e-4, atol=1e-5
    )
    wide = exe.reshape(data=(3, 3, 32, 32), allow_up_sizing=True)
    x3 = nd.concat(x, x[:1], dim=0)
    y = wide.forward(data=x3)[0].asnumpy()
    np.testing.assert_allclose(y[:2], expected, rtol=1e-4, atol=1e-5)


def test_threads_predict_while_parameters_change():
    """Every prediction is that of parameters which were there during its call."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(2, 1, use_bias=False, in_channels=2), nn.BatchNorm(epsilon=0))
    net.initialize(mx.init.One())
    net.hybridize()
    x = nd.ones((1, 2, 3, 3))
    assert (net(x).asnumpy() == 2).all()
    beta = net[1].beta.data()
    state = {"begun": 0, "ended": 0}
    wrong = []

    def read():
        while state["ended"] < 100:
            before = state["ended"]
            y = net(x).asnumpy().ravel() - 2
            if not before <= y[0] <= state["begun"] or (y != y[0]).any():
                wrong.append((before, y, state["begun"]))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for t in threads:
        t.start()
    for i in range(1, 101):
        state["begun"] = i
        beta[:] = i
        state["ended"] = i
    for t in threads:
        t.join(60)
    assert wrong == []
