"""What users of MXNet asked for, or suffered from: files of graphs and arrays."""

import json
import os
import pathlib
import pickle
import re
import struct

import numpy as np
import pytest

import plait as mx
from plait import gluon, nd


@pytest.mark.parametrize("key", ["attr", "attrs", "param"])
def test_graphs_of_every_generation_are_read(key, capfd):  # S1, S3
    nodes = [{"op": "null", "name": n, "inputs": []} for n in ("data", "w", "b")]
    layer = {"op": "FullyConnected", "name": "fc", "inputs": [[i, 0] for i in range(3)]}
    nodes.append({**layer, key: {"num_hidden": "4"}})
    graph = {"nodes": nodes, "arg_nodes": [0, 1, 2], "heads": [[3, 0]]}
    symbol = mx.sym.load_json(json.dumps(graph))
    assert symbol.infer_shape(data=(2, 3))[1] == [(2, 4)]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "text",
    [
        '{"nodes":[{"op":"%s","name":"x","inputs":[]}],"arg_nodes":[],"heads":[[0,0]]}'
        % ("a" * 2**20),
        "[" * 100_000 + "]" * 100_000,
        '{"nodes":' * 100_000,
    ],
    ids=["a name of 1 MB", "deep lists", "deep objects"],
)
def test_hostile_graphs_are_refused_shortly(text):  # S6
    with pytest.raises(ValueError) as caught:
        mx.sym.load_json(text)
    assert len(str(caught.value)) < 500


class Payload:
    """Its pickle makes a folder where it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def test_states_and_arrays_are_no_pickles(tmp_path):  # S7
    weight = gluon.Parameter("w", shape=(2,))
    weight.initialize()
    trainer = gluon.Trainer([weight], "adam")
    trainer.save_states(str(tmp_path / "states"))
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads((tmp_path / "states").read_bytes())
    made = tmp_path / "made"
    (tmp_path / "bad").write_bytes(pickle.dumps(Payload(str(made))))
    for load in (trainer.load_states, nd.load, mx.sym.load):
        with pytest.raises(mx.MXNetError):
            load(str(tmp_path / "bad"))
    assert not made.exists()


def test_nothing_of_the_network_or_a_file_is_unpickled():  # S7
    """But what processes of one program tell each other, and MXNet's optimizer states
    through a list of allowed names."""
    call = re.compile(r"pickle\s*\.\s*(load|loads|Unpickler)\b|from pickle import")
    package = pathlib.Path(mx.__file__).parent
    found = {p.name for p in package.rglob("*.py") if call.search(p.read_text())}
    assert found == {"multi_worker.py", "shared.py", "mxnet_pickle.py"}


def test_pickles_of_optimizer_states_make_nothing(tmp_path):  # S7
    made = tmp_path / "made"
    updater = mx.optimizer.get_updater(mx.optimizer.create("sgd"))
    for states in (Payload(str(made)), {0: Payload(str(made))}):
        with pytest.raises(mx.MXNetError):
            updater.set_states(pickle.dumps(states))
    assert not made.exists()


def test_plain_arrays_are_written_as_older_readers_expect(tmp_path):  # S10
    path = tmp_path / "a.params"
    nd.save(str(path), {"w": nd.array([[1, 2, 3]])})
    data = path.read_bytes()
    # The list, one array, their second version, dense, (1, 3), the cpu, float32.
    header = struct.unpack("<QQQIiiqqiii", data[:64])
    assert header == (0x112, 0, 1, 0xF993FAC9, 0, 2, 1, 3, 1, 0, 0)
    np.testing.assert_array_equal(np.frombuffer(data[64:76], "<f4"), [1, 2, 3])


def test_large_graphs_load_in_one_walk():  # S12
    """Time that grows with the square of the nodes would be minutes here."""
    x = mx.sym.var("x")
    for _ in range(50_000):
        x = x + 1
    loaded = mx.sym.load_json(x.tojson())
    assert loaded.list_arguments() == ["x"]
    assert loaded.eval(x=nd.zeros((1,)))[0].asscalar() == 50_000


def test_safetensors_files_round_trip(tmp_path):  # R7
    arrays = {"w": nd.array([[1.5, -2]]), "n": nd.array([2**40], dtype="int64")}
    nd.save(str(tmp_path / "a.safetensors"), arrays)
    loaded = nd.load(str(tmp_path / "a.safetensors"))
    assert sorted(loaded) == ["n", "w"]
    for name, x in arrays.items():
        assert loaded[name].dtype == x.dtype
        np.testing.assert_array_equal(loaded[name].asnumpy(), x.asnumpy())
