"""Module: training, evaluation, shapes, several devices, and calls in wrong order."""

import logging
from collections import namedtuple

import numpy as np
import pytest
from module_parts import a_batch, assert_same, blobs, bound, iterator, mlp, values

import plait as mx
from plait import nd


def test_fit_learns_and_logs(caplog):
    caplog.set_level(logging.INFO)
    module = mx.mod.Module(mlp())
    module.fit(
        iterator(shuffle=True),
        iterator(),
        optimizer_params={"learning_rate": 0.2},
        initializer=mx.init.Xavier(),
        num_epoch=4,
    )
    assert module.score(iterator(), "acc")[0][1] > 0.95
    for text in ("Epoch[0] Train-accuracy=", "Time cost=", "Epoch[3] Validation-acc"):
        assert text in caplog.text


def test_callbacks_see_every_batch_and_epoch():
    batches, epochs, evaluations = [], [], []
    module = mx.mod.Module(mlp())

    def at_batch(param):
        assert param.locals["self"] is module
        assert param.locals["data_batch"].data[0].shape == (20, 6)
        batches.append((param.epoch, param.nbatch))

    module.fit(
        iterator(),
        iterator(),
        batch_end_callback=[at_batch],
        epoch_end_callback=lambda epoch, *rest: epochs.append((epoch, rest)),
        eval_end_callback=lambda param: evaluations.append(param.nbatch),
        begin_epoch=1,
        num_epoch=3,
    )
    assert batches == [(e, b) for e in (1, 2) for b in range(6)]
    assert [e for e, _ in epochs] == [1, 2] and evaluations == [6, 6]
    symbol, arg_params, aux_params = epochs[0][1]
    assert symbol is module.symbol and aux_params == {}
    assert sorted(arg_params) == ["fc1_bias", "fc1_weight", "fc2_bias", "fc2_weight"]


def test_a_step_is_that_of_the_formula():
    module, batch = bound(), a_batch()
    module.init_optimizer(optimizer_params={"learning_rate": 0.5, "wd": 0.1})
    before = values(module.get_params()[0])
    module.forward_backward(batch)
    grads = {n: g.asnumpy() for n, g in module._exec_group.execs[0].grad_dict.items()
             if g is not None}  # fmt: skip
    module.update()
    expected = {
        name: w - 0.5 * (grads[name] / 4 + (0.1 if name.endswith("weight") else 0) * w)
        for name, w in before.items()
    }
    assert_same(values(module.get_params()[0]), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("store", ["local", "device", None])
@pytest.mark.parametrize("on_store", ["1", "0"])
def test_two_devices_do_what_one_does(store, on_store, monkeypatch):
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", on_store)
    one, two = bound(), bound(context=[mx.cpu(0), mx.cpu(1)])
    two.set_params(*one.get_params())
    for module in (one, two):
        module.init_optimizer(
            store, optimizer_params={"learning_rate": 0.1, "momentum": 0.9}
        )
    if store is None:  # each device would follow its own half
        assert two._kvstore is None
        return
    for _ in range(3):
        batch = a_batch()
        for module in (one, two):
            module.forward_backward(batch)
            module.update()
    assert two._update_on_kvstore == (on_store == "1")
    a, b = (values(m.get_params()[0]) for m in (one, two))
    assert_same(a, b, rtol=1e-5, atol=1e-6)
    outs = two.get_outputs(merge_multi_context=False)[0]
    assert [o.shape for o in outs] == [(2, 3), (2, 3)]
    assert two.get_outputs()[0].shape == (4, 3)


def test_work_loads_share_the_batch():
    module = bound(batch=9, context=[mx.cpu(0), mx.cpu(1)], work_load_list=[1, 2])
    assert module._exec_group.slices == [slice(0, 3), slice(3, 9)]
    with pytest.raises(mx.MXNetError, match="batch of 1 cannot be split over 2"):
        bound(batch=1, context=[mx.cpu(0), mx.cpu(1)])


def test_predict_leaves_the_filling_out():
    data, _ = blobs()
    module = bound(batch=50)
    outputs = module.predict(mx.io.NDArrayIter(data, batch_size=50))
    assert outputs.shape == (120, 3)
    np.testing.assert_allclose(outputs.asnumpy().sum(1), 1, rtol=1e-5)
    parts = module.predict(mx.io.NDArrayIter(data, batch_size=50), merge_batches=False)
    assert [p[0].shape for p in parts] == [(50, 3), (50, 3), (20, 3)]
    listed = module.predict(
        mx.io.NDArrayIter(data, batch_size=50), num_batch=1, always_output_list=True
    )
    np.testing.assert_array_equal(listed[0].asnumpy(), outputs[:50].asnumpy())
    alone = module.predict(data[:7])
    np.testing.assert_allclose(alone.asnumpy(), outputs[:7].asnumpy(), rtol=1e-5)


def test_other_shapes_rebind_and_keep_parameters():
    module = bound()
    before = values(module.get_params()[0])
    for size in (7, 2, 4):
        module.forward(a_batch(size))
        assert module.get_outputs()[0].shape == (size, 3)
        assert module.data_shapes[0].shape == (size, 6)
    assert_same(values(module.get_params()[0]), before)


def test_executors_of_the_last_few_shapes_are_kept():
    module = bound()
    first = module._exec_group.execs[0]
    module.forward(a_batch(7))
    second = module._exec_group.execs[0]
    for size, expected in ((4, first), (7, second), (4, first)):
        module.forward(a_batch(size))
        assert module._exec_group.execs[0] is expected
    for size in range(10, 30):
        module.forward(a_batch(size))
    assert len(module._exec_group._known) == 8
    module.forward(a_batch(4))
    assert module._exec_group.execs[0] is first
    module.forward(a_batch(7))
    assert module._exec_group.execs[0] is not second


def test_a_batch_needs_only_data():
    Batch = namedtuple("Batch", ["data"])
    module = mx.mod.Module(mx.sym.Variable("data") * 2, label_names=None)
    module.bind([("data", (1, 3))])
    module.init_params()
    module.forward(Batch([nd.ones((2, 3))]))
    assert module.get_outputs()[0].asnumpy().tolist() == [[2, 2, 2]] * 2


def test_fixed_parameters_stay():
    module = mx.mod.Module(mlp(), fixed_param_names=["fc1_weight"])
    module.fit(iterator(), num_epoch=1, initializer=mx.init.One())
    params = values(module.get_params()[0])
    assert (params["fc1_weight"] == 1).all() and not (params["fc2_weight"] == 1).all()


def test_gradients_of_the_data():
    module = mx.mod.Module(mx.sym.Variable("data") * 3, label_names=None)
    module.bind([("data", (2, 2))], inputs_need_grad=True)
    module.init_params()
    module.forward(mx.io.DataBatch([nd.ones((2, 2))]))
    module.backward([nd.ones((2, 2)) * 2])
    assert (module.get_input_grads()[0].asnumpy() == 6).all()


def test_states_are_inputs_that_stay():
    x, state = mx.sym.Variable("data"), mx.sym.Variable("state")
    module = mx.mod.Module(x + state, label_names=None, state_names=["state"])
    module.bind([("data", (2, 2))], for_training=False)
    module.init_params()
    batch = mx.io.DataBatch([nd.ones((2, 2))])
    module.set_states(value=4)
    module.forward(batch)
    assert (module.get_outputs()[0].asnumpy() == 5).all()
    module.set_states(module.get_outputs(merge_multi_context=False))
    module.forward(batch)
    assert (module.get_outputs()[0].asnumpy() == 6).all()
    assert module.get_params() == ({}, {})


def test_rebinding_for_prediction_keeps_what_was_learnt():
    module = bound()
    module.init_optimizer()
    module.forward_backward(a_batch())
    module.update()
    weights = values(dict(zip("ab", [a[0] for a in module._exec_group.param_arrays])))
    module.bind([("data", (2, 6))], for_training=False, force_rebind=True)
    after = values(dict(zip("ab", [a[0] for a in module._exec_group.param_arrays])))
    assert_same(weights, after)


def test_the_optimizer_knows_names_and_multipliers():
    x = mx.sym.FullyConnected(
        mx.sym.Variable("data"),
        mx.sym.Variable("w", lr_mult=0.0),
        num_hidden=2,
        name="fc",
    )
    module = mx.mod.Module(mx.sym.SoftmaxOutput(x, name="softmax"))
    module.fit(
        mx.io.NDArrayIter(np.ones((4, 3)), np.ones(4), 4),
        optimizer_params={"learning_rate": 1.0},
        initializer=mx.init.Zero(),
        arg_params={"w": nd.ones((2, 3))},
        allow_missing=True,
        num_epoch=1,
    )
    params = values(module.get_params()[0])
    assert (params["w"] == 1).all() and not (params["fc_bias"] == 0).any()
    assert module._optimizer.idx2name == {0: "w", 1: "fc_bias"}
    assert module._optimizer.rescale_grad == 0.25


def test_an_optimizer_object_is_used_as_it_is():
    module, optimizer = bound(), mx.optimizer.SGD(rescale_grad=1.0)
    with pytest.warns(UserWarning, match="rescale_grad is 1.0, not 0.25"):
        module.init_optimizer(optimizer=optimizer)
    assert module._optimizer is optimizer and len(optimizer.idx2name) == 4


def call(method, *args, **kwargs):
    return lambda module: getattr(module, method)(*args, **kwargs)


WRONG_ORDER = {
    r"Module.init_params: bind\(\) was not called": (0, call("init_params")),
    r"Module.forward: bind\(\) was not called": (0, call("forward", a_batch)),
    r"Module.forward: init_params\(\) was not called": (1, call("forward", a_batch)),
    r"Module.update: init_optimizer\(\) was not called": (2, call("update")),
    r"Module.save_optimizer_states: init_optimizer\(\) was": (
        2,
        call("save_optimizer_states", "x"),
    ),
    r"Module.score|bind\(\) was not called": (0, call("score", None, "acc")),
    "num_epoch is missing": (2, call("fit", None)),
    "optimizer is a int; expected a name": (2, call("init_optimizer", optimizer=3)),
    "eval_data is a int; expected an NDArray or a DataIter": (2, call("predict", 3)),
    "the batch has 0 data arrays; expected 1: data": (
        2,
        call("forward", mx.io.DataBatch([])),
    ),
    r"value of 'fc1_bias' has shape \(2,\); expected \(8,\)": (
        2,
        call(
            "init_params",
            arg_params={"fc1_bias": nd.ones(2)},
            allow_missing=True,
            force_init=True,
        ),
    ),
    "there is no value for 'fc1_bias'": (2, call("set_params", {}, {})),
    r"expected the names \['data'\]": (0, call("bind", [("dat", (4, 6))])),
    r"data has shape \(4, 6\)|softmax_label has shape \(5,\), a batch of 5": (
        0,
        call("bind", [("data", (4, 6))], [("softmax_label", (5,))]),
    ),
    "inputs_need_grad=True needs for_training=True": (
        0,
        call("bind", [("data", (4, 6))], for_training=False, inputs_need_grad=True),
    ),
    "inputs_need_grad=False": (2, call("get_input_grads")),
}


@pytest.mark.parametrize("text", WRONG_ORDER)
@pytest.mark.filterwarnings("ignore:Module.bind")
def test_errors_name_the_call_and_what_is_missing(text):
    steps, action = WRONG_ORDER[text]
    module = mx.mod.Module(mlp())
    if steps > 0:
        module.bind([("data", (4, 6))], [("softmax_label", (4,))])
    if steps > 1:
        module.init_params()
    with pytest.raises(mx.MXNetError, match=text):
        action(module)


def test_names_that_are_no_inputs():
    with pytest.raises(ValueError, match="no argument 'x'.*look like inputs are: data"):
        mx.mod.Module(mlp(), data_names=["x"])
    with pytest.warns(UserWarning, match="no argument 'y'"):
        mx.mod.Module(mlp(), label_names=["y"])


def test_an_empty_iterator_is_an_error():
    class Empty(mx.io.DataIter):
        provide_data = [mx.io.DataDesc("data", (4, 6))]
        provide_label = [mx.io.DataDesc("softmax_label", (4,))]

        def iter_next(self):
            return False

    with pytest.raises(mx.MXNetError, match="train_data gave no batch in epoch 0"):
        mx.mod.Module(mlp()).fit(Empty(), num_epoch=1)


@pytest.mark.filterwarnings("error")
def test_training_on_and_predicting_without_labels_give_no_warnings():
    module = bound(batch=20)
    module.fit(iterator(), num_epoch=1)
    module.bind([("data", (2, 6))], for_training=False, force_rebind=True)
    assert module.predict(np.ones((5, 6))).shape == (5, 3)


def test_missing_labels_are_told_in_training():
    with pytest.warns(UserWarning, match="label_shapes are .*; expected the names"):
        mx.mod.Module(mlp()).bind([("data", (2, 6))])
