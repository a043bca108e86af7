"""What users of MXNet asked for in training: one way to trace, progress that can be
read, old interfaces that stay, callbacks that do not wait for each other.

Each test names the row of the list of requirements that it stands for (R1, ...).
"""

import contextlib
import os
import pty
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd, operator
from plait.gluon import nn


class Mixed(gluon.HybridBlock):
    """An ordinary forward beside a hybrid_forward."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.dense = nn.Dense(3, in_units=4)

    def forward(self, x):
        batch, width = x.shape
        if width > 3:
            x = x[:, :-1] * batch
        return self.dense(x.reshape((batch, -1))[0:2]) - x[-1, 0] + x[0].sum()


@pytest.mark.parametrize("turn_on", ["hybridize", "compile"])
def test_a_traced_block_gives_what_the_plain_one_does(turn_on):  # R1
    block = Mixed()
    block.initialize(mx.init.Xavier())
    results = {}
    for traced in (False, True):
        if traced:
            getattr(block, turn_on)(static_alloc=True)
            assert block._active and block.dense._active
        for batch in (2, 5):
            x = nd.array(np.arange(5.0 * batch).reshape(batch, 5) / 7)
            x.attach_grad()
            with autograd.record():
                y = block(x)
            y.backward()
            found = [y.asnumpy(), x.grad.asnumpy()]
            found.append(block.dense.weight.grad().asnumpy())
            for a, b in zip(results.setdefault(batch, found), found):
                np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)
    block.compile(False)
    assert not block._active


@pytest.mark.filterwarnings("ignore:All children")
def test_compile_reaches_blocks_inside_plain_ones():  # R1
    net = nn.Sequential()
    net.add(nn.Dense(2), nn.HybridSequential())
    net.compile()
    assert net[0]._active and net[1]._active


class Meeting(operator.CustomOp):
    """Waits in each call for the call of another device."""

    def __init__(self, barrier):
        super().__init__()
        self.barrier = barrier

    def forward(self, is_train, req, in_data, out_data, aux):
        self.barrier.wait(60)
        self.assign(out_data[0], req[0], in_data[0] * 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.barrier.wait(60)
        self.assign(in_grad[0], req[0], out_grad[0] * 3)


@operator.register("user_asks_meeting")
class MeetingProp(operator.CustomOpProp):
    barrier = threading.Barrier(2)

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Meeting(self.barrier)


@pytest.mark.parametrize("hybrid", [False, True])
def test_callbacks_for_two_devices_run_at_the_same_time(hybrid):  # F9
    """Each waits for the other, so that one after the other would fail."""

    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.Custom(x, op_type="user_asks_meeting") + 1

    net = Net()
    if hybrid:
        net.hybridize()
    xs = [nd.ones((3,), ctx=mx.cpu(i)) for i in range(2)]
    for x in xs:
        x.attach_grad()
    with autograd.record():
        ys = [net(x) for x in xs]
    for y in ys:
        assert y.asnumpy().tolist() == [3, 3, 3]
    autograd.backward(ys)
    for x in xs:
        assert x.grad.asnumpy().tolist() == [3, 3, 3]


FIT = """
import logging, sys
import numpy as np
import plait as mx
from plait import gluon, nd

logging.basicConfig(level=logging.INFO, stream=sys.stdout)
data = np.random.RandomState(1).rand(32, 4).astype("float32")
labels = (data.sum(axis=1) > 2).astype("float32")
train, val = (mx.io.NDArrayIter(data, labels, batch_size=8) for _ in range(2))
net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2)
module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
module.fit(train, val, num_epoch=2,
           batch_end_callback=[mx.callback.ProgressBar(4, 10),
                               mx.callback.Speedometer(8, 2)],
           eval_batch_end_callback=mx.callback.ProgressBar(4, 10))
print("== estimator")
net = gluon.nn.Dense(2)
net.initialize()
from plait.gluon.contrib.estimator import Estimator, LoggingHandler
estimator = Estimator(net, gluon.loss.SoftmaxCrossEntropyLoss(),
                      train_metrics=mx.metric.Accuracy(),
                      trainer=gluon.Trainer(net.collect_params(), "sgd"))
loader = gluon.data.DataLoader(gluon.data.ArrayDataset(data, labels), 8)
estimator.fit(loader, loader, epochs=2,
              event_handlers=[LoggingHandler(2, estimator.train_metrics)])
"""


def test_progress_in_a_file_is_plain_lines(tmp_path):  # R9
    with open(tmp_path / "log", "w") as log:
        done = subprocess.run(
            [sys.executable, "-c", FIT], stdout=log, stderr=log, timeout=120
        )
    text = (tmp_path / "log").read_bytes().decode()
    assert done.returncode == 0, text
    assert not re.search(r"[^\x20-\x7e\n\t]", text), "control characters"
    fit, estimator = text.split("== estimator")
    bars = [line for line in fit.splitlines() if "[=" in line]
    assert len(bars) >= 12 and any("100%" in line for line in bars)
    assert len(re.findall("Validation-accuracy", fit)) == 2
    assert len(re.findall("alidation", estimator)) >= 2
    assert "[Epoch 1]" in estimator


def test_progress_on_a_terminal_is_a_bar_that_moves():  # R9
    program = """
import time
from types import SimpleNamespace
from plait import callback
bar = callback.ProgressBar(4, 8)
for epoch in range(2):
    for batch in range(1, 5):
        bar(SimpleNamespace(nbatch=batch))
"""
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, "-c", program], stderr=theirs, timeout=60)
    os.close(theirs)
    text = ""
    with contextlib.suppress(OSError), open(ours, "rb", buffering=0) as terminal:
        while part := terminal.read(10000):  # comes in pieces; an error at its end
            text += part.decode()
    assert done.returncode == 0
    for epoch in [line for line in text.split("\n") if line]:
        steps = [step.strip() for step in epoch.split("\r") if step.strip()]
        assert steps[0] == "[==------] 25%" and steps[-1] == "[========] 100%"
        assert re.fullmatch(r"\[====----\] 50%, \d+:\d\d left", steps[1])
    assert text.count("100%") == 2


def digits(seed, count):
    """Pictures of ten kinds, with noise: learnt in a few steps, but not at once."""
    kinds = np.random.RandomState(0).rand(10, 1, 8, 8)
    rng = np.random.RandomState(seed)
    labels = rng.randint(0, 10, count)
    images = kinds[labels] + 0.25 * rng.standard_normal((count, 1, 8, 8))
    return images.astype("float32") - 0.5, labels.astype("float32")


SGD = {"learning_rate": 0.2, "momentum": 0.9}
BATCH, EPOCHS = 50, 4


def symbol():
    x = mx.sym.Convolution(mx.sym.var("data"), kernel=(3, 3), num_filter=8, name="c")
    x = mx.sym.Activation(x, act_type="relu")
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    x = mx.sym.FullyConnected(x, num_hidden=10, name="f")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def batches(data):
    return [tuple(nd.array(a[i : i + BATCH]) for a in data)
            for i in range(0, len(data[0]), BATCH)]  # fmt: skip


def by_feed_forward(train, images):
    model = mx.model.FeedForward(
        symbol(), num_epoch=EPOCHS, numpy_batch_size=BATCH, optimizer="sgd",
        initializer=mx.init.Xavier(), **SGD
    )  # fmt: skip
    model.fit(mx.io.NDArrayIter(*train, batch_size=BATCH))
    return model.predict(mx.io.NDArrayIter(images, batch_size=BATCH))


def by_module(train, images):
    module = mx.mod.Module(symbol())
    module.fit(mx.io.NDArrayIter(*train, batch_size=BATCH), num_epoch=EPOCHS,
               optimizer="sgd", optimizer_params=SGD,
               initializer=mx.init.Xavier())  # fmt: skip
    return module.predict(mx.io.NDArrayIter(images, batch_size=BATCH)).asnumpy()


def by_arrays(train, images):
    shapes = [(8, 1, 3, 3), (8,), (10, 72), (10,)]
    weights = [nd.random.uniform(-0.2, 0.2, shape=s) for s in shapes]
    speeds = [nd.zeros(s) for s in shapes]

    def forward(x):
        x = nd.Convolution(x, *weights[:2], kernel=(3, 3), num_filter=8)
        x = nd.Pooling(nd.relu(x), kernel=(2, 2), stride=(2, 2), pool_type="max")
        return nd.FullyConnected(x, *weights[2:], num_hidden=10)

    for w in weights:
        w.attach_grad()
    for _ in range(EPOCHS):
        for x, y in batches(train):
            with autograd.record():
                loss = nd.softmax_cross_entropy(forward(x), y)
            loss.backward()
            for w, speed in zip(weights, speeds):
                speed[:] = 0.9 * speed - 0.2 / BATCH * w.grad
                w += speed
    return forward(nd.array(images)).asnumpy()


def by_gluon(train, images):
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, activation="relu"), nn.MaxPool2D(), nn.Dense(10))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", SGD)
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(EPOCHS):
        for x, y in batches(train):
            with autograd.record():
                error = loss(net(x), y)
            error.backward()
            trainer.step(BATCH)
    return net(nd.array(images)).asnumpy()


@pytest.mark.filterwarnings("ignore:FeedForward is deprecated")
def test_every_interface_learns_as_well():  # R11
    train, (images, labels) = digits(1, 1000), digits(2, 500)
    found = {}
    for learn in (by_feed_forward, by_module, by_arrays, by_gluon):
        mx.random.seed(5)
        scores = learn(train, images)
        found[learn.__name__] = float((scores.argmax(axis=1) == labels).mean())
    assert min(found.values()) > 0.9, found
    assert max(found.values()) - min(found.values()) <= 0.01, found
