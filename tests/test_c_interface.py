"""Networks that Python exported give the same outputs in a C program."""

import ctypes
import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import plait as mx
from plait.gluon import nn

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(mx.__file__).absolute().parents[2] / "c_test"

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="the C tests are built beside the package only"
)


def network():
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(8, kernel_size=3, padding=1, activation="relu"),
        nn.BatchNorm(),
        nn.MaxPool2D(),
        nn.Dropout(0.5),
        nn.Dense(16, activation="tanh"),
        nn.Dense(5),
    )
    return net


def predict(folder, prefix, x):
    """The output of PREFIX-symbol.json and PREFIX-0000.params for x, from C."""
    x.tofile(folder / "input")
    done = subprocess.run(
        [PROGRAM, "predict", f"{prefix}-symbol.json", f"{prefix}-0000.params",
         folder / "input", folder / "output", *map(str, x.shape)],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return np.fromfile(folder / "output", "float32")


def test_an_exported_network_gives_the_same_outputs_in_c(tmp_path):
    mx.random.seed(1)
    net = network()
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x = np.random.default_rng(1).standard_normal((4, 3, 12, 12)).astype("float32")
    with mx.autograd.record():  # moves the averages of BatchNorm
        net(mx.nd.array(x))
    expected = net(mx.nd.array(x)).asnumpy()
    net.export(str(tmp_path / "net"))
    output = predict(tmp_path, tmp_path / "net", x).reshape(expected.shape)
    np.testing.assert_array_equal(output, expected)


def test_a_module_checkpoint_gives_the_same_outputs_in_c(tmp_path):
    x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(x, name="softmax"))
    module.bind([("data", (2, 4))], [("softmax_label", (2,))])
    module.init_params(mx.init.Xavier())
    module.save_checkpoint(str(tmp_path / "m"), 0)
    x = np.arange(8, dtype="float32").reshape(2, 4)
    batch = mx.io.DataBatch([mx.nd.array(x)], [mx.nd.zeros(2)])
    module.forward(batch, is_train=False)
    output = predict(tmp_path, tmp_path / "m", x).reshape(2, 3)
    np.testing.assert_array_equal(output, module.get_outputs()[0].asnumpy())


def test_a_network_without_its_parameters_is_refused(tmp_path):
    net = network()
    net.initialize()
    net.hybridize()
    net(mx.nd.zeros((1, 3, 12, 12)))
    net.export(str(tmp_path / "net"))
    params = mx.nd.load(str(tmp_path / "net-0000.params"))
    gone = next(name for name in params if name.endswith("weight"))
    del params[gone]
    mx.nd.save(str(tmp_path / "net-0000.params"), params)
    x = np.zeros((1, 3, 12, 12), "float32")
    with pytest.raises(AssertionError) as error:
        predict(tmp_path, tmp_path / "net", x)
    assert f"no array for {gone.removeprefix('arg:')}" in str(error.value)


def test_every_operator_is_described_for_generators():  # B10
    library = ctypes.CDLL(PROGRAM.parent / "libplait.so")
    count, text = ctypes.c_int(), ctypes.c_char_p()
    assert library.plait_operator_count(ctypes.byref(count)) == 0
    kinds = re.compile(r"(tuple of )?(bool|int|float|str|dtype)( or None)?|\{[^{}]+\}")
    seen = set()
    for i in range(count.value):
        assert library.plait_operator_describe(i, ctypes.byref(text)) == 0
        op = json.loads(text.value)
        info = mx._plait.op_info(op["name"])
        assert [p["name"] for p in op["inputs"]] == [p[0] for p in info["inputs"]]
        assert all(y["name"] for y in op["outputs"]) and op["doc"], op["name"]
        for p, own in zip(op["params"], info["params"], strict=True):
            assert (p["name"], p["type"], p["required"]) == own[:3]
            assert kinds.fullmatch(p["type"]), (op["name"], p)
            assert (p["default"] is None) == p["required"]
            assert p["doc"], (op["name"], p["name"])
        seen |= {op["name"], *op["aliases"]}
    assert set(mx._plait.op_names()) <= seen
    assert {"Convolution", "broadcast_add", "RNN"} <= seen


def test_the_interface_is_small_and_all_of_it_is_tested():
    header = (ROOT / "include/plait/plait.h").read_text()
    functions = re.findall(r"^PLAIT_API [^;]*?(plait_\w+)\(", header, re.M)
    assert len(functions) == header.count("\nPLAIT_API ") <= 80
    for name in functions:
        assert not re.search(r"(ex|64|\d)$", name), name
    tests = "".join(p.read_text() for p in (ROOT / "tests/capi").glob("*.c"))
    assert [f for f in functions if f"{f}(" not in tests] == []
