"""The symbolic recurrent cells: shapes, values against NumPy, weights, checkpoints."""

import numpy as np
import pytest

import plait as mx
from plait import nd


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def evaluate(outputs, batch=2, width=3, steps=3, merged=False):
    """(outputs as arrays, arguments) of unrolled outputs, with random weights."""
    outputs = outputs if merged else mx.sym.Group(outputs)
    executor = outputs.simple_bind(mx.cpu(), data=(batch, steps, width))
    for name, array in executor.arg_dict.items():
        if "begin_state" not in name:
            array[:] = np.random.uniform(-0.5, 0.5, array.shape)
    found = [x.asnumpy() for x in executor.forward(is_train=False)]
    return found, {n: a.asnumpy() for n, a in executor.arg_dict.items()}


def step_weights(args, prefix):
    return [args["%s%s" % (prefix, n)] for n in
            ("i2h_weight", "i2h_bias", "h2h_weight", "h2h_bias")]  # fmt: skip


def rnn_step(x, states, w):
    h = np.tanh(x @ w[0].T + w[1] + states[0] @ w[2].T + w[3])
    return h, [h]


def lstm_step(x, states, w):
    gates = x @ w[0].T + w[1] + states[0] @ w[2].T + w[3]
    i, f, c, o = np.split(gates, 4, axis=1)
    cell = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(c)
    h = sigmoid(o) * np.tanh(cell)
    return h, [h, cell]


def gru_step(x, states, w):
    ir, iz, io = np.split(x @ w[0].T + w[1], 3, axis=1)
    hr, hz, ho = np.split(states[0] @ w[2].T + w[3], 3, axis=1)
    r, z = sigmoid(ir + hr), sigmoid(iz + hz)
    h = (1 - z) * np.tanh(io + r * ho) + z * states[0]
    return h, [h]


CELLS = {
    "rnn": (lambda: mx.rnn.RNNCell(4, prefix="c_"), rnn_step, 1),
    "lstm": (lambda: mx.rnn.LSTMCell(4, prefix="c_"), lstm_step, 2),
    "gru": (lambda: mx.rnn.GRUCell(4, prefix="c_"), gru_step, 1),
}


@pytest.mark.parametrize("kind", CELLS)
def test_cells_compute_their_formula(kind):
    build, step, count = CELLS[kind]
    outputs, _ = build().unroll(3, mx.sym.Variable("data"))
    assert [o.list_outputs()[0] for o in outputs] == [
        "c_t%d_out_output" % k for k in range(3)
    ]
    found, args = evaluate(outputs)
    states = [np.zeros((2, 4))] * count
    for k in range(3):
        expected, states = step(args["data"][:, k], states, step_weights(args, "c_"))
        np.testing.assert_allclose(found[k], expected, rtol=1e-4, atol=1e-5)


def test_merged_outputs_and_time_first():
    cell = mx.rnn.RNNCell(4, prefix="c_")
    merged, _ = cell.unroll(3, mx.sym.Variable("data"), merge_outputs=True)
    assert merged.infer_shape(data=(2, 3, 5))[1] == [(2, 3, 4)]
    merged, states = cell.unroll(
        3, mx.sym.Variable("data"), layout="TNC", merge_outputs=True
    )
    assert merged.infer_shape(data=(3, 2, 5))[1] == [(3, 2, 4)]
    listed, _ = cell.unroll(2, [mx.sym.Variable("a"), mx.sym.Variable("b")])
    assert len(listed) == 2 and len(states) == 1


@pytest.mark.parametrize("mode", ["rnn_relu", "rnn_tanh", "lstm", "gru"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_fused_cell_is_its_single_cells(mode, bidirectional):
    fused = mx.rnn.FusedRNNCell(
        4, num_layers=2, mode=mode, bidirectional=bidirectional, prefix="f_"
    )
    data = mx.sym.Variable("data")
    outputs, _ = fused.unroll(3, data, layout="TNC", merge_outputs=True)
    executor = outputs.simple_bind(mx.cpu(), data=(3, 2, 5))
    args = {"f_parameters": nd.random.uniform(
        -0.5, 0.5, executor.arg_dict["f_parameters"].shape)}  # fmt: skip
    x = nd.random.uniform(shape=(3, 2, 5))
    executor.copy_params_from(args)
    expected = executor.forward(data=x)[0].asnumpy()

    stack = fused.unfuse()
    outputs, _ = stack.unroll(3, data, layout="TNC", merge_outputs=True)
    executor = outputs.simple_bind(mx.cpu(), data=(3, 2, 5))
    loose = fused.unpack_weights(args)
    executor.copy_params_from(stack.pack_weights(loose))
    found = executor.forward(data=x)[0].asnumpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    packed = fused.pack_weights(loose)["f_parameters"]
    np.testing.assert_array_equal(packed.asnumpy(), args["f_parameters"].asnumpy())


def test_a_fused_cell_gives_its_states():
    cell = mx.rnn.FusedRNNCell(4, mode="lstm", get_next_state=True, prefix="f_")
    with pytest.warns(UserWarning, match="TNC is faster"):
        outputs, states = cell.unroll(3, mx.sym.Variable("data"), merge_outputs=True)
    group = mx.sym.Group([outputs, *states])
    assert group.infer_shape(data=(2, 3, 5))[1] == [(2, 3, 4), (1, 2, 4), (1, 2, 4)]


def test_two_directions_stand_side_by_side():
    cell = mx.rnn.BidirectionalCell(
        mx.rnn.RNNCell(4, prefix="l_"), mx.rnn.RNNCell(4, prefix="r_")
    )
    found, args = evaluate(cell.unroll(3, mx.sym.Variable("data"))[0])
    for side, order, half in (
        ("l_", (0, 1, 2), slice(4)),
        ("r_", (2, 1, 0), slice(4, 8)),
    ):
        states = [np.zeros((2, 4))]
        for k in order:
            expected, states = rnn_step(
                args["data"][:, k], states, step_weights(args, side)
            )
            np.testing.assert_allclose(
                found[k][:, half], expected, rtol=1e-4, atol=1e-5
            )
    with pytest.raises(NotImplementedError, match="cannot make a single step"):
        cell(None, None)


def test_modifiers_wrap_a_cell():
    stack = mx.rnn.SequentialRNNCell()
    stack.add(mx.rnn.ResidualCell(mx.rnn.GRUCell(5, prefix="a_")))
    stack.add(mx.rnn.DropoutCell(0.3))
    stack.add(mx.rnn.ZoneoutCell(mx.rnn.LSTMCell(4, prefix="b_"), 0.3, 0.2))
    outputs, states = stack.unroll(3, mx.sym.Variable("data"))
    assert len(states) == 3 and "a_i2h_weight" in stack.params._params
    group = mx.sym.Group(outputs)
    assert group.infer_shape(data=(2, 3, 5))[1] == [(2, 4)] * 3
    base = mx.rnn.RNNCell(4)
    mx.rnn.ResidualCell(base)
    with pytest.raises(mx.MXNetError, match="a modifier cell .* was put around"):
        base.begin_state()
    with pytest.raises(mx.MXNetError, match="a FusedRNNCell makes no single steps"):
        mx.rnn.ZoneoutCell(mx.rnn.FusedRNNCell(4))


def test_residuals_add_the_input():
    cell = mx.rnn.ResidualCell(mx.rnn.RNNCell(3, prefix="c_"))
    found, args = evaluate(cell.unroll(1, mx.sym.Variable("data"))[0], steps=1)
    expected, _ = rnn_step(
        args["data"][:, 0], [np.zeros((2, 3))], step_weights(args, "c_")
    )
    np.testing.assert_allclose(found[0], expected + args["data"][:, 0], rtol=1e-4)


@pytest.mark.parametrize("kind", ["ConvRNNCell", "ConvLSTMCell", "ConvGRUCell"])
def test_convolutional_cells_keep_the_size(kind):
    cell = getattr(mx.rnn, kind)(input_shape=(1, 3, 8, 6), num_hidden=4, prefix="c_")
    steps = [mx.sym.Variable("x%d" % k) for k in range(2)]
    outputs, _ = cell.unroll(2, steps)
    shapes = {"x0": (2, 3, 8, 6), "x1": (2, 3, 8, 6)}
    assert mx.sym.Group(outputs).infer_shape(**shapes)[1] == [(2, 4, 8, 6)] * 2
    with pytest.raises(mx.MXNetError, match="expected odd sizes"):
        getattr(mx.rnn, kind)((1, 3, 8, 6), 4, h2h_kernel=(2, 2))


def test_shared_params_give_shared_weights():
    params = mx.rnn.RNNParams("shared_")
    first, second = (mx.rnn.RNNCell(4, prefix=p, params=params) for p in ("a_", "b_"))
    assert first._iW is second._iW and first._iW.name == "shared_i2h_weight"
    with pytest.raises(mx.MXNetError, match="params were given to this cell and"):
        mx.rnn.SequentialRNNCell(params=params).add(first)


def test_checkpoints_hold_single_gates(tmp_path):
    cell = mx.rnn.LSTMCell(2, prefix="c_")
    output = mx.sym.Group(cell.unroll(1, mx.sym.Variable("data"))[0])
    args = {
        "c_i2h_weight": nd.random.uniform(shape=(8, 3)),
        "c_i2h_bias": nd.zeros(8),
        "c_h2h_weight": nd.ones((8, 2)),
        "c_h2h_bias": nd.zeros(8),
    }
    prefix = str(tmp_path / "rnn")
    mx.rnn.do_rnn_checkpoint(cell, prefix)(0, output, args, {})
    assert "arg:c_i2h_f_weight" in nd.load(prefix + "-0001.params")
    _, loaded, _ = mx.rnn.load_rnn_checkpoint(cell, prefix, 1)
    assert set(loaded) == set(args)
    for name, value in args.items():
        np.testing.assert_array_equal(loaded[name].asnumpy(), value.asnumpy())


def test_sentences_become_numbers():
    coded, vocab = mx.rnn.encode_sentences([["a", "b"], ["b", "c"]], start_label=1)
    assert coded == [[1, 2], [2, 3]] and vocab["\n"] == -1
    coded, _ = mx.rnn.encode_sentences([["a", "b"]], invalid_label=0)
    assert coded == [[1, 2]]  # 0 is taken
    coded, known = mx.rnn.encode_sentences(
        [["a", "x", "y"]], vocab=dict(vocab), unknown_token="?", start_label=9
    )
    assert coded == [[1, 9, 9]] and known["?"] == 9
    with pytest.raises(ValueError, match="'x' is not in the vocabulary"):
        mx.rnn.encode_sentences([["x"]], vocab=vocab)


@pytest.mark.parametrize("layout", ["NT", "TN"])
def test_sentences_come_in_buckets(layout):
    sentences = [[1, 2], [3, 4], [5], [6, 7, 8, 9], [1, 2, 3, 4, 5]]
    data = mx.rnn.BucketSentenceIter(
        sentences, 2, buckets=[4, 2], invalid_label=0, layout=layout
    )
    assert data.buckets == [2, 4] and data.default_bucket_key == 4
    batches = list(data)
    assert len(batches) == 1 and batches[0].bucket_key == 2
    rows = batches[0].data[0].asnumpy()
    labels = batches[0].label[0].asnumpy()
    rows, labels = (rows, labels) if layout == "NT" else (rows.T, labels.T)
    assert rows.shape == (2, 2) and batches[0].provide_data[0].layout == layout
    np.testing.assert_array_equal(labels[:, 0], rows[:, 1])
    assert (labels[:, 1] == 0).all()
    with pytest.raises(ValueError, match="layout is 'XY'"):
        mx.rnn.BucketSentenceIter(sentences, 2, layout="XY")
    with pytest.raises(ValueError, match="no bucket has a sentence"):
        mx.rnn.BucketSentenceIter(sentences, 10)


def test_bad_calls_say_what_is_wrong():
    cell = mx.rnn.RNNCell(4)
    with pytest.raises(ValueError, match="got 1 inputs; expected 2, the length"):
        cell.unroll(2, [mx.sym.Variable("x")])
    with pytest.raises(TypeError, match="a symbol with 2 outputs"):
        cell.unroll(2, mx.sym.Group([mx.sym.Variable("x"), mx.sym.Variable("y")]))
    with pytest.raises(mx.MXNetError, match="layout 'NC' has no T"):
        cell.unroll(2, mx.sym.Variable("x"), layout="NC")
    with pytest.raises(ValueError, match="unknown mode 'elman'"):
        mx.rnn.FusedRNNCell(4, mode="elman")
    with pytest.raises(ValueError, match="has 5 values, which fit no input"):
        mx.rnn.FusedRNNCell(4, prefix="f_").unpack_weights({"f_parameters": nd.ones(5)})
