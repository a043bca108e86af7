"""Gluon's recurrent cells and layers composed of symbols."""

import numpy as np
import pytest

import plait as mx
from plait import gluon, nd

CELLS = {
    "rnn": lambda: gluon.rnn.RNNCell(4, input_size=3, prefix="c_"),
    "lstm": lambda: gluon.rnn.LSTMCell(4, input_size=3, prefix="c_"),
    "gru": lambda: gluon.rnn.GRUCell(4, input_size=3, prefix="c_"),
    "residual": lambda: gluon.rnn.ResidualCell(
        gluon.rnn.RNNCell(3, input_size=3, prefix="c_")
    ),
    "two directions": lambda: gluon.rnn.BidirectionalCell(
        gluon.rnn.GRUCell(4, input_size=3, prefix="l_"),
        gluon.rnn.GRUCell(4, input_size=3, prefix="r_"),
    ),
}


def parameters(block):
    return {name: p.data() for name, p in block.collect_params().items()}


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("lengths", [False, True])
def test_symbols_give_what_arrays_give(kind, merge, lengths):
    cell = CELLS[kind]()
    cell.initialize()
    x, inputs = nd.random.uniform(shape=(2, 5, 3)), mx.sym.Variable("x")
    more = {"valid_length": nd.array([2, 5])} if lengths else {}
    expected, _ = cell.unroll(5, x, merge_outputs=merge, **more)
    names = {"valid_length": mx.sym.Variable("n")} if lengths else {}
    outputs, _ = cell.unroll(5, inputs, merge_outputs=merge, **names)
    values = {"x": x, **parameters(cell)}
    if lengths:
        values["n"] = more["valid_length"]
    if not merge:
        outputs = mx.sym.Group(outputs)
        assert len(outputs.list_outputs()) == len(expected) == 5
    found = outputs.eval(**values)
    for a, b in zip(found, expected if not merge else [expected]):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_layers_take_symbols(kind, layout):
    layer = getattr(gluon.rnn, kind)(
        4, num_layers=2, bidirectional=True, layout=layout, input_size=3
    )
    layer.initialize()
    x = nd.random.uniform(shape=(2, 5, 3))
    (found,) = layer(mx.sym.Variable("x")).eval(x=x, **parameters(layer))
    np.testing.assert_allclose(found.asnumpy(), layer(x).asnumpy(), rtol=1e-5)


@pytest.mark.parametrize("both", [False, True])
def test_the_width_of_the_input_follows_from_the_data(both):
    layer = gluon.rnn.LSTM(4, num_layers=2, bidirectional=both)
    symbol = layer(mx.sym.Variable("x"))
    shapes = dict(zip(symbol.list_arguments(), symbol.infer_shape(x=(5, 2, 7))[0]))
    for name, shape in shapes.items():
        if name.endswith("0_i2h_weight"):
            assert shape == (16, 7)
    net = gluon.nn.HybridSequential()
    net.add(gluon.rnn.LSTM(4, num_layers=2, bidirectional=both))
    net.initialize()
    net.hybridize()
    assert net(nd.ones((5, 2, 7))).shape == (5, 2, 8 if both else 4)
