"""Calls one by one keep blocks of channels between them, and nobody can see it."""

import os
import pickle
import signal
import threading

import numpy as np
import pytest
from test_blocked import Residual, sequence

import plait as mx
from plait import _plait, autograd, nd
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


@pytest.mark.parametrize("hybrid", [False, True])
@pytest.mark.parametrize("dtype, size", [("float32", 1e20), ("float16", 300)])
def test_what_fills_the_last_block_stays_zero(dtype, size, hybrid):
    # 60 channels are run in blocks of 64. What is added must not be left of the
    # filling: its square is infinite, and zero filters make NaN of that.
    net = sequence(
        nn.Conv2D(60, 3, bias_initializer=mx.init.Constant(size), in_channels=60),
        nn.HybridLambda(lambda F, x: F.square(x - size)),
        nn.Conv2D(60, 3, in_channels=60),
    )
    net.initialize(mx.init.Uniform(0.05))
    net.cast(dtype)
    if hybrid:
        net.hybridize()
    x, _ = arrays(60)
    assert np.isfinite(net(x.astype(dtype)).asnumpy()).all()


def test_channels_that_nearly_fill_their_blocks():
    x, w = arrays(60)
    y = nd.tanh(conv(x, w))
    close(y.asnumpy(), np.tanh(expected(x, w)))
    close(conv(nd.tanh(conv(x, w)), w).asnumpy(), expected(y, w))
    close(conv(nd.exp(-nd.abs(y)), w).asnumpy(), expected(nd.exp(-nd.abs(y)), w))


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


def live():
    nd.waitall()
    return _plait.memory_stats(1, 0)["live"]


def predicted(net, x):
    """Bytes that a prediction leaves behind."""
    before = live()
    net(x).wait_to_read()
    return live() - before


def test_a_hybridized_training_step_lets_go_of_kept_filters():
    net = nn.Conv2D(128, 3, padding=1, use_bias=False, in_channels=128)
    net.initialize()
    x = nd.random.normal(shape=(4, 128, 12, 12))

    def step():
        net.hybridize()
        with autograd.record():
            y = net(x)
        y.backward()
        del y
        net.hybridize(False)
        return live()

    before = step()
    kept = predicted(net, x)
    if kept == 0:
        pytest.skip("nothing is kept here")
    assert predicted(net, x) < kept // 8
    assert step() - before < kept // 2


def test_an_executor_that_trains_lets_go_of_kept_filters():
    x, w = arrays(96)
    w.attach_grad()
    y = mx.sym.Convolution(
        mx.sym.var("x"),
        mx.sym.var("w"),
        no_bias=True,
        kernel=(3, 3),
        pad=(1, 1),
        num_filter=96,
    )
    executor = y.bind(mx.cpu(), {"x": x, "w": w}, {"w": nd.zeros_like(w)})

    def step():
        executor.forward(is_train=True)
        executor.backward(nd.ones((4, 96, 12, 12)))
        return live()

    step()
    before = step()
    kept = predicted(lambda x: conv(x, w), x)
    if kept == 0:
        pytest.skip("nothing is kept here")
    assert step() - before < kept // 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forks_while_threads_put_results_in_order():
    x, w = arrays()
    w.attach_grad()
    wanted = expected(x, w)
    done = threading.Event()

    def work():
        while not done.is_set():
            nd.relu(conv(x, w)).asnumpy()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            y = conv(x, w)
            pid = os.fork()
            if pid == 0:
                signal.alarm(30)
                good = np.allclose(y.asnumpy(), wanted, rtol=1e-4, atol=1e-4)
                z = conv(x, w).asnumpy()
                good &= np.allclose(z, wanted, rtol=1e-4, atol=1e-4)
                os._exit(0 if good else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    finally:
        done.set()
        for thread in threads:
            thread.join()


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
