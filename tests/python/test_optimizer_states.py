"""Saved optimizer states: round trips, damaged and hostile files, MXNet's pickles."""

import io
import pickle
import struct
import sys
import types

import numpy as np
import pytest

import plait as mx
from plait import nd
from plait.optimizer import state_file


def round_trip(states, optimizer=None):
    return state_file.loads(state_file.dumps(states, optimizer))


def test_nested_values_come_back():
    states = {
        0: (nd.array([1.0, 2.0]), None),
        "name": [nd.ones((2, 3), dtype="int64"), 1.5, "text", True],
        (1, 2): {"x": np.arange(3), 4: np.float32(0.5)},
        3: nd.ones((2,), dtype="float16"),
    }
    back, optimizer = round_trip(states)
    assert optimizer is None and list(back) == [0, "name", (1, 2), 3]
    assert back[0][0].asnumpy().tolist() == [1, 2] and back[0][1] is None
    assert back["name"][0].dtype == np.int64 and back["name"][1:] == [1.5, "text", True]
    assert back[(1, 2)]["x"].tolist() == [0, 1, 2] and back[(1, 2)][4] == 0.5
    assert back[3].dtype == np.float16


def test_an_empty_file_round_trips():
    assert round_trip({}) == ({}, None)


def test_the_optimizer_comes_back_with_its_schedule():
    schedule = mx.lr_scheduler.MultiFactorScheduler([3, 7], 0.5, base_lr=2.0)
    optimizer = mx.optimizer.SGD(
        momentum=0.9, wd=0.1, lr_scheduler=schedule, param_idx2name={0: "a_weight"}
    )
    optimizer._update_count([0, 0, 0, 0])
    schedule(4)
    _, back = round_trip({}, optimizer)
    assert type(back) is mx.optimizer.SGD and back.momentum == 0.9
    assert back.idx2name == {0: "a_weight"} and back.num_update == 4
    assert back._index_update_count is back._all_index_update_counts[0]
    assert back.lr_scheduler.step == [3, 7] and back.lr_scheduler.base_lr == 1.0
    assert back.param_dict == {}


def test_the_file_is_plain_safetensors():
    data = state_file.dumps({0: nd.array([[1.0, 2.0]])})
    import json

    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + length])
    assert header["0"] == {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}
    assert data[8 + length :] == struct.pack("<2f", 1, 2)


def test_what_cannot_be_saved_says_so():
    with pytest.raises(ValueError, match="a function cannot be saved"):
        state_file.dumps({0: test_an_empty_file_round_trips})


def test_damaged_files_are_errors_and_never_crash():
    good = state_file.dumps(
        {0: nd.ones((3, 4)), 1: (nd.ones((2,)), None)}, mx.optimizer.Adam()
    )
    rng = np.random.RandomState(0)
    for length in range(0, len(good), 7):
        with pytest.raises(mx.MXNetError):
            state_file.loads(good[:length])
    for _ in range(300):
        bad = bytearray(good)
        for place in rng.randint(0, len(bad), 4):
            bad[place] = rng.randint(0, 256)
        try:
            state_file.loads(bytes(bad))
        except mx.MXNetError:
            pass


def test_offsets_outside_the_file_are_refused():
    import json

    header = {
        "__metadata__": {
            "format": "plait-optimizer-1",
            "states": '["dict", [[0, ["array", 0]]]]',
        },
        "0": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]},
    }
    text = json.dumps(header).encode()
    with pytest.raises(ValueError, match="outside the file"):
        state_file.loads(struct.pack("<Q", len(text)) + text)
    with pytest.raises(ValueError, match="expected bytes"):
        state_file.loads("text")


class Boom:
    """Its pickle would call a function."""

    called = []

    def __reduce__(self):
        return Boom.called.append, (1,)


def test_hostile_pickles_are_refused_before_anything_runs():
    for payload in (Boom(), {0: Boom()}, print, np.load):
        with pytest.raises(ValueError, match="not allowed"):
            state_file.loads(pickle.dumps(payload))
    assert Boom.called == []
    by_hand = b"cos\nsystem\n(S'echo hacked'\ntR."
    with pytest.raises(ValueError, match="not allowed"):
        state_file.loads(by_hand)


def mxnet_pickle(states, optimizer_class=None, protocol=4):
    """What MXNet 1.9.1 would write: its class names, and arrays as records."""

    def module(name):
        parts = name.split(".")
        for i in range(1, len(parts) + 1):
            made.setdefault(".".join(parts[:i]), types.ModuleType(".".join(parts[:i])))
        return made[name]

    made = {}
    array_module = module("mxnet.ndarray.ndarray")
    optimizer_module = module("mxnet.optimizer.optimizer")

    class NDArray:
        def __init__(self, handle):
            self.record = handle

        def __reduce__(self):
            return NDArray, (None,), {"handle": self.record}

    class SGD:
        pass

    for klass, home in ((NDArray, array_module), (SGD, optimizer_module)):
        klass.__module__, klass.__qualname__ = home.__name__, klass.__name__
        setattr(home, klass.__name__, klass)

    def record(values):
        values = np.asarray(values, "float32")
        shape = struct.pack("<i%dq" % values.ndim, values.ndim, *values.shape)
        head = struct.pack("<Ii", 0xF993FAC9, 0)
        return NDArray(head + shape + struct.pack("<iii", 1, 0, 0) + values.tobytes())

    content = {k: record(v) if v is not None else None for k, v in states.items()}
    if optimizer_class:
        optimizer = SGD()
        optimizer.__dict__.update(optimizer_class)
        content = (content, optimizer)
    kept = {name: sys.modules.get(name) for name in made}
    sys.modules.update(made)
    try:
        out = io.BytesIO()
        pickle.Pickler(out, protocol).dump(content)
        return out.getvalue()
    finally:
        for name, value in kept.items():
            if value is None:
                del sys.modules[name]
            else:
                sys.modules[name] = value


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_mxnets_own_pickles_are_read(protocol):
    data = mxnet_pickle({0: [[1.0, 2.0]], "b": None}, protocol=protocol)
    states, optimizer = state_file.loads(data)
    assert optimizer is None and states["b"] is None
    assert states[0].asnumpy().tolist() == [[1, 2]]
    attributes = dict(vars(mx.optimizer.SGD(momentum=0.5)), lr=0.25)
    del attributes["param_dict"]
    states, optimizer = state_file.loads(mxnet_pickle({0: [1.0]}, attributes, protocol))
    assert type(optimizer) is mx.optimizer.SGD
    assert optimizer.lr == 0.25 and optimizer.momentum == 0.5
    updater = mx.optimizer.get_updater(mx.optimizer.SGD())
    updater.set_states(mxnet_pickle({0: [1.0]}, attributes, protocol))
    weight = nd.array([1.0])
    updater(0, nd.array([0.0]), weight)
    assert weight.asscalar() == 1.5  # momentum 0.5 times the loaded 1.0


def test_optimizers_can_be_pickled():
    optimizer = mx.optimizer.Adam(learning_rate=0.5, beta1=0.7)
    optimizer._update_count(3)
    back = pickle.loads(pickle.dumps(optimizer))
    assert back.beta1 == 0.7 and back._index_update_count == {3: 1}
    back._update_count(3)
    assert back._all_index_update_counts == {0: {3: 2}}
