"""Calls one by one keep blocks of channels between them, and nobody can see it."""

import pickle
import threading

import numpy as np
import pytest
from test_blocked import Residual, sequence

import plait as mx
from plait import autograd, nd
from plait.gluon import nn


def arrays(channels=48):
    random = np.random.RandomState(3)
    x = random.randn(4, channels, 12, 12).astype("float32")
    w = random.randn(channels, channels, 3, 3).astype("float32") / 20
    return nd.array(x), nd.array(w)


def conv(x, w):
    return nd.Convolution(
        x, w, no_bias=True, kernel=(3, 3), pad=(1, 1), num_filter=w.shape[0]
    )


def expected(x, w):
    """(batch, channels, height, width), by matrix products of shifted images."""
    x, w = x.asnumpy().astype("float64"), w.asnumpy().astype("float64")
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    y = 0
    for i in range(3):
        for j in range(3):
            part = x[:, :, i : i + 12, j : j + 12]
            y = y + np.einsum("nchw,oc->nohw", part, w[:, :, i, j])
    return y


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


READERS = {
    "asnumpy": lambda y: y.asnumpy(),
    "dlpack": lambda y: np.from_dlpack(y),
    "pickle": lambda y: pickle.loads(pickle.dumps(y)).asnumpy(),
    "copy": lambda y: y.copy().asnumpy(),
    "device": lambda y: y.as_in_context(mx.cpu(1)).asnumpy(),
    "cast": lambda y: y.astype("float64").asnumpy(),
    "transpose": lambda y: y.transpose((0, 2, 3, 1)).asnumpy().transpose(0, 3, 1, 2),
    "flat": lambda y: y.reshape((-1,)).asnumpy().reshape(4, 48, 12, 12),
    "rows": lambda y: np.stack([y[i].asnumpy() for i in range(4)]),
    "pixel": lambda y: np.array([[float(y[1, 2, 3, 4].asscalar())]]),
    "detach": lambda y: y.detach().asnumpy(),
}


@pytest.mark.parametrize("how", READERS)
def test_every_way_to_the_elements_finds_them_in_order(how):
    x, w = arrays()
    wanted = expected(x, w)
    got = READERS[how](conv(x, w))
    close(got, wanted[1, 2, 3, 4] if how == "pixel" else wanted)
    got = READERS[how](nd.relu(conv(x, w)))
    wanted = np.maximum(wanted, 0)
    close(got, wanted[1, 2, 3, 4] if how == "pixel" else wanted)


def test_a_file_holds_the_plain_array(tmp_path):
    x, w = arrays()
    nd.save(str(tmp_path / "y.params"), [conv(x, w)])
    close(nd.load(str(tmp_path / "y.params"))[0].asnumpy(), expected(x, w))


def test_writes_in_place_go_to_the_plain_array():
    x, w = arrays()
    y, wanted = conv(x, w), expected(x, w)
    before = nd.relu(y)
    y += 1
    y[:, 5] = 7
    y[2] *= 2
    wanted = wanted + 1
    wanted[:, 5] = 7
    wanted[2] *= 2
    close(y.asnumpy(), wanted)
    close(before.asnumpy(), np.maximum(expected(x, w), 0))
    z = conv(x, w)
    np.from_dlpack(z)  # lent out
    z[0] = 0
    assert not z[0].asnumpy().any() and z[1].asnumpy().any()


def test_a_network_that_is_not_hybridized_gives_the_same_numbers():
    mx.random.seed(4)
    net = sequence(nn.Conv2D(48, 3, padding=1), Residual(48), nn.MaxPool2D(2))
    net.initialize(mx.init.Xavier())
    x = nd.random.normal(shape=(4, 3, 24, 24))
    x.attach_grad()

    def run():
        with autograd.record():
            y = net(x)
        y.backward(nd.ones_like(y))
        parameters = net.collect_params().values()
        grads = [p.grad().asnumpy() for p in parameters if p.grad_req != "null"]
        return [y.asnumpy(), x.grad.asnumpy()] + grads

    one_by_one = run()
    net.hybridize()
    for got, wanted in zip(one_by_one, run(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def test_second_derivatives():
    x, w = arrays()
    results = []
    for lazily in (True, False):
        v = w.copy()
        v.attach_grad()
        with autograd.record():
            y = nd.tanh(conv(x, v))
            if not lazily:
                y.asnumpy()
            g = autograd.grad(y.sum(), v, create_graph=True)[0]
            z = (g * g).sum()
        z.backward()
        results.append(v.grad.asnumpy())
    scale = np.abs(results[1]).max()
    assert np.abs(results[0] - results[1]).max() < 1e-3 * scale


def test_predictions_follow_parameters():
    net = nn.Conv2D(48, 3, padding=1, use_bias=False, in_channels=48)
    net.initialize()
    x, w = arrays()
    for scale in (1, 2):
        net.weight.set_data(w * scale)
        for _ in range(2):
            close(net(x).asnumpy(), expected(x, w * scale))
    net.weight.data()[:] = w
    close(net(x).asnumpy(), expected(x, w))


def test_threads_share_a_result():
    x, w = arrays()
    y, wanted = conv(x, w), expected(x, w)
    seen = [None] * 4

    def read(i):
        seen[i] = (y if i % 2 else nd.relu(y) - nd.relu(-y)).asnumpy()

    threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for got in seen:
        close(got, wanted)
