"""Transformers: layers, BERT, GPT with its cache, symbols and files."""

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd
from plait.gluon import nn
from plait.gluon.model_zoo import text

V = 50


def words(*shape, seed=0):
    return nd.array(np.random.RandomState(seed).randint(0, V, shape))


def tiny_gpt(**kwargs):
    mx.random.seed(1)
    options = {"units": 32, "num_heads": 4, "max_length": 40, "dropout": 0.0, **kwargs}
    net = text.GPTModel(V, 2, **options)
    net.initialize()
    return net


def tiny_bert(**kwargs):
    mx.random.seed(1)
    net = text.BERTModel(V, 2, 32, 64, 4, max_length=30, dropout=0.1, **kwargs)
    net.initialize()
    return net


def near(a, b, tolerance=1e-5):
    a, b = (x.asnumpy() if isinstance(x, nd.NDArray) else x for x in (a, b))
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# ---------------------------------------------------------------- the layer


def by_hand(layer, q, k, v, heads, hidden):
    """MultiHeadAttention in NumPy."""

    def dense(block, x):
        return x @ block.weight.data().asnumpy().T + block.bias.data().asnumpy()

    def cut(x):
        return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    q = cut(dense(layer.proj_query, q))
    k, v = cut(dense(layer.proj_key, k)), cut(dense(layer.proj_value, v))
    s = q @ k.transpose(0, 1, 3, 2) / np.sqrt(q.shape[-1])
    s = np.where(hidden, -np.inf, s)
    w = np.exp(s - s.max(-1, keepdims=True))
    y = (w / w.sum(-1, keepdims=True)) @ v
    y = y.transpose(0, 2, 1, 3).reshape(*y.shape[:1], y.shape[2], -1)
    return dense(layer.proj_out, y)


@pytest.mark.parametrize("hybridize", [False, True])
def test_multi_head_attention_is_what_it_says(hybridize):
    layer = nn.MultiHeadAttention(12, 3)
    layer.initialize(mx.init.Normal(0.5))
    layer.hybridize(hybridize)
    q, kv = nd.random.normal(shape=(2, 5, 8)), nd.random.normal(shape=(2, 7, 6))
    none = np.zeros((2, 1, 1, 7), bool)
    y = layer(q, kv)
    assert y.shape == (2, 5, 12)
    near(y, by_hand(layer, *(x.asnumpy() for x in (q, kv, kv)), 3, none))
    length = np.arange(7) >= np.array([4, 7])[:, None, None, None]
    layer.hybridize(hybridize)  # for another structure of inputs
    y = layer(q, kv, None, None, nd.array([4, 7]))
    near(y, by_hand(layer, *(x.asnumpy() for x in (q, kv, kv)), 3, length))
    shown = np.random.RandomState(0).rand(5, 7) > 0.3
    layer.hybridize(hybridize)
    y = layer(q, kv, kv, nd.array(shown, dtype="bool"))
    near(y, by_hand(layer, *(x.asnumpy() for x in (q, kv, kv)), 3, ~shown))


def test_layouts_of_the_layer():
    layer = nn.MultiHeadAttention(12, 3, causal=True, in_units=12)
    layer.initialize(mx.init.Normal(0.5))
    time_first = nn.MultiHeadAttention(12, 3, causal=True, layout="TBC")
    x = nd.random.normal(shape=(2, 5, 12))
    time_first.initialize()
    time_first(x.transpose((1, 0, 2)))
    for a, b in zip(
        layer.collect_params().values(),
        time_first.collect_params().values(),
        strict=True,
    ):
        b.set_data(a.data())
    near(layer(x), time_first(x.transpose((1, 0, 2))).transpose((1, 0, 2)))


def test_bad_layers_are_refused():
    with pytest.raises(ValueError, match="units 10 cannot be cut into 3 heads"):
        nn.MultiHeadAttention(10, 3)
    with pytest.raises(ValueError, match="layout is 'CBT'"):
        nn.MultiHeadAttention(12, 3, layout="CBT")
    layer = nn.MultiHeadAttention(12, 3)
    layer.initialize()
    with pytest.raises(ValueError, match="mask has shape"):
        layer(nd.zeros((2, 5, 8)), None, None, nd.zeros((5, 6)))


# ---------------------------------------------------------------- BERT


def test_bert_has_the_outputs_that_are_asked_for():
    x, positions = words(3, 20), nd.array([[1, 2], [3, 19], [0, 1]])
    net = tiny_bert()
    shapes = [y.shape for y in net(x, nd.zeros_like(x), None, positions)]
    assert shapes == [(3, 20, 32), (3, 32), (3, 2), (3, 2, V)]
    assert [y.shape for y in net(x)] == [(3, 20, 32), (3, 32), (3, 2)]
    plain = tiny_bert(use_pooler=False, use_decoder=False, use_classifier=False)
    assert plain(x).shape == (3, 20, 32)
    with pytest.raises(ValueError, match="use_decoder"):
        plain(x, None, None, positions)
    with pytest.raises(ValueError, match="use_pooler"):
        tiny_bert(use_pooler=False)


def test_masked_positions_are_looked_up():
    net, x = tiny_bert(), words(3, 20)
    positions = np.array([[1, 2], [3, 19], [0, 1]])
    outputs = net(x, None, None, nd.array(positions))
    everywhere = net.decoder(outputs[0]).asnumpy()
    near(outputs[-1], everywhere[np.arange(3)[:, None], positions])


def test_words_beyond_the_valid_length_are_not_seen():
    net, length = tiny_bert(), nd.array([12, 20, 1])
    a, b = words(3, 20), words(3, 20, seed=1)
    valid = nd.arange(20).expand_dims(0) < length.expand_dims(1)
    mixed = nd.where(valid, a, b)
    first, second = net(a, None, length)[0], net(mixed, None, length)[0]
    near(first[0, :12], second[0, :12])
    near(first[2, :1], second[2, :1])
    assert np.abs((first[0, 12:] - second[0, 12:]).asnumpy()).max() > 1e-3


@pytest.mark.parametrize("train", [False, True])
def test_hybridized_bert_gives_the_same(train):
    x, length = words(3, 20), nd.array([20, 5, 9])
    positions = nd.array([[1, 2], [3, 4], [0, 1]])
    found = []
    net = tiny_bert()
    for hybridize in (False, True):
        net.hybridize(hybridize)
        mx.random.seed(3)
        with autograd.record(train_mode=train):
            outputs = net(x, nd.zeros_like(x), length, positions)
            loss = sum((y**2).sum() for y in outputs)
        loss.backward()
        grads = [p.grad() for p in net.collect_params().values()]
        found.append([y.asnumpy() for y in [*outputs, *grads]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * max(np.abs(b).max(), 1))


def test_names_of_parameters_follow_gluonnlp():
    names = list(tiny_bert()._collect_params_with_prefix())
    for name in (
        "word_embed.0.weight",
        "token_type_embed.0.weight",
        "encoder.position_weight",
        "encoder.layer_norm.gamma",
        "encoder.transformer_cells.1.attention_cell.proj_query.weight",
        "encoder.transformer_cells.1.proj.bias",
        "encoder.transformer_cells.1.ffn.ffn_1.weight",
        "encoder.transformer_cells.1.ffn.layer_norm.beta",
        "pooler.weight",
        "classifier.bias",
        "decoder.2.gamma",
        "decoder.3.bias",
    ):
        assert name in names


def test_sizes_of_the_published_models():
    def count(net):
        return sum(int(np.prod(p.shape)) for p in net.collect_params().values())

    bert = text.get_model("bert_12_768_12", use_classifier=False, use_decoder=False)
    assert count(bert) == 109482240
    assert count(text.get_model("gpt2_117m")) == 124439808
    with pytest.raises(ValueError, match="gpt2_345m"):
        text.get_model("gpt5")
    with pytest.raises(FileNotFoundError, match="no weights of gpt2_117m"):
        text.gpt2_117m(pretrained=True, root="/nowhere")


# ---------------------------------------------------------------- GPT


def test_later_words_do_not_matter():
    net, a, b = tiny_gpt(), words(2, 20), words(2, 20, seed=1)
    mixed = nd.concat(a[:, :12], b[:, 12:], dim=1)
    for hybridize in (False, True):
        net.hybridize(hybridize)
        first, second = net(a).asnumpy(), net(mixed).asnumpy()
        np.testing.assert_array_equal(first[:, :12], second[:, :12])
        assert np.abs(first[:, 12:] - second[:, 12:]).max() > 1e-3


@pytest.mark.parametrize("hybridize", [False, True])
def test_the_cache_gives_what_a_whole_pass_gives(hybridize):
    net, x = tiny_gpt(), words(3, 20)
    if hybridize:
        net.hybridize()
    whole = net(x)
    cache = net.begin_cache(3)
    at = 0
    for n in (7, 1, 1, 4, 1, 6):
        near(net.step(x[:, at : at + n], cache), whole[:, at + n - 1])
        at += n
    assert cache.position == at == 20


def test_generation_is_repeated_choice_of_the_next_word():
    net, x = tiny_gpt(), words(2, 5)
    found = net.generate(x, 6, temperature=0).asnumpy()
    seen = x
    for t in range(6):
        word = net(seen)[:, -1].argmax(axis=-1)
        np.testing.assert_array_equal(found[:, t], word.asnumpy())
        seen = nd.concat(seen, word.expand_dims(1), dim=1)
    a, b = (net.generate(x, 8, seed=s).asnumpy() for s in (1, 1))
    np.testing.assert_array_equal(a, b)
    assert (net.generate(x, 8, seed=2).asnumpy() != a).any()
    assert net.generate([1, 2], 0).shape == (1, 0)


def test_sampling_follows_the_chances():
    scores = nd.array(np.log([[0.1, 0.2, 0.7]] * 4000))
    found = text.Sampler(seed=0)(scores).asnumpy()
    near(np.bincount(found.astype(int)) / 4000, np.array([0.1, 0.2, 0.7]), 0.03)
    assert set(text.Sampler(top_k=1, seed=0)(scores).asnumpy()) == {2}
    cold = text.Sampler(temperature=0.1, seed=0)(scores).asnumpy()
    assert (cold == 2).mean() > 0.99
    with pytest.raises(ValueError, match="top_k -1"):
        text.Sampler(top_k=-1)


def test_sequences_that_are_too_long_are_refused():
    net = tiny_gpt()
    with pytest.raises(ValueError, match="41 positions; at most max_length = 40"):
        net(words(1, 41))
    with pytest.raises(ValueError, match="cache of 41"):
        net.begin_cache(capacity=41)
    with pytest.raises(ValueError, match="cache of 45"):
        net.generate(words(1, 5), 40)
    cache = net.begin_cache(2, capacity=4)
    net.step(words(2, 3), cache)
    for wrong in (words(2, 2), words(1, 1), words(2, 0)):
        with pytest.raises(ValueError, match="behind 3 positions"):
            net.step(wrong, cache)
    with pytest.raises(ValueError, match="31 positions"):
        tiny_bert()(words(1, 31))


def test_a_tiny_gpt_learns_a_text():
    sentence = "the cat sat on the mat and the dog sat on the log "
    letters = sorted(set(sentence))
    data = np.array([letters.index(c) for c in sentence * 3])
    mx.random.seed(0)
    net = text.GPTModel(len(letters), 2, 32, 4, max_length=64, dropout=0.0)
    net.initialize()
    net.hybridize()
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 5e-3})
    random = np.random.RandomState(0)
    for _ in range(150):
        at = random.randint(0, len(data) - 33, 8)
        batch = nd.array([data[i : i + 33] for i in at])
        with autograd.record():
            error = loss(net(batch[:, :-1]), batch[:, 1:])
        error.backward()
        trainer.step(8)
    assert error.mean().asscalar() < 0.3
    prompt = [letters.index(c) for c in "the cat sat "]
    made = net.generate(prompt, 20, temperature=0).asnumpy()[0]
    made = "".join(letters[int(i)] for i in made)
    assert made == sentence[12:32], made


# ---------------------------------------------------------------- graphs and files


def test_symbols_are_exported_and_imported(tmp_path):
    net, x = tiny_gpt(), words(3, 20)
    net.hybridize()
    want = net(x)
    net.export(str(tmp_path / "gpt"))
    loaded = gluon.SymbolBlock.imports(
        str(tmp_path / "gpt-symbol.json"), ["data"], str(tmp_path / "gpt-0000.params")
    )
    near(loaded(x), want)
    bert, length = tiny_bert(use_decoder=False), nd.array([20, 5, 9])
    bert.hybridize()
    want = bert(x, nd.zeros_like(x), length)
    bert.export(str(tmp_path / "bert"))
    loaded = gluon.SymbolBlock.imports(
        str(tmp_path / "bert-symbol.json"),
        ["data0", "data1", "data2"],
        str(tmp_path / "bert-0000.params"),
    )
    for a, b in zip(loaded(x, nd.zeros_like(x), length), want, strict=True):
        near(a, b)


def test_a_model_is_a_function_of_symbols():
    net = tiny_gpt(prefix="gpt_")
    y = net(mx.sym.var("data"))
    assert "gpt_word_embed_weight" in y.list_arguments()
    _, shapes, _ = y.infer_shape(data=(2, 7))
    assert shapes == [(2, 7, V)]
    outputs = tiny_bert()(
        mx.sym.var("words"), mx.sym.var("types"), mx.sym.var("length")
    )
    assert len(outputs) == 3


def test_parameters_save_and_load(tmp_path):
    net, x = tiny_bert(), words(2, 9)
    net.save_parameters(str(tmp_path / "weights.params"))
    mx.random.seed(5)
    other = text.BERTModel(V, 2, 32, 64, 4, max_length=30)
    other.load_parameters(str(tmp_path / "weights.params"))
    near(net(x)[0], other(x)[0])


def test_halves_give_about_the_same():
    net, x = tiny_gpt(), words(2, 20)
    want = net(x).asnumpy()
    net.cast("bfloat16")
    found = net(x).astype("float32").asnumpy()
    assert np.abs(found - want).max() < 0.05 * max(1, np.abs(want).max())
