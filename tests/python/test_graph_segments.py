"""Long training graphs run in segments, so that gradients are free one by one."""

import json
import time

import numpy as np

import plait as mx
from plait import autograd, profiler
from plait.gluon import nn


def segments(work, tmp_path):
    """How many operations of the engine `work` runs graphs by."""
    file = tmp_path / "profile.json"
    mx.nd.waitall()
    profiler.set_config(filename=str(file), profile_all=True)
    profiler.set_state("run")
    start = time.monotonic_ns() / 1000
    work()
    mx.nd.waitall()
    profiler.set_state("stop")
    profiler.dump()
    events = json.loads(file.read_text())["traceEvents"]
    return sum(e["name"] == "graph" and e["ts"] >= start for e in events)


def network(width, layers=6):
    mx.random.seed(1)
    net = nn.HybridSequential()
    for _ in range(layers):
        net.add(nn.Dense(width, in_units=width, activation="relu"))
    net.initialize(mx.init.Xavier())
    return net


def gradients(net, x):
    with autograd.record():
        y = net(x).square().sum()
    y.backward()
    return [p.grad().asnumpy() for p in net.collect_params().values()]


def test_a_long_backward_ends_a_segment_at_its_gradients(tmp_path):
    net, x = network(512), mx.nd.array(np.random.RandomState(1).randn(512, 512) / 30)
    plain = gradients(net, x)
    net.hybridize()
    gradients(net, x)
    assert segments(lambda: gradients(net, x), tmp_path) >= 8
    for one, other in zip(plain, gradients(net, x)):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-3)


def test_short_graphs_and_predictions_run_as_one(tmp_path):
    small, x = network(16), mx.nd.ones((4, 16))
    small.hybridize()
    gradients(small, x)
    assert segments(lambda: gradients(small, x), tmp_path) <= 2
    large, x = network(512), mx.nd.ones((512, 512))
    large.hybridize()
    large(x).wait_to_read()
    assert segments(lambda: large(x), tmp_path) <= 1
