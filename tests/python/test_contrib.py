"""plait.contrib: the old gradients, loaders for modules, callbacks for TensorBoard."""

import sys
import types

import numpy as np
import pytest

import plait as mx
from plait.contrib import autograd
from plait.contrib.io import DataLoaderIter


def test_grad_and_loss_gives_gradients_and_the_result():
    x, y = mx.nd.array([1.0, 2.0]), mx.nd.array([3.0, 5.0])
    grads, out = autograd.grad_and_loss(lambda a, b: a * b)(x, y)
    np.testing.assert_array_equal(out.asnumpy(), [3, 10])
    np.testing.assert_array_equal(grads[0].asnumpy(), [3, 5])
    np.testing.assert_array_equal(grads[1].asnumpy(), [1, 2])
    (only,) = autograd.grad(lambda a, b: a * b, argnum=1)(x, y)
    np.testing.assert_array_equal(only.asnumpy(), [1, 2])
    with pytest.raises(TypeError, match="argument 0 is a float"):
        autograd.grad(lambda a: a)(1.0)


def test_sections_switch_recording_and_training():
    assert not mx.autograd.is_training()
    with autograd.train_section():
        assert mx.autograd.is_training() and mx.autograd.is_recording()
        with autograd.test_section():
            assert not mx.autograd.is_training() and not mx.autograd.is_recording()
        assert mx.autograd.is_recording()
    assert not mx.autograd.is_training() and not mx.autograd.is_recording()


def test_backward_of_marked_variables():
    x, dx = mx.nd.array([2.0, 3.0]), mx.nd.zeros(2)
    autograd.mark_variables([x], [dx])
    with autograd.train_section():
        y = x * x
    autograd.backward([y], [mx.nd.array([1.0, 10.0])])
    np.testing.assert_array_equal(dx.asnumpy(), [4, 60])
    with pytest.raises(TypeError, match="a list or tuple"):
        autograd.backward(y)


def test_a_loader_feeds_a_module():
    data = np.arange(20, dtype="float32").reshape(10, 2)
    label = (np.arange(10) % 2).astype("float32")
    loader = mx.gluon.data.DataLoader(
        mx.gluon.data.ArrayDataset(data, label), batch_size=4
    )
    batches = DataLoaderIter(loader)
    assert batches.provide_data[0].shape == (4, 2)
    for _ in range(2):
        batches.reset()
        seen = list(batches)
        assert [b.pad for b in seen] == [0, 0, 2]
        np.testing.assert_array_equal(seen[2].data[0].asnumpy()[:2], data[8:])
        np.testing.assert_array_equal(seen[2].data[0].asnumpy()[2:], 0)
        np.testing.assert_array_equal(seen[1].label[0].asnumpy(), label[4:8])
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    mod = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
    batches.reset()
    mod.fit(batches, num_epoch=1)
    assert mod.predict(batches).shape == (10, 2)


def test_metrics_go_to_a_summary_writer(monkeypatch):
    rows = []

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, name, value, global_step):
            rows.append((self.folder, name, value, global_step))

    module = types.ModuleType("mxboard")
    module.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "mxboard", module)
    metric = mx.metric.Accuracy()
    metric.update([mx.nd.array([0, 1])], [mx.nd.array([[1, 0], [1, 0]])])
    callback = mx.contrib.tensorboard.LogMetricsCallback("logs", prefix="train")
    callback(types.SimpleNamespace(eval_metric=metric, epoch=3))
    callback(types.SimpleNamespace(eval_metric=None, epoch=4))
    assert rows == [("logs", "train-accuracy", 0.5, 3)]
    for name in ("mxboard", "tensorboardX", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match="mxboard"):
        mx.contrib.tensorboard.LogMetricsCallback("logs")


def _adamw(w, g, m, v, lr, eta, wd, scale):
    g = g * scale
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return w - eta * (lr * m / (np.sqrt(v) + 1e-8) + wd * w), m, v


@pytest.mark.parametrize("count", [1, 3])
def test_adamw_of_several_weights_in_one_call(count):
    rng = np.random.default_rng(1)
    shapes = [(3,), (2, 4), (5,)][:count]
    host = [[rng.random(s).astype("float32") for s in shapes] for _ in range(4)]
    w, g, m, v = [[mx.nd.array(x) for x in row] for row in host]
    half, full = [x.astype("float16") for x in w], [x.copy() for x in w]
    lrs, wds, etas = (0.1, 0.2, 0.3), (0.0, 0.1, 0.2), (1.0, 0.5, 0.25)
    options = {"lrs": lrs[:count], "wds": wds[:count], "etas": etas[:count]}
    for bad in (float("nan"), mx.nd.array([np.inf])):
        mx.nd.contrib.multi_adamw_update(w, g, m, v, bad, out=w, **options)
    for x, before in zip(w + m, host[0] + host[2]):
        np.testing.assert_array_equal(x.asnumpy(), before)
    mx.nd.contrib.multi_adamw_update(w, g, m, v, 0.5, out=w, **options)
    for i in range(count):
        want = _adamw(*[row[i] for row in host], lrs[i], etas[i], wds[i], 0.5)
        for x, y in zip((w[i], m[i], v[i]), want):
            np.testing.assert_allclose(x.asnumpy(), y, rtol=1e-5)
    m, v = [[mx.nd.array(x) for x in row] for row in host[2:]]
    mx.nd.contrib.multi_mp_adamw_update(
        half, [x.astype("float16") for x in g], m, v, full, 0.5, out=half, **options
    )
    for i in range(count):
        np.testing.assert_allclose(full[i].asnumpy(), w[i].asnumpy(), rtol=1e-3)
        np.testing.assert_allclose(half[i].asnumpy(), w[i].asnumpy(), rtol=2e-3)
    with pytest.raises(ValueError, match="lists of one length"):
        mx.nd.contrib.multi_adamw_update(w, g[1:], m, v, 0.5, out=w, **options)


def test_adamw_of_one_weight():
    host = [np.full(2, x, "float32") for x in (1, 2, 0.5, 0.25)]
    w, g, m, v = [mx.nd.array(x) for x in host]
    mx.nd.contrib.adamw_update(w, g, m, v, 3, lr=0.1, eta=0.5, wd=0.01, out=w)
    want = _adamw(*host, 0.1, 0.5, 0.01, 3)
    np.testing.assert_allclose(w.asnumpy(), want[0], rtol=1e-6)
    half = mx.nd.ones(2, dtype="float16")
    m, v, full = [mx.nd.array(x) for x in (host[2], host[3], host[0])]
    mx.nd.contrib.mp_adamw_update(
        half, g.astype("float16"), m, v, full, 3, lr=0.1, eta=0.5, wd=0.01, out=half
    )
    np.testing.assert_allclose(full.asnumpy(), want[0], rtol=1e-3)


def test_lamb_of_several_weights_is_lamb_of_each():
    rng = np.random.default_rng(2)
    host = [[rng.random(s).astype("float32") for s in [(3,), (4,)]] for _ in range(4)]
    w, g, m, v = [[mx.nd.array(x) for x in row] for row in host]
    mx.nd.contrib.multi_lamb_update(
        w, g, m, v, step_count=[1, 2], lrs=[0.1, 0.2], wds=[0.0, 0.1], out=w
    )
    for i, (step, lr, wd) in enumerate([(1, 0.1, 0.0), (2, 0.2, 0.1)]):
        x, dx, mean, var = [row[i] for row in host]
        mean = 0.9 * mean + 0.1 * dx
        var = 0.999 * var + 0.001 * dx * dx
        up = mean / (1 - 0.9**step) / (np.sqrt(var / (1 - 0.999**step)) + 1e-6) + wd * x
        ratio = np.linalg.norm(x) / np.linalg.norm(up)
        np.testing.assert_allclose(w[i].asnumpy(), x - lr * ratio * up, rtol=1e-4)
    full = [x.copy() for x in w]
    half = [x.astype("float16") for x in w]
    mx.nd.contrib.multi_mp_lamb_update(
        half,
        [x.astype("float16") for x in g],
        m,
        v,
        full,
        step_count=[2, 3],
        lrs=[0.1, 0.2],
        wds=[0.0, 0.1],
        out=half,
    )
    assert all(np.isfinite(x.asnumpy()).all() for x in half + full)
    for x, y, before in zip(half, full, w):
        np.testing.assert_allclose(x.asnumpy(), y.asnumpy(), rtol=1e-3)
        assert (y.asnumpy() != before.asnumpy()).any()
