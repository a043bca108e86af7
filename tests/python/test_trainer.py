"""Trainer: steps, stale gradients, several devices, saved states."""

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd


def parameter(values, ctx=None, **kwargs):
    p = gluon.Parameter("p", shape=np.shape(values), **kwargs)
    p.initialize(init=mx.init.Constant(np.array(values)), ctx=ctx)
    return p


def backward(p, factor=1.0):
    for x in p.list_data():
        with autograd.record():
            y = (x * factor).sum()
        y.backward()


def test_step_divides_by_the_batch_size():
    p = parameter([1.0, 2.0])
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 1.0})
    backward(p, 4.0)
    trainer.step(8)
    assert p.data().asnumpy().tolist() == [0.5, 1.5]
    trainer.set_learning_rate(2.0)
    assert trainer.learning_rate == 2.0
    backward(p, 4.0)
    trainer.step(8)
    assert p.data().asnumpy().tolist() == [-0.5, 0.5]


def test_stale_gradients_are_an_error_unless_ignored():
    p, q = parameter([1.0]), parameter([1.0])
    trainer = gluon.Trainer([p, q], "sgd", {"learning_rate": 1.0})
    backward(p)
    with pytest.raises(UserWarning, match="has not been updated by backward"):
        trainer.step(1)
    trainer.step(1, ignore_stale_grad=True)
    assert p.data().asscalar() == 0 and q.data().asscalar() == 1
    with pytest.raises(UserWarning):
        trainer.step(1)


def test_frozen_parameters_stay():
    p, q = parameter([1.0]), parameter([1.0], grad_req="null")
    trainer = gluon.Trainer([p, q], "sgd", {"learning_rate": 1.0})
    backward(p)
    trainer.step(1)
    assert q.data().asscalar() == 1
    p.grad_req = "null"
    q.grad_req = "write"
    backward(q)
    trainer.step(1)
    assert p.data().asscalar() == 0 and q.data().asscalar() == 0


def test_cast_parameters_are_noticed():
    p = parameter([1.0])
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 1.0})
    backward(p)
    trainer.step(1)
    p.cast("float64")
    backward(p)
    trainer.step(1)
    assert p.data().asscalar() == -1 and p.data().dtype == np.float64


def test_multipliers():
    p = parameter([1.0])
    p.lr_mult, p.wd_mult = 0.5, 0.0
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 1.0, "wd": 10.0})
    backward(p)
    trainer.step(1)
    assert p.data().asscalar() == 0.5


@pytest.mark.parametrize("on_store", [False, True])
def test_gradients_are_summed_over_devices(on_store):
    contexts = [mx.cpu(0), mx.cpu(1)]
    p = parameter([1.0], ctx=contexts)
    trainer = gluon.Trainer(
        [p], "sgd", {"learning_rate": 1.0}, update_on_kvstore=on_store
    )
    for x, factor in zip(p.list_data(), (1.0, 3.0)):
        with autograd.record():
            y = x * factor
        y.backward()
    trainer.step(2)
    assert [x.asscalar() for x in p.list_data()] == [-1, -1]
    backward(p)
    if on_store:
        with pytest.raises(AssertionError, match="updated on kvstore"):
            trainer.allreduce_grads()
        return
    trainer.allreduce_grads()
    assert p.grad(mx.cpu(1)).asscalar() == 2
    trainer.update(1)
    assert [x.asscalar() for x in p.list_data()] == [-3, -3]


def test_update_needs_the_same_contexts():
    p, q = parameter([1.0]), parameter([1.0], ctx=mx.cpu(1))
    with pytest.raises(AssertionError, match="same set of contexts"):
        gluon.Trainer([p, q], "sgd")


def test_wrong_arguments():
    with pytest.raises(ValueError, match="list or dict of Parameters"):
        gluon.Trainer(3, "sgd")
    with pytest.raises(ValueError, match="got list of"):
        gluon.Trainer([3], "sgd")
    with pytest.raises(ValueError, match="Cannot find optimizer nonsense"):
        gluon.Trainer([parameter([1.0])], "nonsense")
    with pytest.raises(AssertionError, match="optimizer_params must be None"):
        gluon.Trainer([parameter([1.0])], mx.optimizer.SGD(), {"wd": 1})
    with pytest.raises(ValueError, match="unknown type 'dist_nowhere'"):
        trainer = gluon.Trainer([parameter([1.0])], "sgd", kvstore="dist_nowhere")
        trainer.step(1)


def test_scheduler_decides_the_rate():
    p = parameter([0.0])
    schedule = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=1.0)
    trainer = gluon.Trainer([p], "sgd", {"lr_scheduler": schedule})
    for _ in range(3):
        backward(p)
        trainer.step(1)
    assert p.data().asscalar() == -2.5
    with pytest.raises(UserWarning, match="LRScheduler"):
        trainer.set_learning_rate(1)


OPTIMIZERS = ["sgd", "adam", "nag", "rmsprop", "ftrl", "adagrad", "adamax", "nadam"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_resumed_run_equals_an_uninterrupted_one(name, tmp_path):
    path = str(tmp_path / "states")
    options = {"learning_rate": 0.1}
    if name in ("sgd", "nag"):
        options["momentum"] = 0.9

    def run(p, trainer, steps):
        for step in steps:
            backward(p, float(step + 1))
            trainer.step(1)

    whole = parameter([1.0, -2.0])
    run(whole, gluon.Trainer([whole], name, options), range(6))
    first = parameter([1.0, -2.0])
    trainer = gluon.Trainer([first], name, options)
    run(first, trainer, range(3))
    trainer.save_states(path)
    second = parameter(first.data().asnumpy())
    trainer = gluon.Trainer([second], name, options)
    trainer.load_states(path)
    run(second, trainer, range(3, 6))
    assert (second.data().asnumpy() == whole.data().asnumpy()).all()


def test_loaded_states_keep_to_the_parameters(tmp_path):
    path = str(tmp_path / "states")
    p = parameter([1.0])
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    backward(p)
    trainer.step(1)
    trainer.save_states(path)
    trainer.load_states(path)
    p.lr_mult = 2.0
    assert trainer.optimizer._get_lr(0) == pytest.approx(0.2)


def test_states_follow_their_weights_to_other_devices(tmp_path):
    path = str(tmp_path / "states")
    p = parameter([1.0])
    trainer = gluon.Trainer([p], "sgd", {"learning_rate": 0.5, "momentum": 0.5})
    backward(p)
    trainer.step(1)
    trainer.save_states(path)
    q = parameter([0.5], ctx=mx.cpu(1))
    trainer = gluon.Trainer([q], "sgd", {"learning_rate": 0.5, "momentum": 0.5})
    trainer.load_states(path)
    backward(q)
    trainer.step(1)
    assert q.data().asscalar() == -0.25 and q.data().context == mx.cpu(1)


def test_half_precision_with_master_weights():
    p = parameter([1.0], dtype="float16")
    options = {"learning_rate": 1e-4, "multi_precision": True, "momentum": 0.0}
    trainer = gluon.Trainer([p], "sgd", options)
    for _ in range(20):
        backward(p)
        trainer.step(1)
    # A single step is lost in float16, whose spacing below 1 is 4.9e-4.
    assert p.data().asscalar() == np.float16(1 - 20e-4)
    trainer = gluon.Trainer([parameter([1.0], dtype="float16")], "adam")
    with pytest.warns(UserWarning, match="multi_precision"):
        backward(trainer._params[0])
        trainer.step(1)


def test_clip_global_norm():
    arrays = [nd.array([3.0]), nd.array([4.0])]
    assert gluon.utils.clip_global_norm(arrays, 10.0) == pytest.approx(5)
    assert arrays[0].asscalar() == 3
    norm = gluon.utils.clip_global_norm(arrays, 1.0, check_isfinite=False)
    assert norm.asscalar() == pytest.approx(5)
    assert [a.asscalar() for a in arrays] == pytest.approx([0.6, 0.8])
    p = parameter([1.0])
    backward(p, 2.0)
    gluon.utils.clip_global_norm([p], 1.0)
    assert p.grad().asscalar() == pytest.approx(1)
    with pytest.warns(UserWarning, match="nan or inf"):
        gluon.utils.clip_global_norm([nd.array([np.inf])], 1.0)


def test_split_and_load():
    parts = gluon.utils.split_and_load(np.arange(6), [mx.cpu(0), mx.cpu(1)])
    assert [p.asnumpy().tolist() for p in parts] == [[0, 1, 2], [3, 4, 5]]
    assert parts[1].context == mx.cpu(1)
    with pytest.raises(ValueError, match="cannot be evenly split"):
        gluon.utils.split_data(nd.ones((5, 2)), 2)
    parts = gluon.utils.split_data(nd.ones((5, 2)), 2, even_split=False)
    assert [p.shape[0] for p in parts] == [3, 2]
    parts = gluon.utils.split_data(nd.ones((2, 4)), 2, batch_axis=1)
    assert [p.shape for p in parts] == [(2, 2), (2, 2)]
