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


def test_second_derivatives_are_refused_not_wrong():
    x = nd.ones((2, 1, 4))
    x.attach_grad()
    with autograd.record():
        y = nd.RNN(x, packed(gates=3), nd.zeros((1, 1, 6)), mode="gru", state_size=6,
                   num_layers=1)  # fmt: skip
        slope = autograd.grad(y.sum(), [x], create_graph=True)[0]
        loss = (slope * slope).sum()
    with pytest.raises(NotImplementedError, match="_backward_RNN: has no gradient"):
        loss.backward()


def test_cells_have_second_derivatives():
    """What the fused operator refuses, unrolled cells do."""
    cell = rnn.GRUCell(3, input_size=2)
    cell.initialize(mx.init.Uniform(0.7))
    x = nd.random.uniform(-1, 1, shape=(1, 4, 2)).astype("float64")
    cell.cast("float64")

    def slope_squared(data):
        with autograd.record():
            begin = cell.begin_state(1, dtype="float64")
            out, _ = cell.unroll(4, data, begin_state=begin, merge_outputs=True)
            slope = autograd.grad(out.sum(), [data], create_graph=True)[0]
            return (slope * slope).sum()

    x.attach_grad()
    slope_squared(x).backward()
    got, step = x.grad.asnumpy(), 1e-5
    for place in [(0, 0, 0), (0, 1, 1), (0, 3, 0)]:
        values = []
        for sign in (1, -1):
            moved = x.asnumpy()
            moved[place] += sign * step
            data = nd.array(moved, dtype="float64")
            data.attach_grad()
            values.append(slope_squared(data).asscalar())
        want = (values[0] - values[1]) / (2 * step)
        np.testing.assert_allclose(got[place], want, rtol=1e-4, atol=1e-8)
