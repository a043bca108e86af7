"""What users of MXNet suffered from in speed, in forms that do not depend on how busy
the machine is: processor time beside that of a reference in the same process, with a
wide margin, and counts of allocations.

Each test names the row of the list of requirements that it stands for (F2, ...). The
figures themselves are measured by benchmarks/ (docs/performance.md).
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import plait as mx

HEAD = """
import json, time
import numpy as np
import plait as mx
from plait import autograd, gluon, nd, profiler
from plait.gluon import nn
"""


def run(program, **more):
    """What a program prints as JSON; on one thread, the calling one."""
    env = dict(os.environ, PLAIT_ENGINE="serial", PLAIT_THREADS="1", **more)
    env.update(OPENBLAS_NUM_THREADS="1", PYTHONPATH=str(Path(mx.__file__).parents[1]))
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program],
        env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


SUITE = """
rng = np.random.default_rng(1)
a = rng.random((64, 50000), dtype="float32")
b = rng.random((64, 1), dtype="float32")
m = rng.random((256, 256), dtype="float32")
table = rng.random((20000, 64), dtype="float32")
ids = rng.integers(0, 20000, 40000)
x, y, z, w = map(nd.array, (a, b, m, table))
index = nd.array(ids, dtype="int64")
w.attach_grad()
with autograd.record():
    picked = nd.Embedding(index, w, input_dim=20000, output_dim=64)
head = nd.ones((40000, 64))

def embedding():
    picked.backward(head, retain_graph=True)
    return w.grad

def softmax(v):
    e = np.exp(v - v.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)

pairs = {
    "argmax": (lambda: nd.argmax(x, axis=1), lambda: a.argmax(axis=1)),
    "broadcast_add": (lambda: nd.broadcast_add(x, y), lambda: a + b),
    "sum": (lambda: x.sum(axis=1), lambda: a.sum(axis=1)),
    "sum of columns": (lambda: x.sum(axis=0), lambda: a.sum(axis=0)),
    "max": (lambda: x.max(axis=1), lambda: a.max(axis=1)),
    "dot": (lambda: nd.dot(z, z), lambda: m @ m),
    "softmax": (lambda: nd.softmax(x), lambda: softmax(a)),
    "transpose": (lambda: x.T.copy(), lambda: a.T.copy()),
    "embedding": (embedding, lambda: np.add.at(
        np.zeros_like(table), ids, np.ones((40000, 64), "float32"))),
}
ratios = {}
for name, functions in pairs.items():
    best = [float("inf")] * 2
    for _ in range(7):
        for i, f in enumerate(functions):
            start = time.thread_time()
            result = f()
            if i == 0:
                result.wait_to_read()
            best[i] = min(best[i], time.thread_time() - start)
    ratios[name] = best[0] / best[1]
print(json.dumps(ratios))
"""

# Plait's time on one thread as a part of NumPy's: what was measured, and three times as
# much is a mistake; ten times where words are shorter than those it was measured with.
MARGIN = 3 if "avx512f" in Path("/proc/cpuinfo").read_text() else 10
MEASURED = {
    "argmax": 1.0,  # F2
    "broadcast_add": 1.3,  # F3
    "sum": 0.6,
    "sum of columns": 1.2,
    "max": 1.0,
    "dot": 0.7,  # F5
    "softmax": 0.3,
    "transpose": 1.2,
    "embedding": 0.2,  # F4
}


def test_operators_take_no_longer_than_numpy_by_far():  # F2, F3, F4, F5, F6
    ratios = run(SUITE)
    slow = {k: r for k, r in ratios.items() if r > MARGIN * MEASURED[k]}
    assert not slow and sorted(ratios) == sorted(MEASURED), ratios


COSTS = """
def cost(step):
    # Allocations, and the bytes that are needed at most, of a step that has run before.
    step()
    nd.waitall()
    before = mx._plait.memory_stats("cpu", 0)
    mx._plait.memory_reset_peak("cpu", 0)
    step()
    nd.waitall()
    after = mx._plait.memory_stats("cpu", 0)
    return [after[k] - before[j] for k, j in
            (("allocations", "allocations"), ("peak", "live"))]

mx.random.seed(1)
a, b = nd.random.uniform(shape=(1000, 100)), nd.random.uniform(shape=(1000, 100))

def chain():
    return ((a * b + 1) * a - b).sum().wait_to_read()

def training(net, x, loss):
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True)
    trainer = gluon.Trainer(net.collect_params(), "adam")
    def step():
        with autograd.record():
            error = loss(net(x))
        error.backward()
        trainer.step(1)
    return step

layers = nn.HybridSequential()
for units in (64, 64, 10):
    layers.add(nn.Dense(units, activation="relu"))
images = nn.HybridSequential()
for channels in (16, 32):
    images.add(nn.Conv2D(channels, 3, padding=1, use_bias=False), nn.BatchNorm(),
               nn.Activation("relu"), nn.MaxPool2D())
words = gluon.rnn.LSTM(32, 2, layout="NTC", input_size=16)
steps = {
    "pointwise chain": chain,
    "layers": training(layers, nd.ones((64, 50)), lambda y: (y * y).mean()),
    "images": training(images, nd.ones((4, 3, 32, 32)), lambda y: (y * y).mean()),
    "words": training(words, nd.ones((4, 12, 16)), lambda y: (y * y).mean()),
}
print(json.dumps({name: cost(step) for name, step in steps.items()}))
"""

# A tenth more is a mistake: something is computed or kept that was not. These depend on
# no clock; blocks of channels have other sizes on other processors.
LIMITS = {
    "pointwise chain": [1, 64],
    "layers": [9, 93056],
    "words": [19, 238080],
    "images": [10, 9 << 20],
}


def test_steps_of_training_cost_no_more_than_they_did():  # F6
    found = run(COSTS)
    assert sorted(found) == sorted(LIMITS)
    for name, limits in LIMITS.items():
        for cost, limit in zip(found[name], limits):
            assert cost <= 1.1 * limit, (name, found[name], limits)


CONVOLUTIONS = """
rng = np.random.default_rng(1)
shapes = [(int(rng.integers(1, 40)), int(rng.integers(1, 40)), int(k), int(size))
          for k in (1, 3, 5) for size in rng.integers(6, 30, 34)][:100]

def all_of_them():
    start = time.process_time()
    for channels, filters, k, size in shapes:
        x, w = nd.ones((1, channels, size, size)), nd.ones((filters, channels, k, k))
        for array in (x, w):
            array.attach_grad()
        with autograd.record():
            y = nd.Convolution(x, w, kernel=(k, k), num_filter=filters, no_bias=True)
        y.backward()
        w.grad.wait_to_read()
    return time.process_time() - start

print(json.dumps([all_of_them(), min(all_of_them() for _ in range(3))]))
"""


@pytest.mark.parametrize("how", ["auto", "gemm"])
def test_a_hundred_shapes_of_convolutions_do_not_stall(how):  # F8
    """Nothing is measured for a shape that is new; each may cost a kernel's making."""
    first, later = run(CONVOLUTIONS, PLAIT_CONV=how)
    assert first < 20 * later + 2, (first, later)
