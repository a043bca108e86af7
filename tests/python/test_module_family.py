"""BucketingModule, SequentialModule, the modules in Python, Monitor and FeedForward."""

import logging
import pickle

import numpy as np
import pytest
from module_parts import a_batch, assert_same, blobs, iterator, mlp, values

import plait as mx
from plait import nd

WORDS = 12


def sentences(count=200):
    """Sequences that count up from a random word: the next word is known."""
    rng = np.random.RandomState(5)
    lengths = rng.choice([3, 5, 6], count)
    starts = rng.randint(0, WORDS, count)
    return [[int((s + k) % WORDS) for k in range(n)] for s, n in zip(starts, lengths)]


def language_model(length):
    """An LSTM that tells the next word, unrolled over `length` steps."""
    cell = mx.rnn.LSTMCell(16, prefix="lstm_")
    data = mx.sym.Variable("data")
    embedded = mx.sym.Embedding(data, input_dim=WORDS, output_dim=8, name="embed")
    outputs, _ = cell.unroll(length, embedded, merge_outputs=True)
    x = mx.sym.Reshape(outputs, shape=(-1, 16))
    x = mx.sym.FullyConnected(x, num_hidden=WORDS, name="pred")
    label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    loss = mx.sym.SoftmaxOutput(
        x, label, name="softmax", use_ignore=True, ignore_label=-1
    )
    return loss, ("data",), ("softmax_label",)


def bucket_data():
    return mx.rnn.BucketSentenceIter(sentences(), 20, buckets=[3, 6], invalid_label=-1)


def trained_buckets(epochs=6):
    data = bucket_data()
    module = mx.mod.BucketingModule(language_model, data.default_bucket_key)
    metric = mx.metric.Perplexity(ignore_label=-1)
    module.fit(
        data,
        eval_metric=metric,
        optimizer="adam",
        optimizer_params={"learning_rate": 0.03},
        initializer=mx.init.Xavier(),
        num_epoch=epochs,
    )
    return module, metric.get_global()[1]


def test_buckets_share_parameters_and_learn():
    module, perplexity = trained_buckets()
    assert perplexity < 1.6
    assert sorted(module._buckets) == [3, 6]
    small, large = (module._buckets[key]._exec_group.execs[0] for key in (3, 6))
    for name in ("lstm_i2h_weight", "pred_bias"):
        assert mx.test_utils.same_array(small.arg_dict[name], large.arg_dict[name])
    assert module._buckets[3]._updater is module._buckets[6]._updater


def test_bucket_checkpoints_come_back(tmp_path):
    module, _ = trained_buckets(1)
    prefix = str(tmp_path / "lm")
    module.save_checkpoint(prefix, 3)
    data = bucket_data()
    again = mx.mod.BucketingModule.load(prefix, 3, language_model, 6)
    again.bind(data.provide_data, data.provide_label, for_training=False)
    assert_same(values(module.get_params()[0]), values(again.get_params()[0]))
    for batch in data:
        outputs = []
        for m in (module, again):
            m.forward(batch, is_train=False)
            outputs.append(m.get_outputs()[0].asnumpy())
        np.testing.assert_allclose(*outputs, rtol=1e-5, atol=1e-6)
    data.reset()
    again.fit(
        data, force_rebind=True, num_epoch=1, eval_metric=mx.metric.Perplexity(-1)
    )
    with pytest.raises(mx.MXNetError, match="no symbol for the default key 9"):
        mx.mod.BucketingModule.load(prefix, 3, language_model, 9)
    with pytest.raises(mx.MXNetError, match="sym_gen is missing"):
        mx.mod.BucketingModule.load(prefix, 3)


def test_a_bucketing_module_wants_its_steps_in_order():
    module = mx.mod.BucketingModule(language_model, 6)
    assert module.data_names == ("data",)
    assert module.output_names == ["softmax_output"]
    with pytest.raises(mx.MXNetError, match=r"BucketingModule.forward: bind\(\) was"):
        module.forward(None)
    with pytest.raises(mx.MXNetError, match="default_bucket_key is missing"):
        mx.mod.BucketingModule(language_model)


def chain():
    """The classifier in two modules."""
    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=8, name="fc1")
    first = mx.mod.Module(mx.sym.relu(x, name="hidden"), label_names=None)
    y = mx.sym.FullyConnected(mx.sym.Variable("input"), num_hidden=3, name="fc2")
    second = mx.mod.Module(mx.sym.SoftmaxOutput(y, name="softmax"), ["input"])
    return first, second


def test_a_chain_of_modules_does_what_the_whole_does():
    whole = mx.mod.Module(mlp())
    parts = mx.mod.SequentialModule()
    first, second = chain()
    assert parts.add(first).add(second, take_labels=True, auto_wiring=True) is parts
    for module in (whole, parts):
        module.bind([("data", (4, 6))], [("softmax_label", (4,))])
        module.init_params(mx.init.Xavier())
        module.init_optimizer(optimizer_params={"learning_rate": 0.3})
    parts.set_params(*whole.get_params())
    for _ in range(3):
        batch = a_batch()
        for module in (whole, parts):
            module.forward_backward(batch)
            module.update()
    a, b = (values(m.get_params()[0]) for m in (whole, parts))
    assert_same(a, b, rtol=1e-5, atol=1e-6)
    assert parts.data_names == ["data"] and parts.output_names == ["softmax_output"]
    assert parts.output_shapes == [("softmax_output", (4, 3))]
    metric = mx.metric.Accuracy()
    parts.update_metric(metric, batch.label)
    assert metric.num_inst == 4


def test_a_chain_refuses_two_parameters_of_one_name():
    parts = mx.mod.SequentialModule()
    parts.add(chain()[0]).add(chain()[0], auto_wiring=True)
    parts.bind([("data", (4, 6))])
    with pytest.raises(mx.MXNetError, match="modules 0 and 1 both have a parameter"):
        parts.init_params()
    with pytest.raises(mx.MXNetError, match="unknown argument 'labels'"):
        parts.add(chain()[0], labels=True)
    with pytest.raises(mx.MXNetError, match="there are no modules"):
        mx.mod.SequentialModule().bind([("data", (4, 6))])


def test_a_loss_in_python_trains_what_is_before_it():
    def gradient(scores, labels):
        scores = scores.softmax()
        return scores - nd.one_hot(labels, 3)

    x = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=3, name="fc")
    parts = mx.mod.SequentialModule()
    parts.add(mx.mod.Module(x, label_names=None))
    parts.add(
        mx.mod.PythonLossModule(grad_func=gradient), take_labels=True, auto_wiring=True
    )
    parts.fit(
        iterator(), optimizer_params={"learning_rate": 0.1}, num_epoch=5,
        initializer=mx.init.Xavier(),
    )  # fmt: skip
    assert parts.score(iterator(), "acc")[0][1] > 0.9


def test_modules_in_python_check_their_inputs():
    module = mx.mod.PythonLossModule()
    with pytest.raises(ValueError, match=r"names \['x'\]; expected \['data'\]"):
        module.bind([("x", (2, 3))])
    with pytest.raises(mx.MXNetError, match="only 'write' is supported"):
        module.bind([("data", (2, 3))], grad_req="add")
    module.bind([("data", (2, 3))], [("softmax_label", (2,))])
    module.forward(a_batch(2, 3))
    with pytest.raises(NotImplementedError, match="grad_func is missing"):
        module.backward()
    with pytest.raises(mx.MXNetError, match="takes no gradients"):
        module.backward([nd.ones((2, 3))])


def test_a_monitor_sees_operators_and_arguments(caplog):
    caplog.set_level(logging.INFO)
    monitor = mx.mon.Monitor(2, pattern="fc1.*", sort=True)
    module = mx.mod.Module(mlp())
    module.bind([("data", (4, 6))], [("softmax_label", (4,))])
    module.init_params(mx.init.One())
    module.install_monitor(monitor)
    found = []
    for _ in range(4):
        monitor.tic()
        module.forward_backward(a_batch())
        found.append(monitor.toc())
    assert [bool(f) for f in found] == [True, False, True, False]
    names = [name for _, name, _ in found[0]]
    assert names == sorted(names) and all(n.startswith("fc1") for n in names)
    assert {"fc1_output", "fc1_weight", "fc1_bias"} <= set(names)
    texts = {name: text for _, name, text in found[0]}
    assert float(texts["fc1_weight"]) == 1
    monitor.tic()
    module.forward(a_batch(), is_train=False)
    monitor.toc_print()
    assert "fc1_output" in caplog.text
    bad = mx.mon.Monitor(1, stat_func=lambda x: 1.0)
    module.install_monitor(bad)
    bad.tic()
    module.forward(a_batch())
    with pytest.raises(TypeError, match="stat_func gave a float for"):
        bad.toc()


@pytest.mark.filterwarnings("ignore:FeedForward is deprecated")
def test_feed_forward_fits_arrays(tmp_path):
    data, labels = blobs()
    counts = []
    model = mx.model.FeedForward.create(
        mlp(), data, labels, num_epoch=6, learning_rate=0.2, numpy_batch_size=20,
        initializer=mx.init.Xavier(), eval_data=(data, labels),
        batch_end_callback=lambda param: counts.append(param.nbatch),
    )  # fmt: skip
    assert counts[:6] == [1, 2, 3, 4, 5, 6]
    outputs = model.predict(data)
    assert outputs.shape == (120, 3)
    assert (outputs.argmax(1) == labels).mean() > 0.95
    assert model.score(mx.io.NDArrayIter(data, labels, 30)) > 0.95
    out, again, label = model.predict(
        mx.io.NDArrayIter(data, labels, 50), return_data=True
    )
    np.testing.assert_array_equal(again, data)
    np.testing.assert_array_equal(label, labels)
    model.save(str(tmp_path / "ff"))
    loaded = mx.model.FeedForward.load(str(tmp_path / "ff"), 6)
    for other in (loaded, pickle.loads(pickle.dumps(model))):
        np.testing.assert_allclose(other.predict(data), outputs, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:FeedForward is deprecated")
def test_feed_forward_checks_its_data():
    model = mx.model.FeedForward(mlp(), num_epoch=1)
    with pytest.raises(ValueError, match="y is missing"):
        model.fit(np.ones((4, 6)))
    with pytest.raises(ValueError, match=r"y has shape \(3,\); expected \(4,\)"):
        model.fit(np.ones((4, 6)), np.ones(3))
    with pytest.raises(TypeError, match="X is a list"):
        model.fit([1])
    with pytest.raises(mx.MXNetError, match="there are no parameters"):
        model.predict(np.ones((4, 6)))


def test_an_executor_manager_is_driven_by_hand():
    data = iterator()
    symbol = mlp()
    names = [n for n in symbol.list_arguments() if n.startswith("fc")]
    manager = mx.executor_manager.DataParallelExecutorManager(
        symbol, [mx.cpu(0), mx.cpu(1)], data, symbol.list_arguments(), names, []
    )
    with pytest.raises(mx.MXNetError, match=r"load_data_batch\(\) was not called"):
        manager.forward()
    shapes = dict(zip(symbol.list_arguments(), symbol.infer_shape(data=(20, 6))[0]))
    params = {n: nd.random.uniform(shape=shapes[n]) for n in names}
    manager.set_params(params, {})
    manager.load_data_batch(next(data))
    manager.forward(is_train=True)
    manager.backward()
    assert all(np.isfinite(g[1].asnumpy()).all() for g in manager.grad_arrays)
    copies = {n: nd.zeros(shapes[n]) for n in names}
    manager.copy_to(copies, {})
    assert_same(values(copies), values(params), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:FeedForward is deprecated")
def test_feedforward_scores_a_list_of_metrics_as_a_list():
    x, y = blobs()
    model = mx.model.FeedForward(mlp(), num_epoch=1)
    model.fit(x, y)
    data = mx.io.NDArrayIter(x, y, 30)
    single = model.score(data, "acc")
    assert isinstance(single, float)
    assert model.score(data, ["acc"]) == [single]
    both = model.score(data, ["acc", "ce"])
    assert both[0] == single and len(both) == 2
