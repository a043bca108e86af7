"""The profiler's own events, traces and tables; callbacks of fit loops."""

import json
import logging
import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from plait import autograd, callback, metric, nd, operator, profiler


@pytest.fixture
def trace(tmp_path):
    """A running profiler; gives a function that stops it and reads the trace."""
    path = tmp_path / "trace.json"
    profiler.set_config(filename=str(path), continuous_dump=False)
    profiler.dumps(reset=True)
    profiler._state.trace.clear()
    profiler._state.pids.clear()
    profiler.set_state("run")

    def read():
        profiler.dump()
        return json.loads(path.read_text())["traceEvents"]

    yield read
    profiler.set_state("stop")
    profiler._state.config.update(profiler._CONFIG)


def test_spans_counters_and_markers(trace):
    domain = profiler.Domain("mine")
    with domain.new_task("load"):
        time.sleep(0.01)
    frame = domain.new_frame("turn")
    frame.start()
    frame.stop()
    counter = domain.new_counter("left", 5)
    counter += 2
    counter -= 1
    domain.new_marker("here").mark("thread")
    with profiler.Event("alone"):
        pass
    events = {}
    for event in trace():
        events.setdefault(event["name"], []).append(event)
    load = events["load"][0]
    assert load["ph"] == "X" and load["dur"] >= 10000 and load["cat"] == "task"
    assert events["turn"][0]["cat"] == "frame" and "alone" in events
    assert [e["args"]["left"] for e in events["left"]] == [5, 7, 6]
    assert events["here"][0]["ph"] == "i" and events["here"][0]["s"] == "t"
    named = {e["pid"]: e["args"]["name"] for e in events["process_name"]}
    assert named[load["pid"]] == "mine"
    assert str(domain) == "mine" and str(counter) == "left"


def test_nothing_is_recorded_outside(trace):
    domain = profiler.Domain("mine")
    profiler.pause()
    with domain.new_task("hidden"):
        pass
    profiler.resume()
    with domain.new_task("seen"):
        pass
    profiler.set_state("stop")
    with domain.new_task("late"):
        pass
    names = [e["name"] for e in trace()]
    assert "seen" in names and "hidden" not in names and "late" not in names


def test_tables(trace):
    domain = profiler.Domain("mine")
    for name, count in (("short", 2), ("long", 1)):
        for _ in range(count):
            with domain.new_task(name):
                time.sleep(0.02 if name == "long" else 0)
    table = profiler.dumps(sort_by="total")
    assert table.index("long") < table.index("short") and "Total Count" in table
    table = profiler.dumps(sort_by="count")
    assert table.index("short") < table.index("long")
    times = json.loads(profiler.dumps(format="json", reset=True))["Time"]["task"]
    assert times["short"]["Count"] == 2 and times["long"]["Total"] >= 20
    assert times["long"]["Min"] == times["long"]["Max"] == times["long"]["Avg"]
    assert "short" not in profiler.dumps()
    with pytest.raises(AssertionError, match="sort_by"):
        profiler.dumps(sort_by="colour")
    with pytest.raises(AssertionError, match="format"):
        profiler.dumps(format="xml")


def test_layers_are_named_while_the_profiler_runs(trace):
    from plait.gluon import Block, layer_names, nn

    seen = []

    class Watch(Block):
        def forward(self, x):
            seen.append(layer_names._inside.name)
            return x

    net = nn.Sequential(prefix="net_")
    with net.name_scope():
        net.add(Watch(), Watch())
    net(nd.zeros(1))
    profiler.set_state("stop")
    assert seen == ["net_watch0", "net_watch1"] and layer_names._inside.name is None
    assert Block.__call__ is layer_names._plain_call


def test_a_trace_of_the_whole_program(tmp_path):
    path = tmp_path / "all.json"
    body = "import plait; plait.profiler.Event('x').start(); plait.nd.ones(3).asnumpy()"
    env = dict(os.environ, PLAIT_PROFILE=str(path))
    env["PYTHONPATH"] = os.path.dirname(os.path.dirname(profiler.__file__))
    subprocess.run([sys.executable, "-c", body], env=env, check=True, timeout=60)
    assert "traceEvents" in json.loads(path.read_text())


def test_continuous_dump(tmp_path):
    path = tmp_path / "live.json"
    profiler.set_config(filename=str(path), continuous_dump=True, dump_period=0.02)
    profiler.set_state("run")
    try:
        with profiler.Domain("mine").new_task("early"):
            pass
        deadline = time.time() + 10
        while not path.exists() or "early" not in path.read_text():
            assert time.time() < deadline
            time.sleep(0.01)
        json.loads(path.read_text())
    finally:
        profiler.set_state("stop")
        profiler._state.config.update(profiler._CONFIG)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="unknown option colour"):
        profiler.set_config(colour=1)
    with pytest.raises(ValueError, match="'run' or 'stop'"):
        profiler.set_state("walk")


def batch(number, **more):
    return SimpleNamespace(epoch=1, nbatch=number, **more)


def test_speedometer_and_log(caplog):
    accuracy = metric.Accuracy()
    accuracy.sum_metric, accuracy.num_inst = 1, 2
    accuracy.global_sum_metric, accuracy.global_num_inst = 1, 2
    speed = callback.Speedometer(10, frequent=2, auto_reset=False)
    with caplog.at_level(logging.INFO):
        for number in range(5):
            speed(batch(number, eval_metric=accuracy))
        callback.log_train_metric(2)(batch(4, eval_metric=accuracy))
        callback.LogValidationMetricsCallback()(batch(0, eval_metric=accuracy))
        callback.ProgressBar(4, 8)(batch(2))
        callback.Speedometer(10, 1)(batch(0, eval_metric=None))
    lines = [r.getMessage() for r in caplog.records]
    assert lines[0].startswith("Epoch[1] Batch [0-2]\tSpeed: ")
    assert lines[0].endswith(" samples/sec\taccuracy=0.500000")
    assert "Iter[1] Batch[4] Train-accuracy=0.500000" in lines
    assert "Epoch[1] Validation-accuracy=0.500000" in lines
    assert lines[-1] == "[====----] 50%"


def test_module_checkpoint():
    saved = []
    model = SimpleNamespace(save_checkpoint=lambda *args: saved.append(args))
    save = callback.module_checkpoint(model, "net", period=2)
    for epoch in range(4):
        save(epoch)
    assert saved == [("net", 2, False), ("net", 4, False)]


def test_custom_operators_have_names(trace):
    class Twice(operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            self.assign(out_data[0], req[0], in_data[0] + nd.ones((2,)))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            self.assign(in_grad[0], req[0], out_grad[0])

    @operator.register("named_for_the_profiler")
    class TwiceProp(operator.CustomOpProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            return Twice()

    x = nd.zeros((2,))
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="named_for_the_profiler")
    y.backward()
    nd.waitall()
    names = {e["name"] for e in trace() if e.get("cat") == "Custom Operator"}
    assert {
        "named_for_the_profiler::pure_python",
        "_backward_named_for_the_profiler::pure_python",
        "named_for_the_profiler::_full",
    } <= names
    rows = json.loads(profiler.dumps(format="json"))["Time"]["Custom Operator"]
    assert rows["named_for_the_profiler::pure_python"]["Count"] == 1
