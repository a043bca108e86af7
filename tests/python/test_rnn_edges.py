"""Recurrent layers at the edges: lengths that do not fit, NaN in states, dtypes, packed
parameters of the wrong size."""

import numpy as np
import pytest

import plait as mx
from plait import autograd, nd
from plait.gluon import rnn

KINDS = {
    "tanh": lambda **k: rnn.RNN(5, activation="tanh", **k),
    "relu": lambda **k: rnn.RNN(5, activation="relu", **k),
    "lstm": lambda **k: rnn.LSTM(5, **k),
    "gru": lambda **k: rnn.GRU(5, **k),
}


@pytest.mark.parametrize(
    "lengths, words",
    [
        ([2, 5], r"sequence_length\[1\] is 5 for data of 4 steps; 0 to 4"),
        ([-1, 4], r"sequence_length\[0\] is -1"),
        ([1, np.nan], r"sequence_length\[1\] is -?nan"),
    ],
)
def test_lengths_that_do_not_fit(lengths, words):
    layer = rnn.GRU(3, input_size=2, use_sequence_length=True)
    layer.initialize()
    x, states = nd.ones((4, 2, 2)), layer.begin_state(2)
    with pytest.raises(ValueError, match=words):
        layer(x, states, nd.array(lengths))[0].asnumpy()
    layer.hybridize()
    with pytest.raises(ValueError, match=words):
        layer(x, states, nd.array(lengths))[0].asnumpy()
    out = layer(x, states, nd.array([0, 4]))[0].asnumpy()
    assert not out[:, 0].any() and out[:, 1].all()


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_layers_in_other_dtypes(kind, dtype):
    options = {"num_layers": 2, "bidirectional": True, "input_size": 4}
    full = KINDS[kind](**options)
    full.initialize(mx.init.Uniform(0.5))
    other = KINDS[kind](dtype=dtype, **options)
    other.initialize()
    for name, p in other._reg_params.items():
        p.set_data(full._reg_params[name].data().astype(dtype))
    x = nd.random.uniform(-1, 1, shape=(6, 3, 4))
    results = []
    for layer, data in ((full, x), (other, x.astype(dtype))):
        data.attach_grad()
        with autograd.record():
            out, states = layer(data, layer.begin_state(3))
            loss = (out * out).sum() + sum(s.sum() for s in states)
        loss.backward()
        grads = [data.grad, layer.l0_h2h_weight.grad(), layer.r1_i2h_weight.grad()]
        results.append([a.astype("float64").asnumpy() for a in (out, *states, *grads)])
        assert mx.base.dtype_name(out.dtype) == mx.base.dtype_name(data.dtype)
    error = {"float64": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    for want, got in zip(*results):
        np.testing.assert_allclose(got, want, atol=error * np.abs(want).max())


def packed(width=4, hidden=6, gates=4):
    return nd.ones((gates * hidden * (width + hidden + 2),)) * 0.1


def test_bounds_of_the_memory_catch_nan():
    kind = {"mode": "lstm", "state_size": 6, "num_layers": 1, "state_outputs": True}
    bounds = {"lstm_state_clip_min": -0.25, "lstm_state_clip_max": 0.5}
    x, h = nd.ones((3, 2, 4)), nd.zeros((1, 2, 6))
    c = nd.full((1, 2, 6), np.nan)
    plain = nd.RNN(x, packed(), h, c, **kind)
    assert np.isnan(plain[2].asnumpy()).all()
    kept = nd.RNN(x, packed(), h, c, **kind, **bounds)
    assert np.isnan(kept[2].asnumpy()).all()
    clipped = nd.RNN(x, packed(), h, c, lstm_state_clip_nan=True, **kind, **bounds)
    last = clipped[2].asnumpy()
    assert (last >= -0.25).all() and (last <= 0.5).all()


@pytest.mark.parametrize("size", [0, 215, 217, 288])
def test_packed_parameters_of_the_wrong_size(size):
    with pytest.raises(ValueError, match=r"parameters \(%d,\) do not fit.*216" % size):
        nd.RNN(nd.ones((3, 2, 4)), nd.ones((size,)), nd.zeros((1, 2, 6)),
               mode="gru", state_size=6, num_layers=1)  # fmt: skip
    data, vector = mx.sym.var("data"), mx.sym.var("vector", shape=(size,))
    net = mx.sym.RNN(data, vector, mode="gru", state_size=6, num_layers=1)
    if size:  # 0 is "unknown" in symbols
        with pytest.raises(ValueError, match="216"):
            net.infer_shape(data=(3, 2, 4))


def symbolic(layer):
    """The same layer as a block of its symbol."""
    data = mx.sym.var("data")
    return mx.gluon.SymbolBlock(layer(data), data, params=layer.collect_params())


def penalty(layer, data):
    """A function of the slope by the data, so that a gradient of it is a second one."""
    with autograd.record():
        out = layer(data)
        slope = autograd.grad((out * out).sum(), [data], create_graph=True)[0]
        return (slope * slope).sum()


@pytest.mark.parametrize("way", ["called", "hybridized", "static", "symbol"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_second_derivatives_of_layers(kind, way):
    mx.random.seed(3)
    layer = KINDS[kind](num_layers=2, bidirectional=True, input_size=2)
    layer.initialize(mx.init.Uniform(0.7))
    layer.cast("float64")
    if way == "hybridized" or way == "static":
        layer.hybridize(static_alloc=way == "static", static_shape=way == "static")
    block = symbolic(layer) if way == "symbol" else layer
    x = nd.random.uniform(-1, 1, shape=(4, 2, 2)).astype("float64")
    x.attach_grad()
    penalty(block, x).backward()
    params = block.collect_params()
    checked = {name: params[name].grad().asnumpy() for name in sorted(params)}
    checked["x"] = x.grad.asnumpy()
    rng, step = np.random.RandomState(1), 1e-5
    for name, gradient in checked.items():
        place = tuple(rng.randint(n) for n in gradient.shape)
        start = x.asnumpy() if name == "x" else params[name].data().asnumpy()
        values = []
        for sign in (1, -1):
            moved = start.copy()
            moved[place] += sign * step
            data = nd.array(moved if name == "x" else x, dtype="float64")
            data.attach_grad()
            if name != "x":
                params[name].set_data(nd.array(moved, dtype="float64"))
            values.append(penalty(block, data).asscalar())
        if name != "x":
            params[name].set_data(nd.array(start, dtype="float64"))
        want = (values[0] - values[1]) / (2 * step)
        np.testing.assert_allclose(gradient[place], want, rtol=2e-4, atol=1e-7)


def test_second_derivatives_with_dropout_use_the_same_draws():
    layer = rnn.LSTM(5, num_layers=2, dropout=0.5, input_size=2)
    layer.initialize(mx.init.Uniform(0.7))
    layer.cast("float64")
    x = nd.random.uniform(-1, 1, shape=(3, 2, 2)).astype("float64")
    x.attach_grad()

    def drawn(data):
        mx.random.seed(7)
        return penalty(layer, data)

    drawn(x).backward()
    got, step, place = x.grad.asnumpy(), 1e-5, (1, 0, 1)
    values = []
    for sign in (1, -1):
        moved = x.asnumpy()
        moved[place] += sign * step
        data = nd.array(moved, dtype="float64")
        data.attach_grad()
        values.append(drawn(data).asscalar())
    want = (values[0] - values[1]) / (2 * step)
    np.testing.assert_allclose(got[place], want, rtol=2e-4, atol=1e-7)


def test_a_penalty_of_fused_layers_is_that_of_cells():
    """In float32, with the lengths of samples, and of half types that it is near it."""
    layer = rnn.GRU(4, input_size=3, use_sequence_length=True)
    layer.initialize(mx.init.Uniform(0.7))
    cell = rnn.GRUCell(4, input_size=3)
    cell.initialize()
    for part in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"):
        getattr(cell, part).set_data(getattr(layer, "l0_" + part).data())
    x = nd.random.uniform(-1, 1, shape=(5, 2, 3))
    lengths = nd.array([5, 2])

    def of_layer(data):
        return layer(data, layer.begin_state(2), lengths)[0]

    def of_cell(data):
        outs, _ = cell.unroll(5, data, layout="TNC", begin_state=cell.begin_state(2),
                              merge_outputs=True, valid_length=lengths)  # fmt: skip
        return outs

    gradients = []
    for block in (of_layer, of_cell):
        x.attach_grad()
        penalty(block, x).backward()
        gradients.append(x.grad.asnumpy())
    np.testing.assert_allclose(*gradients, rtol=1e-4, atol=1e-6)
    assert not gradients[0][2:, 1].any() and gradients[0][:2, 1].all()


def test_second_derivatives_without_steps():
    x, h = nd.ones((0, 1, 4)), nd.ones((1, 1, 6))
    h.attach_grad()
    with autograd.record():
        y, last = nd.RNN(x, packed(gates=3), h, mode="gru", state_size=6,
                         num_layers=1, state_outputs=True)  # fmt: skip
        slope = autograd.grad((last**3).sum(), [h], create_graph=True)[0]
        loss = slope.sum() + y.sum()
    loss.backward()
    np.testing.assert_allclose(h.grad.asnumpy(), 6 * np.ones((1, 1, 6)))
