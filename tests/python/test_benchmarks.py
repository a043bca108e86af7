"""Tests of the benchmarks: operations from shapes, gradients found, the table."""

import sys
from pathlib import Path

import numpy as np
import pytest

import plait as mx

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import data_files  # noqa: E402
import data_rows  # noqa: E402
import layers  # noqa: E402
import net_gluon  # noqa: E402
import net_rows  # noqa: E402
import report  # noqa: E402

import run  # noqa: E402

nn = mx.gluon.nn


def small():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1, use_bias=False), nn.BatchNorm())
    net.add(nn.Activation("relu"), nn.Conv2D(16, 3, strides=2), nn.Dense(5))
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True)
    return net, mx.nd.random.normal(shape=(2, 3, 9, 9))


def test_operations_follow_from_shapes():
    net, x = small()
    net(x)
    flops = {n.op + str(n.first): n.flops for n in layers.nodes_of(net, x)}
    assert flops["ConvolutionTrue"] == 2 * (2 * 8 * 81) * (3 * 9)
    assert flops["ConvolutionFalse"] == 2 * (2 * 16 * 16) * (8 * 9)
    assert flops["FullyConnectedFalse"] == 2 * 2 * 5 * (16 * 16)


def test_gradients_belong_to_their_layers():
    net, x = small()
    step = net_gluon.trainer_step(net, "small", x, mx.nd.array([1, 2]))
    step()
    events = layers.profiled(step)
    nodes = list(layers.nodes_of(net, x))
    found = sorted(
        (n.name, what) for n, what in layers.gradients(events, nodes).values()
    )
    first, last = (n.name for n in nodes if n.op == "Convolution")
    dense = nodes[-1].name
    pairs = [(first, "weight"), (last, "weight"), (last, "x")]
    assert set(found) >= {*pairs, (dense, "any")}
    assert (first, "x") not in found
    assert all(seconds > 0 for _, _, seconds in events)


def test_gradients_of_an_unexpected_number_are_nobodys():
    node = layers.Node("Convolution", "conv0", 8, True)
    events = [("op", f"_backward_Convolution_weight_{i}", 1.0) for i in (1, 2)]
    assert layers.gradients(events, [node]) == {}


@pytest.mark.parametrize("network", ["mobilenet_v2", "transformer"])
def test_parameters_are_the_same_each_time(network):
    net, x, _ = net_gluon.load(network, 1)
    again, _, _ = net_gluon.load(network, 1)
    np.testing.assert_array_equal(net(x).asnumpy(), again(x).asnumpy())
    assert np.isfinite(net(x).asnumpy()).all()


def test_the_best_peer_counts_unless_its_outputs_differ(tmp_path):
    row = "ResNet-50 prediction, batch 1"
    results = run.Results(tmp_path / "results.json", keep=False)
    for value in (50, 60, 55):
        results.add("plait", row, value, "img/s", [1.0, 2.0])
    results.add("torch", row, 11, "img/s", [1.0, 2.001])
    results.add("onnx", row, 99, "img/s", [1.0, 2.1])
    results.add("mxnet", row, 5, "img/s", [1.0, 2.0])
    (line,) = report.lines(results.rows, run.TARGETS)
    assert (line.peer, line.ratio, line.target) == ("torch", 5, 1.2)
    assert "onnx" in results.rows[row]["why"]
    assert report.spread(line.mine) == "55 (50-60)"
    kept = run.Results(tmp_path / "results.json", keep=True)
    assert kept.rows == results.rows


def test_less_is_better_where_a_row_is_no_rate(tmp_path):
    row = "peak memory, VGG-16, batch 16"
    results = run.Results(tmp_path / "results.json", keep=False)
    results.add("plait", row, 100, "MB")
    results.add("torch", row, 150, "MB")
    (line,) = report.lines(results.rows, run.TARGETS)
    assert line.ratio == 1.5


def test_the_table_and_the_picture_show_every_row(tmp_path, capsys):
    results = run.Results(tmp_path / "results.json", keep=False)
    for row in ("x += b, 4x4", "AlexNet prediction, batch 1"):
        results.add("plait", row, 2.0, "img/s", [1.0])
        results.add("torch", row, 1.0, "img/s", [1.0], "eager")
    results.add("plait", "VGG-16 training, batch 16", 2.0, "img/s", [1.0])
    found = report.print_table(results.rows, run.TARGETS)
    text = capsys.readouterr().out
    assert "2.00       3  torch eager" in text
    assert "no peer to compare with" in text
    assert len(found) == 3
    pytest.importorskip("matplotlib")
    report.draw(found, tmp_path / "ratios.png")
    assert (tmp_path / "ratios.png").stat().st_size > 1000


def test_every_network_row_has_a_place_in_the_table():
    assert {*net_rows.ROWS, net_rows.GROWTH} <= run.TARGETS.keys()
    assert run.MEMORY.keys() <= run.TARGETS.keys()


@pytest.mark.skipif(
    not mx._plait.features()["OPENCV"], reason="this build has no codecs of images"
)
def test_files_and_rows_of_data(tmp_path, monkeypatch):
    cbook = pytest.importorskip("matplotlib.cbook")
    photo = cbook.get_sample_data("grace_hopper.jpg").read()
    (tmp_path / "photo.jpg").write_bytes(photo)
    monkeypatch.setattr(data_files, "PHOTOS", tmp_path)
    data_files.make(tmp_path / "data", 104)
    assert len(list(tmp_path.glob("data/jpg/*/*.jpg"))) == 104
    rows = [*data_rows.iterator_rows(mx, tmp_path / "data")]
    rows += data_rows.gluon_rows(mx, tmp_path / "data")
    checks = [check() for _, check, _ in rows]
    assert np.allclose(checks, checks[0], atol=1e-3)
    assert [sum(epoch()) for _, _, epoch in rows] == [150, 150, 104]
