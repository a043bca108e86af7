"""Automatic mixed precision: converted networks, training, loss scales, bad input."""

import json

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd
from plait.contrib import amp
from plait.gluon import nn, rnn

TARGETS = ["float16", "bfloat16"]
# The relative step between neighbours: 2^-11 and 2^-8.
STEP = {"float16": 5e-4, "bfloat16": 4e-3}


@pytest.fixture
def training():
    """amp.init() for one test."""
    yield amp.init
    amp.amp._off()


def small_net(classes=4):
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Conv2D(8, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"))
        net.add(nn.MaxPool2D(2), nn.Conv2D(8, 3, padding=1, activation="relu"))
        net.add(nn.GlobalAvgPool2D(), nn.Dense(classes))
    return net


def dtype_of(array):
    return mx.base.dtype_name(array.dtype)


def ran(net, *inputs):
    """The net, hybridized, after one run."""
    net.initialize(mx.init.Xavier(magnitude=2))
    net.hybridize()
    net(*inputs)
    return net


def operators(symbol):
    nodes = json.loads(symbol.tojson(remove_amp_cast=False))["nodes"]
    return [n["op"] for n in nodes if n["op"] != "null"]


# ------------------------------------------------- lists


@pytest.mark.parametrize("target", TARGETS)
def test_each_operator_is_in_one_list(target):
    lists = [
        amp.list_lp16_ops(target),
        amp.list_fp32_ops(target),
        amp.list_lp16_fp32_ops(target),
        amp.list_widest_type_cast(target),
        [row[0] for row in amp.list_conditional_fp32_ops(target)],
    ]
    names = [name for names in lists for name in names]
    assert len(names) == len(set(names))
    assert set(names) == set(mx._plait.op_names())
    assert {"Convolution", "FullyConnected", "RNN"} <= set(lists[0])


def test_lists_go_by_any_spelling_of_the_dtype():
    assert amp.list_lp16_ops(np.float16) == amp.list_lp16_ops("float16")
    assert amp.list_fp32_ops(amp.amp.bfloat16) == amp.list_fp32_ops("bfloat16")
    assert amp.list_lp16_use_fp32_params("float16") is None
    assert "gamma" in amp.list_lp16_use_fp32_params("bfloat16")["BatchNorm"]
    assert "softmax" in amp.lists.symbol_fp16.FP32_FUNCS
    assert "softmax" in amp.lists.symbol_bf16.BF16_FP32_FUNCS
    assert "SoftmaxOutput" in amp.list_loss_output_functions("float16")
    with pytest.raises(ValueError, match="float64"):
        amp.list_fp32_ops("float64")


# ------------------------------------------------- conversion


@pytest.mark.parametrize("target", TARGETS)
def test_converted_blocks_give_nearly_the_same(target):
    x = nd.random.uniform(-1, 1, shape=(2, 3, 12, 12))
    net = ran(small_net(), x)
    want = net(x).asnumpy()
    for cast in (False, True):
        other = amp.convert_hybrid_block(net, target, cast_optional_params=cast)
        got = other(x)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got.asnumpy(), want, atol=20 * STEP[target])
        assert (got.asnumpy() != want).any()
        params = other.collect_params()
        expected = target if cast else "float32"
        assert mx.base.dtype_name(params["net_conv0_weight"].dtype) == expected
        assert params["net_batchnorm0_gamma"].dtype == np.float32
        assert other(x).asnumpy().tolist() == got.asnumpy().tolist()


@pytest.mark.parametrize("target", TARGETS)
def test_recurrent_networks_convert(target):
    net = nn.HybridSequential()
    net.add(rnn.LSTM(10, 2, bidirectional=True), nn.Dense(2))
    x = nd.random.uniform(-1, 1, shape=(2, 3, 4))
    ran(net, x)
    other = amp.convert_hybrid_block(net, target)
    np.testing.assert_allclose(
        other(x).asnumpy(), net(x).asnumpy(), atol=20 * STEP[target]
    )


def test_converted_symbols_run_and_are_saved(tmp_path):
    net = ran(small_net(), nd.ones((1, 3, 8, 8)))
    net.export(str(tmp_path / "net"))
    sym, args, aux = mx.model.load_checkpoint(str(tmp_path / "net"), 0)
    low, args, aux = amp.convert_model(
        sym, args, aux, "bfloat16", cast_optional_params=True
    )
    assert {dtype_of(a) for a in args.values()} == {"bfloat16", "float32"}
    mx.model.save_checkpoint(str(tmp_path / "low"), 0, low, args, aux, False)
    sym, args, aux = mx.model.load_checkpoint(str(tmp_path / "low"), 0)
    assert "amp_cast" in operators(sym)
    mod = mx.mod.Module(sym, label_names=None)
    mod.bind([("data", (1, 3, 8, 8))], for_training=False)
    mod.set_params(args, aux)
    mod.forward(mx.io.DataBatch([nd.ones((1, 3, 8, 8))]))
    want = net(nd.ones((1, 3, 8, 8))).asnumpy()
    np.testing.assert_allclose(mod.get_outputs()[0].asnumpy(), want, atol=0.1)


def test_only_the_operators_that_are_asked_for():
    data = mx.sym.var("data")
    fc = mx.sym.FullyConnected(data, num_hidden=3, name="a")
    net = mx.sym.sin(mx.sym.FullyConnected(fc, num_hidden=2, name="b"))
    low = amp.convert_symbol(net, excluded_sym_names=["a"])
    assert operators(low) == [
        "FullyConnected", "amp_cast", "amp_cast", "amp_cast", "FullyConnected", "sin",
        "amp_cast",
    ]  # fmt: skip
    none = amp.convert_symbol(net, target_dtype_ops=[])
    assert operators(none) == ["FullyConnected", "FullyConnected", "sin", "amp_cast"]


def test_lists_that_do_not_go_together():
    net = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=3)
    fc = ["FullyConnected"]
    for wrong, words in (
        ({"target_dtype_ops": fc, "fp32_ops": fc}, "both target_dtype_ops and fp32"),
        ({"fp32_ops": ["elemwise_add"]}, "cannot be put into a list"),
        ({"fp32_ops": ["no_such_operator"]}, "no_such_operator"),
        ({"fp32_ops": "sin"}, "list of strings"),
        ({"conditional_fp32_ops": [("FullyConnected", "no_bias")]}, "conditional"),
        ({"excluded_sym_names": "a"}, "excluded_sym_names"),
        ({"target_dtype": "int8"}, "int8"),
    ):
        with pytest.raises(AssertionError, match=words):
            amp.convert_symbol(net, **wrong)
    with pytest.raises(ValueError, match="a Symbol was expected"):
        amp.convert_symbol(small_net())
    with pytest.raises(ValueError, match="aux_params"):
        amp.convert_model(net, {}, None)
    with pytest.raises(RuntimeError, match="hybridize"):
        amp.convert_hybrid_block(small_net())
    with pytest.raises(TypeError, match="HybridBlock"):
        amp.convert_hybrid_block(nn.Sequential())
    with pytest.raises(ValueError, match="BucketingModule"):
        amp.convert_bucketing_module(net)


def test_bucketing_modules_convert():
    def sym_gen(length):
        data = mx.sym.var("data")
        embed = mx.sym.Embedding(data, input_dim=10, output_dim=6, name="embed")
        out = mx.sym.FullyConnected(mx.sym.mean(embed, axis=1), num_hidden=3, name="fc")
        return mx.sym.SoftmaxOutput(out, name="softmax"), ("data",), ("softmax_label",)

    mod = mx.mod.BucketingModule(sym_gen, default_bucket_key=5)
    mod.bind([("data", (2, 5))], [("softmax_label", (2,))])
    mod.init_params(mx.init.Uniform(0.5))
    low = amp.convert_bucketing_module(mod, "bfloat16")
    low.bind([("data", (2, 5))], [("softmax_label", (2,))], for_training=False)
    batch = mx.io.DataBatch(
        [nd.array([[1, 2, 3, 4, 5], [9, 8, 7, 6, 5]])],
        bucket_key=5,
        provide_data=[("data", (2, 5))],
        provide_label=None,
    )
    for each in (mod, low):
        each.forward(batch, is_train=False)
    got, want = (m.get_outputs()[0].asnumpy() for m in (low, mod))
    np.testing.assert_allclose(got, want, atol=0.02)


# ------------------------------------------------- calls after init()


@pytest.mark.parametrize("target", TARGETS)
def test_calls_cast_what_they_read(training, target):
    training(target)
    x, w = nd.ones((2, 3)), nd.ones((4, 3))
    low = nd.FullyConnected(x, w, no_bias=True, num_hidden=4)
    assert dtype_of(low) == target
    assert dtype_of(nd.relu(low)) == target  # takes what it gets
    assert dtype_of(nd.exp(low)) == "float32"
    assert dtype_of(low.sum()) == "float32"  # methods too
    assert dtype_of(nd.concat(low, nd.ones((2, 4)))) == "float32"
    assert dtype_of(nd.concat(low, low)) == target
    assert dtype_of(low + nd.ones((2, 4))) == "float32"
    act = nd.Activation(low, act_type="softrelu")
    assert dtype_of(act) == "float32"
    wide = nd.ones((2, 3), dtype="float64")
    out = nd.FullyConnected(wide, nd.ones((4, 3), dtype="float64"), no_bias=True,
                            num_hidden=4)  # fmt: skip
    assert out.dtype == np.float64  # somebody asked for it


def test_sequence_lengths_are_not_rounded(training):
    training("bfloat16")
    steps = 259  # bfloat16 would make 260 of it
    layer = rnn.GRU(2, input_size=1, use_sequence_length=True)
    layer.initialize()
    x = nd.ones((steps + 1, 1, 1))
    out = layer(x, layer.begin_state(1), nd.array([steps]))[0]
    last = out.astype("float32").asnumpy()[:, 0]
    assert (last[steps - 1] != 0).any() and not last[steps].any()


def test_graphs_have_the_casts_too(training, tmp_path):
    training("bfloat16")
    x = nd.random.uniform(-1, 1, shape=(2, 3, 12, 12))
    net = small_net()
    net.initialize(mx.init.Xavier(magnitude=2))
    plain = net(x)
    net.hybridize()
    assert dtype_of(net(x)) == dtype_of(plain) == "bfloat16"
    np.testing.assert_allclose(
        net(x).astype("float32").asnumpy(), plain.astype("float32").asnumpy(), atol=0.05
    )
    sym = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=2)
    assert operators(sym) == ["amp_cast"] * 3 + ["FullyConnected"]
    net.export(str(tmp_path / "net"))
    assert "amp_cast" not in (tmp_path / "net-symbol.json").read_text()


def test_after_init_other_threads_cast_and_a_second_init_must_agree(training):
    from concurrent.futures import ThreadPoolExecutor

    training("bfloat16")
    training("bfloat16")
    with pytest.raises(ValueError, match="bfloat16 before"):
        training("float16")
    with ThreadPoolExecutor(1) as pool:
        out = pool.submit(nd.FullyConnected, nd.ones((1, 2)), nd.ones((1, 2)),
                          no_bias=True, num_hidden=1).result()  # fmt: skip
    assert dtype_of(out) == "bfloat16"


# ------------------------------------------------- training


def pictures(count, seed):
    """Four kinds of noisy stripes; (images, labels)."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 4, count)
    waves = np.sin(np.arange(12) * 1.3)
    kinds = np.stack([
        np.outer(waves, np.ones(12)), np.outer(np.ones(12), waves),
        np.outer(waves, waves), np.zeros((12, 12)),
    ])  # fmt: skip
    images = kinds[labels] + random.normal(0, 0.6, (count, 12, 12))
    return nd.array(images[:, None]), nd.array(labels)


def accuracy_after_training(target, hybridize):
    mx.random.seed(3)
    net = small_net()
    net.initialize(mx.init.Xavier())
    if hybridize:
        net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
    if target:
        amp.init_trainer(trainer)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    images, labels = pictures(512, 1)
    for step in range(64):
        part = slice(step % 8 * 64, step % 8 * 64 + 64)
        with autograd.record():
            loss = loss_of(net(images[part]), labels[part])
            if target:
                with amp.scale_loss(loss, trainer) as scaled:
                    autograd.backward(scaled)
        if not target:
            loss.backward()
        trainer.step(64)
    assert net[0].weight.data().dtype == np.float32
    images, labels = pictures(512, 2)
    found = net(images).astype("float32").asnumpy().argmax(1)
    return float((found == labels.asnumpy()).mean())


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("target", TARGETS)
def test_training_reaches_the_accuracy_of_float32(training, target, hybridize):
    want = accuracy_after_training(None, hybridize)
    assert want > 0.9
    training(target)
    got = accuracy_after_training(target, hybridize)
    assert got > want - 0.03


def test_steps_that_overflow_are_left_out(training):
    training("float16")
    net = nn.Dense(1, use_bias=False, in_units=2)
    net.initialize(mx.init.One())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    amp.init_trainer(trainer)
    scaler = trainer._amp_loss_scaler
    assert scaler.loss_scale == 2**16

    def step(x):
        with autograd.record():
            loss = net(nd.array([x])).sum()
            with amp.scale_loss(loss, trainer) as scaled:
                autograd.backward(scaled)
        trainer.step(1)
        return net.weight.data().asnumpy()[0].tolist()

    assert step([4, 0]) == [1, 1]  # 4 * 2^16 is no float16
    assert scaler.loss_scale == 2**16 and scaler._next_loss_scale == 2**15
    for _ in range(4):
        before = net.weight.data().asnumpy()[0].tolist()
        after = step([1 / 16, 0])
    assert after == [before[0] - 1 / 32, 1]
    assert scaler.loss_scale == 2**14  # 2^16 is no float16 either


def test_the_scale_grows_after_many_good_steps():
    scaler = amp.loss_scaler.LossScaler()
    net = nn.Dense(1, in_units=1)
    net.initialize()
    params = list(net.collect_params().values())
    scaler._scale_seq_len = 3
    assert [scaler.has_overflow(params) for _ in range(3)] == [False] * 3
    assert scaler._next_loss_scale == 2**17
    net.weight.grad()[:] = np.inf
    assert scaler.has_overflow(params)
    assert (scaler.loss_scale, scaler._next_loss_scale) == (2**17, 2**16)
    scaler._next_loss_scale = scaler._loss_scale = 2.0**24
    net.weight.grad()[:] = 0
    for _ in range(3):
        scaler.has_overflow(params)
    assert scaler._next_loss_scale == 2**24
    assert not scaler.has_overflow([])


def test_unscale_gives_the_true_gradients(training):
    training("bfloat16")
    net = nn.Dense(1, use_bias=False, in_units=2)
    net.initialize(mx.init.One())
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1})
    amp.init_trainer(trainer)
    with autograd.record():
        losses = [net(nd.array([[1, 2]])).sum(), net(nd.array([[3, 4]])).sum()]
        with amp.scale_loss(losses, trainer) as scaled:
            autograd.backward(scaled)
    amp.unscale(trainer)
    assert net.weight.grad().asnumpy().tolist() == [[4, 6]]
    trainer.step(1)
    assert net.weight.data().asnumpy().tolist() == [[-3, -5]]


def test_losses_that_make_their_gradients_scale_them(training):
    training("float16")
    net = nn.Dense(2, in_units=2)
    net.initialize(mx.init.One())
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    amp.init_trainer(trainer)
    trainer._amp_loss_scaler._loss_scale = 8.0
    x = nd.array([[1, 0]])
    x.attach_grad()
    with autograd.record():
        out = nd.SoftmaxOutput(x, nd.array([0]))
    out.backward()
    p = np.exp([1, 0]) / np.exp([1, 0]).sum()
    np.testing.assert_allclose(x.grad.asnumpy()[0], 8 * (p - [1, 0]), rtol=1e-5)


def test_what_init_must_precede(training):
    net = nn.Dense(1, in_units=1)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    with pytest.raises(AssertionError, match="call amp.init"):
        amp.init_trainer(trainer)
    with pytest.raises(AssertionError, match="init_trainer"):
        with amp.scale_loss(nd.ones(1), trainer):
            pass
    with pytest.raises(ValueError, match="int8"):
        training("int8")
    training("float16")
    with pytest.raises(TypeError, match="Gluon Trainer"):
        amp.init_trainer(mx.optimizer.SGD())
    with pytest.raises(TypeError, match="gluon.Trainer"):
        amp.unscale(net)


@pytest.mark.parametrize("name", ["sgd", "adam", "nag", "lamb", "adagrad"])
@pytest.mark.parametrize("dtype", TARGETS)
def test_multi_precision_optimizers_keep_small_steps(name, dtype):
    settings = {"learning_rate": 1e-3, "multi_precision": True}
    if name == "sgd":
        settings["momentum"] = 0.9
    optimizer = mx.optimizer.create(name, **settings)
    plain = mx.optimizer.create(name, **{**settings, "multi_precision": False})
    low, full = nd.ones((8,), dtype=dtype), nd.ones((8,))
    states = optimizer.create_state_multi_precision(0, low)
    plain_states = plain.create_state(0, full)
    for _ in range(40):
        grad = nd.ones((8,)) * 0.5
        optimizer.update_multi_precision(0, low, grad.astype(dtype), states)
        plain.update(0, full, grad, plain_states)
    want = full.astype(dtype).astype("float32").asnumpy()
    assert dtype_of(low) == dtype
    np.testing.assert_allclose(
        low.astype("float32").asnumpy(), want, atol=2 * STEP[dtype]
    )
    assert (want != 1).all()
