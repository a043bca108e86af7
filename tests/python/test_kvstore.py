"""The key-value store of one process: sums, updaters, optimizers, and bad calls."""

import numpy as np
import pytest

import plait as mx
from plait import nd

SHAPE = (2, 3)


def devices(count=3):
    return [nd.ones(SHAPE, mx.cpu(i)) * (i + 1) for i in range(count)]


def pulled(store, key):
    out = nd.zeros(SHAPE)
    store.pull(key, out=out)
    return out.asnumpy()


@pytest.mark.parametrize("kind", ["local", "device"])
@pytest.mark.parametrize("key", [3, "weight"])
def test_push_replaces_the_value_by_the_sum_over_devices(kind, key):
    store = mx.kv.create(kind)
    store.init(key, nd.ones(SHAPE) * 10)
    assert (pulled(store, key) == 10).all()
    store.push(key, devices())
    assert (pulled(store, key) == 6).all()
    outs = [nd.zeros(SHAPE, mx.cpu(i)) for i in range(2)]
    store.pull(key, out=outs)
    assert [o.context for o in outs] == [mx.cpu(0), mx.cpu(1)]
    assert all((o.asnumpy() == 6).all() for o in outs)


def test_equal_keys_of_one_push_are_summed():
    store = mx.kv.create()
    store.init(["a", "b"], [nd.zeros(SHAPE)] * 2)
    store.push(["a", "b", "a"], [nd.ones(SHAPE)] * 3)
    assert (pulled(store, "a") == 2).all() and (pulled(store, "b") == 1).all()


def test_the_stored_value_is_a_copy():
    store, value = mx.kv.create(), nd.ones(SHAPE)
    store.init(0, value)
    value[:] = 5
    assert (pulled(store, 0) == 1).all()
    store.push(0, value)
    value[:] = 7
    assert (pulled(store, 0) == 5).all()


def test_an_updater_gets_key_sum_and_value():
    store, keys = mx.kv.create(), []

    def updater(key, recv, stored):
        keys.append(key)
        stored += 2 * recv

    store._set_updater(updater)
    store.init("w", nd.ones(SHAPE))
    store.push("w", devices())
    store.push("w", devices())
    assert keys == ["w", "w"] and (pulled(store, "w") == 25).all()


def test_pushpull_sums_in_place_or_updates():
    store, grads = mx.kv.create("device"), devices()
    store.broadcast(4, nd.ones(SHAPE), out=nd.empty(SHAPE))
    store.pushpull(4, grads)
    assert all((g.asnumpy() == 6).all() for g in grads)
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
    weights = [nd.zeros(SHAPE, mx.cpu(i)) for i in range(3)]
    store.pushpull(4, grads, out=weights)
    assert all((w.asnumpy() == 1 - 0.5 * 18).all() for w in weights)


def test_states_of_the_optimizer_are_saved_and_loaded(tmp_path):
    def trained():
        store = mx.kv.create()
        store.set_optimizer(mx.optimizer.Adam())
        store.init("w", nd.ones(SHAPE))
        return store

    first, second = trained(), trained()
    first.push("w", devices())
    for form in ("plait", "mxnet"):
        name = str(tmp_path / form)
        first.save_optimizer_states(name, format=form)
        second.load_optimizer_states(name)
        found, expected = second._updater.states["w"], first._updater.states["w"]
        for a, b in zip(found, expected):
            np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


def test_two_bit_compression_keeps_the_rest_for_the_next_push():
    store = mx.kv.create("device")
    store.set_gradient_compression({"type": "2bit", "threshold": 0.5})
    store.init(0, nd.zeros((3,)))
    sums = []
    for _ in range(2):
        store.push(0, [nd.array([0.3, 0.7, -0.6])] * 2)
        out = nd.zeros((3,))
        store.pull(0, out=out)
        sums.append(out.asnumpy().tolist())
    assert sums == [[0, 1, -1], [1, 1, -1]]


def test_a_registered_class_is_found_by_its_name():
    @mx.kv.KVStoreBase.register
    class MyStore(mx.kv.KVStoreBase):
        pass

    assert isinstance(mx.kv.create("mystore"), MyStore)
    with pytest.warns(UserWarning, match="takes the place"):
        mx.kv.KVStoreBase.register(MyStore)
    del mx.kv.KVStoreBase.kv_registry["mystore"]


def test_the_test_store_sums_and_has_no_optimizer():
    store = mx.kv.create("teststore")
    arrays = devices()
    store.pushpull(0, arrays)
    assert all((a.asnumpy() == 6).all() for a in arrays)
    assert not store.is_capable("optimizer") and store.type == "teststore"
    with pytest.raises(NotImplementedError):
        store.set_optimizer(mx.optimizer.SGD())


BAD = {
    "KVStore.push: the key 'x' is not initialized": lambda kv: kv.push("x", nd.ones(2)),
    "the key 3 is a int, but the store began with str keys": lambda kv: kv.init(
        3, nd.ones(SHAPE)
    ),
    "the key 'a' is initialized already": lambda kv: kv.init("a", nd.ones(SHAPE)),
    "got 2 keys; expected a list of as many values": lambda kv: kv.push(
        ["a", "a"], [nd.ones(SHAPE)]
    ),
    "the value of 'a' holds a float": lambda kv: kv.push("a", [1.0]),
    r"the value of 'a' has shape \(3,\); \(2, 3\) was expected": lambda kv: kv.push(
        "a", nd.ones((3,))
    ),
    "out is missing": lambda kv: kv.pull("a"),
    "a store of type 'local' does not compress": lambda kv: kv.set_gradient_compression(
        {"type": "2bit"}
    ),
    r"set_optimizer\(\) was not called": lambda kv: kv.save_optimizer_states("x"),
    "unknown capability 'magic'": lambda kv: kv.is_capable("magic"),
    "unknown type 'nowhere'; expected one of local": lambda kv: mx.kv.create("nowhere"),
    "'nccl' joins GPUs": lambda kv: mx.kv.create("nccl"),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_calls_say_what_is_wrong(text):
    store = mx.kv.create()
    store.init("a", nd.zeros(SHAPE))
    with pytest.raises(mx.MXNetError, match=text):
        BAD[text](store)
    assert (pulled(store, "a") == 0).all()
