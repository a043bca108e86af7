"""Recurrent cells and layers: formulas, agreement with one another, modifiers."""

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd
from plait.gluon import rnn
from plait.gluon.contrib import rnn as contrib_rnn


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def started(block, *inputs):
    """The block, its parameters random and known to have their shapes."""
    block.initialize(mx.init.Uniform(0.5))
    block(*inputs)
    return block


def weights(block):
    """Parameters by the last parts of their names."""
    start = len(block.prefix)
    return {name[start:]: p.data().asnumpy() for name, p in block.params.items()}


def step_inputs(cell, batch=3, width=4):
    x = nd.random.uniform(-1, 1, shape=(batch, width))
    states = [nd.random.uniform(-1, 1, shape=s.shape) for s in cell.begin_state(batch)]
    return x, states


@pytest.mark.parametrize("activation", ["tanh", "relu", "sigmoid"])
def test_rnn_cell(activation):
    cell = rnn.RNNCell(5, activation)
    x, states = step_inputs(cell)
    started(cell, x, states)
    out, new = cell(x, states)
    w = weights(cell)
    z = x.asnumpy() @ w["i2h_weight"].T + w["i2h_bias"]
    z += states[0].asnumpy() @ w["h2h_weight"].T + w["h2h_bias"]
    want = {"tanh": np.tanh, "relu": lambda v: v.clip(0), "sigmoid": sigmoid}
    np.testing.assert_allclose(out.asnumpy(), want[activation](z), rtol=1e-4, atol=1e-6)
    assert new[0] is out


def test_lstm_cell():
    cell = rnn.LSTMCell(5)
    x, states = step_inputs(cell)
    started(cell, x, states)
    out, new = cell(x, states)
    w = weights(cell)
    z = x.asnumpy() @ w["i2h_weight"].T + w["i2h_bias"]
    z += states[0].asnumpy() @ w["h2h_weight"].T + w["h2h_bias"]
    i, f, c, o = np.split(z, 4, axis=1)
    memory = sigmoid(f) * states[1].asnumpy() + sigmoid(i) * np.tanh(c)
    np.testing.assert_allclose(new[1].asnumpy(), memory, rtol=1e-4, atol=1e-6)
    want = sigmoid(o) * np.tanh(memory)
    np.testing.assert_allclose(out.asnumpy(), want, rtol=1e-4, atol=1e-6)


def test_gru_cell():
    cell = rnn.GRUCell(5)
    x, states = step_inputs(cell)
    started(cell, x, states)
    out, _ = cell(x, states)
    w, h = weights(cell), states[0].asnumpy()
    a = np.split(x.asnumpy() @ w["i2h_weight"].T + w["i2h_bias"], 3, axis=1)
    b = np.split(h @ w["h2h_weight"].T + w["h2h_bias"], 3, axis=1)
    reset, update = sigmoid(a[0] + b[0]), sigmoid(a[1] + b[1])
    candidate = np.tanh(a[2] + reset * b[2])
    want = (1 - update) * candidate + update * h
    np.testing.assert_allclose(out.asnumpy(), want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("layout", ["TNC", "NTC"])
def test_unroll_merges_as_asked(layout):
    cell = rnn.LSTMCell(5)
    x = nd.random.uniform(shape=(3, 3, 4))
    started(cell, x[0], cell.begin_state(3))
    merged, states = cell.unroll(3, x, layout=layout, merge_outputs=True)
    parts, _ = cell.unroll(3, x, layout=layout, merge_outputs=False)
    assert len(parts) == 3 and len(states) == 2
    stacked = np.stack([p.asnumpy() for p in parts], layout.find("T"))
    np.testing.assert_allclose(merged.asnumpy(), stacked, rtol=1e-6)


def test_valid_length_stops_early():
    cell = rnn.GRUCell(5)
    x = nd.random.uniform(shape=(3, 4, 2))
    started(cell, x[:, 0], cell.begin_state(3))
    lengths = nd.array([1, 4, 2])
    out, states = cell.unroll(4, x, valid_length=lengths, merge_outputs=True)
    for row, length in enumerate((1, 4, 2)):
        alone, last = cell.unroll(length, x[row : row + 1, :length], merge_outputs=True)
        got = out.asnumpy()[row]
        np.testing.assert_allclose(got[:length], alone.asnumpy()[0], rtol=1e-5)
        assert (got[length:] == 0).all()
        np.testing.assert_allclose(states[0].asnumpy()[row], last[0].asnumpy()[0], 1e-5)


def copy_to_cells(layer, cells):
    """Gives the layer's parameters to cells of the same names."""
    source = weights(layer)
    for prefix, cell in cells.items():
        for name, parameter in cell.params.items():
            parameter.set_data(nd.array(source[prefix + name[len(cell.prefix) :]]))


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_layers_equal_cells(kind, bidirectional):
    layer_of = {"rnn": rnn.RNN, "lstm": rnn.LSTM, "gru": rnn.GRU}[kind]
    cell_of = {"rnn": rnn.RNNCell, "lstm": rnn.LSTMCell, "gru": rnn.GRUCell}[kind]
    options = {"activation": "tanh"} if kind == "rnn" else {}
    layer = layer_of(4, 2, bidirectional=bidirectional, **options)
    x = nd.random.uniform(-1, 1, shape=(5, 3, 6))
    started(layer, x)
    names, stack = {}, rnn.SequentialRNNCell()
    for number in range(2):
        width = 6 if number == 0 else 4 * (1 + bidirectional)
        pair = []
        for side in "lr"[: 1 + bidirectional]:
            cell = cell_of(4, input_size=width)
            names["%s%d_" % (side, number)] = cell
            pair.append(cell)
        stack.add(rnn.BidirectionalCell(*pair) if bidirectional else pair[0])
    stack.initialize()
    copy_to_cells(layer, names)
    want, states = stack.unroll(5, x, layout="TNC", merge_outputs=True)
    got, layer_states = layer(x, layer.begin_state(3))
    np.testing.assert_allclose(got.asnumpy(), want.asnumpy(), rtol=1e-4, atol=1e-5)
    hidden = np.stack([s.asnumpy() for s in states[:: 2 if kind == "lstm" else 1]])
    np.testing.assert_allclose(layer_states[0].asnumpy(), hidden, rtol=1e-4, atol=1e-5)


LAYERS = {
    "tanh": lambda **k: rnn.RNN(5, activation="tanh", **k),
    "relu": lambda **k: rnn.RNN(5, activation="relu", **k),
    "lstm": lambda **k: rnn.LSTM(5, **k),
    "gru": lambda **k: rnn.GRU(5, **k),
}


def run_recorded(layer, run, x, states, lengths=None):
    """Outputs, last states and all gradients of a layer's forward function."""
    params = {n: p.data() for n, p in layer._reg_params.items()}
    leaves = [x.copy(), *[s.copy() for s in states]]
    for leaf in leaves:
        leaf.attach_grad()
    with autograd.record():
        out, last = run(nd, leaves[0], leaves[1:], lengths, params)
        loss = (out * out).sum() + sum((s * s * s).sum() for s in last)
    loss.backward()
    grads = [leaf.grad.asnumpy() for leaf in leaves]
    grads += [p.grad().asnumpy() for p in layer._reg_params.values()]
    return [out.asnumpy(), *[s.asnumpy() for s in last], *grads]


@pytest.mark.parametrize("kind", sorted(LAYERS))
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("lengths", [None, [4, 1, 3]])
def test_fused_layers_equal_unrolled_ones(kind, bidirectional, lengths):
    layer = LAYERS[kind](
        num_layers=2,
        bidirectional=bidirectional,
        input_size=6,
        use_sequence_length=lengths is not None,
    )
    layer.initialize(mx.init.Uniform(0.6))
    x = nd.random.uniform(-1, 1, shape=(4, 3, 6))
    states = [nd.random.uniform(-1, 1, shape=s.shape) for s in layer.begin_state(3)]
    ends = None if lengths is None else nd.array(lengths)
    fused = run_recorded(layer, layer._fused, x, states, ends)
    unrolled = run_recorded(layer, layer._unrolled, x, states, ends)
    for got, want in zip(fused, unrolled, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)


def test_samples_that_end_early_are_as_if_alone():
    layer = rnn.LSTM(5, 2, bidirectional=True, input_size=3, use_sequence_length=True)
    layer.initialize(mx.init.Uniform(0.6))
    alone = rnn.LSTM(5, 2, bidirectional=True, input_size=3, params=layer.params)
    x = nd.random.uniform(-1, 1, shape=(4, 3, 3))
    begin = layer.begin_state(3)
    out, states = layer(x, begin, nd.array([2, 0, 4], dtype="int64"))
    for i, end in enumerate([2, 0, 4]):
        assert not out[end:, i].asnumpy().any()
        if end == 0:
            assert not states[0][:, i].asnumpy().any()
            continue
        want, last = alone(x[:end, i : i + 1], alone.begin_state(1))
        np.testing.assert_allclose(
            out[:end, i].asnumpy(), want[:, 0].asnumpy(), rtol=1e-5, atol=1e-6
        )
        for got, one in zip(states, last):
            np.testing.assert_allclose(
                got[:, i].asnumpy(), one[:, 0].asnumpy(), rtol=1e-5, atol=1e-6
            )


def test_projection_and_bounds_in_one_operator():
    hidden, projected = 4, 3
    layer = rnn.LSTM(
        hidden, projection_size=projected, input_size=2,
        state_clip_min=-0.1, state_clip_max=0.2,
    )  # fmt: skip
    layer.initialize(mx.init.Uniform(0.8))
    x = nd.random.uniform(-1, 1, shape=(3, 2, 2))
    out, (h, c) = layer(x, layer.begin_state(2))
    w = {n: p.data().asnumpy() for n, p in layer._reg_params.items()}
    hs, cs = np.zeros((2, projected)), np.zeros((2, hidden))
    for t in range(3):
        z = x.asnumpy()[t] @ w["l0_i2h_weight"].T + hs @ w["l0_h2h_weight"].T
        i, f, g, o = np.split(z, 4, axis=1)
        cs = (sigmoid(f) * cs + sigmoid(i) * np.tanh(g)).clip(-0.1, 0.2)
        hs = (sigmoid(o) * np.tanh(cs)) @ w["l0_h2r_weight"].T
        np.testing.assert_allclose(out.asnumpy()[t], hs, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(c.asnumpy()[0], cs, rtol=1e-4, atol=1e-6)
    assert h.shape == (1, 2, projected)


def test_dropout_between_layers():
    args = [nd.ones((2, 3, 4)), nd.ones((156,)) * 0.1, nd.zeros((2, 3, 6))]
    kind = {"mode": "rnn_relu", "state_size": 6, "num_layers": 2}
    plain = nd.RNN(*args, **kind)
    assert (nd.RNN(*args, p=0.5, **kind).asnumpy() == plain.asnumpy()).all()
    with autograd.train_mode():
        mx.random.seed(3)
        first = nd.RNN(*args, p=0.5, **kind).asnumpy()
        second = nd.RNN(*args, p=0.5, **kind).asnumpy()
        mx.random.seed(3)
        assert (nd.RNN(*args, p=0.5, **kind).asnumpy() == first).all()
        none = nd.RNN(*args, p=1, **kind).asnumpy()
    assert (first != second).any() and (first != plain.asnumpy()).any()
    # Without input the second layer has its biases and states alone.
    np.testing.assert_allclose(none[0], 0.2, rtol=1e-6)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"state_size": 0}, "state_size is 0"),
        ({"mode": "gru", "projection_size": 2}, "projection_size is 2"),
        ({"lstm_state_clip_min": 1.0}, "both"),
        ({"num_layers": 2}, "state .1, 3, 6. does not fit"),
        ({"state_size": 5}, "does not fit|do not fit"),
        ({"mode": "none"}, "mode"),
    ],
)
def test_bad_calls_of_the_operator(change, words):
    arrays = [nd.ones((2, 3, 4)), nd.ones((4 * 6 * 12,))] + [nd.zeros((1, 3, 6))] * 2
    params = {"mode": "lstm", "state_size": 6, "num_layers": 1, **change}
    if params["mode"] == "gru":
        arrays.pop()
    with pytest.raises(ValueError, match=words):
        nd.RNN(*arrays, **params)


def test_layers_shapes_and_gradients():
    layer = rnn.LSTM(4, 2, layout="NTC", dropout=0.3)
    x = nd.random.uniform(shape=(3, 5, 6))
    started(layer, x)
    assert layer(x).shape == (3, 5, 4)
    out, states = layer(x, layer.begin_state(3))
    assert [s.shape for s in states] == [(2, 3, 4), (2, 3, 4)]
    with autograd.record():
        loss = layer(x).sum()
    loss.backward()
    for parameter in layer.collect_params().values():
        assert np.abs(parameter.grad().asnumpy()).sum() > 0
    with pytest.raises(ValueError):
        layer(x, [nd.zeros((1, 3, 4))] * 2)


def test_residual_and_zoneout():
    x = nd.random.uniform(shape=(3, 4))
    cell = rnn.ResidualCell(rnn.GRUCell(4))
    states = cell.begin_state(3)
    started(cell, x, states)
    plain, _ = cell.base_cell(x, states)
    out, _ = cell(x, states)
    np.testing.assert_allclose(out.asnumpy(), plain.asnumpy() + x.asnumpy(), rtol=1e-6)

    cell = rnn.ZoneoutCell(rnn.RNNCell(4), zoneout_states=0.5)
    start = [nd.ones((3, 4)) * 9]
    started(cell, x, start)
    with autograd.train_mode():
        cell.reset()
        _, new = cell(x, start)
    kept = new[0].asnumpy() == 9
    assert 0 < kept.sum() < kept.size
    _, new = cell(x, start)
    assert not (new[0].asnumpy() == 9).any()


def test_sequential_and_dropout():
    stack = rnn.HybridSequentialRNNCell()
    stack.add(rnn.LSTMCell(4))
    stack.add(rnn.DropoutCell(0.5))
    stack.add(rnn.GRUCell(3))
    x = nd.random.uniform(shape=(2, 5))
    states = stack.begin_state(2)
    assert len(stack) == 3 and len(states) == 3
    started(stack, x, states)
    out, new = stack(x, states)
    assert out.shape == (2, 3) and [s.shape for s in new] == [(2, 4), (2, 4), (2, 3)]


def test_bidirectional_cells_cannot_step():
    cell = rnn.BidirectionalCell(rnn.RNNCell(2), rnn.RNNCell(2))
    with pytest.raises(NotImplementedError, match="unroll"):
        cell(nd.ones((1, 2)), cell.begin_state(1))


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_convolutional_cells(kind, dims):
    space = (5, 4, 3)[:dims]
    make = getattr(contrib_rnn, "Conv%dD%sCell" % (dims, kind))
    cell = make((2,) + space, 4, 3, 3, i2h_pad=1)
    x = nd.random.uniform(shape=(2, 2) + space)
    states = cell.begin_state(2)
    started(cell, x, states)
    out, new = cell(x, states)
    assert out.shape == (2, 4) + space
    assert len(new) == (2 if kind == "LSTM" else 1)


def test_variational_dropout_keeps_its_masks():
    cell = contrib_rnn.VariationalDropoutCell(rnn.RNNCell(6), 0.5, 0.5, 0.5)
    x = nd.ones((2, 5, 8))
    states = cell.begin_state(2)
    started(cell, x[:, 0], states)
    with autograd.train_mode():
        cell.reset()
        first, states = cell(x[:, 0], states)
        mask = cell.drop_outputs_mask.asnumpy()
        second, _ = cell(x[:, 1], states)
    assert set(np.unique(mask)) == {0, 2}
    assert ((first.asnumpy() == 0) == (mask == 0)).all()
    assert ((second.asnumpy() == 0) == (mask == 0)).all()

    cell = contrib_rnn.VariationalDropoutCell(rnn.RNNCell(6), drop_outputs=0.5)
    started(cell, x[:, 0], cell.begin_state(2))
    with autograd.train_mode():
        out, _ = cell.unroll(5, x, merge_outputs=True)
    gone = out.asnumpy() == 0
    assert 0 < gone.sum() < gone.size and (gone == gone[:, :1]).all()


def test_projection():
    cell = contrib_rnn.LSTMPCell(6, 2)
    x = nd.random.uniform(shape=(2, 4))
    started(cell, x, cell.begin_state(2))
    out, states = cell(x, cell.begin_state(2))
    assert out.shape == (2, 2) and [s.shape for s in states] == [(2, 2), (2, 6)]
    want = states[0].asnumpy()
    assert (out.asnumpy() == want).all()


def test_training_learns_to_remember():
    mx.random.seed(1)
    np.random.seed(1)
    net = gluon.nn.Sequential()
    net.add(rnn.GRU(8, layout="NTC"), gluon.nn.Lambda(lambda x: x[:, -1]))
    net.add(gluon.nn.Dense(2))
    net.initialize(mx.init.Xavier())
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.03})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    x = nd.array(np.random.randint(0, 2, (64, 6, 1)), dtype="float32")
    y = x[:, 0, 0]
    for _ in range(60):
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(64)
    assert (net(x).asnumpy().argmax(1) == y.asnumpy()).mean() > 0.95
