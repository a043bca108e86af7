"""Pictures of symbols: the table, Graphviz's language, and drawing where it can."""

import shutil

import numpy as np
import pytest

import plait as mx


def network():
    x = mx.sym.Variable("data")
    x = mx.sym.Convolution(x, kernel=(3, 3), num_filter=8, name="conv")
    x = mx.sym.BatchNorm(x, name="bn")
    x = mx.sym.Activation(x, act_type="relu", name="act")
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool")
    x = mx.sym.FullyConnected(x, num_hidden=10, name="fc")
    left, right = mx.sym.split(x, num_outputs=2, axis=1, name="halves")
    return mx.sym.SoftmaxOutput(left + right, name="softmax")


SHAPE = {"data": (2, 3, 10, 10)}


def test_the_table_counts_parameters(capsys):
    mx.viz.print_summary(network(), SHAPE)
    text = capsys.readouterr().out
    rows = {line.split("(")[0]: line.split() for line in text.splitlines()}
    assert rows["conv"][1:] == ["8x8x8", "224", "data"]
    assert rows["bn"][1:] == ["8x8x8", "16", "conv"]
    assert rows["fc"][1:] == ["10", "1290", "pool"]
    assert rows["softmax"][1:3] == ["5", "0"]
    assert "Total params: 1530" in text
    assert max(map(len, text.splitlines())) == 120


def test_the_table_without_shapes(capsys):
    mx.viz.print_summary(network(), line_length=80)
    assert "Total params: 18" in capsys.readouterr().out  # biases only
    x = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=7, output_dim=3)
    mx.viz.print_summary(x)
    assert "Total params: 21" in capsys.readouterr().out


def test_shared_parameters_count_once(capsys):
    w, x = mx.sym.Variable("w"), mx.sym.Variable("data")
    for k in range(2):
        x = mx.sym.FullyConnected(x, w, num_hidden=4, no_bias=True, name="fc%d" % k)
    mx.viz.print_summary(x, {"data": (1, 4)})
    assert "Total params: 16" in capsys.readouterr().out


def test_the_graph_is_written_in_graphviz_language():
    dot = mx.viz.plot_network(network(), title='a "net"', shape=SHAPE)
    lines = dot.source.splitlines()
    assert lines[0] == 'digraph "a \\"net\\"" {' and lines[-1] == "}"
    assert any('"conv" [' in s and "Convolution\\n3x3/1, 8" in s for s in lines)
    assert any('"pool" [' in s and "Pooling\\nmax, 2x2/2x2" in s for s in lines)
    assert any('"bn" -> "conv" [' in s and 'label="8x8x8"]' in s for s in lines)
    assert any('"conv" -> "data" [' in s and 'label="3x10x10"]' in s for s in lines)
    assert "conv_weight" not in dot.source and "moving_mean" not in dot.source


def test_weights_and_dtypes_are_shown_when_wanted():
    dot = mx.viz.plot_network(
        network(), shape=SHAPE, dtype={"data": np.float32}, hide_weights=False,
        node_attrs={"fixedsize": "false"},
    )  # fmt: skip
    assert '"conv_weight" [' in dot.source and 'fixedsize="false"' in dot.source
    assert 'label="8x3x3(float32)"' not in dot.source  # the first axis is left out
    assert 'label="3x3x3(float32)"' in dot.source


def test_equal_names_give_a_warning():
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    x = mx.sym.FullyConnected(x, num_hidden=3, name="fc")
    with pytest.warns(RuntimeWarning, match="Repeated names: fc"):
        mx.viz.plot_network(x)


def test_bad_arguments():
    for draw in (mx.viz.plot_network, mx.viz.print_summary):
        with pytest.raises(TypeError, match="got a int; expected a Symbol"):
            draw(3)
        with pytest.raises(ValueError, match="shapes of"):
            draw(network(), shape={})


def test_drawing(tmp_path, monkeypatch):
    dot = mx.viz.plot_network(network(), title="net")
    if shutil.which("dot"):
        path = dot.render(directory=str(tmp_path), format="svg", cleanup=True)
        assert path == str(tmp_path / "net.gv.svg")
        assert "<svg" in (tmp_path / "net.gv.svg").read_text()
        assert "conv" in dot.svg()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(mx.MXNetError, match="drawing needs Graphviz's program dot"):
        dot.render(directory=str(tmp_path))
