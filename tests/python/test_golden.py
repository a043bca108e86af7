"""Operators against the real MXNet 1.9.1: what it gave for the samples, both ways.

tests/golden/mxnet-1.9.1.npz is made by tools/golden_samples.py and golden_mxnet.py;
tests/golden/differences.tsv lists the operators that differ on purpose, and why.
"""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from plait import _plait, autograd, nd

FOLDER = Path(__file__).parent.parent / "golden"


def unpacked(path):
    """The samples' descriptions, and their arrays by name."""
    with np.load(path) as file:
        flat = {name: file[name] for name in file.files if name.startswith("flat_")}
        arrays = {}
        for name, dtype, start, shape in json.loads(str(file["index"])):
            size = int(np.prod(shape, dtype=int))
            part = flat["flat_" + dtype][start : start + size]
            arrays[name] = part.reshape(shape)
        return json.loads(str(file["meta"])), arrays


META, GOLDEN = unpacked(FOLDER / "mxnet-1.9.1.npz")
KNOWN = set(_plait.op_names())

with open(FOLDER / "differences.tsv", newline="") as table:
    DIFFERENT = list(csv.DictReader(table, delimiter="\t", quoting=csv.QUOTE_NONE))


def difference(meta):
    """What differs on purpose ("all", "gradient") for a sample, or ""."""
    params = str(meta["params"])
    for row in DIFFERENT:
        if row["operator"] == meta["op"] and row["params"] in params:
            return row["what"]
    return ""


FILES = {}
for name in GOLDEN:
    entry, kind = name.split("_")[:2]
    FILES.setdefault((int(entry), kind), []).append(name)


def arrays_of(entry, kind):
    names = FILES.get((entry, kind), [])
    return {int(n.split("_")[2]): GOLDEN[n] for n in names}


def tolerance(dtype):
    return {"float16": 1e-2, "float64": 1e-6}.get(np.dtype(dtype).name, 3e-5)


def close(got, expected, what):
    got, expected = np.asarray(got), np.asarray(expected)
    assert got.shape == expected.shape, what
    assert got.dtype == expected.dtype, what
    rtol = tolerance(expected.dtype)
    # Pixels may be rounded to either side.
    atol = 1 if expected.dtype == np.uint8 else rtol
    np.testing.assert_allclose(
        got.astype("float64"), expected.astype("float64"), rtol, atol, err_msg=what
    )


def function_of(name):
    """The operator, or the function of plait.nd.contrib that stands for it."""
    if name in KNOWN:
        return _plait.op_function(name, name)
    return getattr(nd.contrib, name[len("_contrib_") :])


@pytest.mark.parametrize(
    "entry", range(len(META)), ids=[f"{k}-{e['op']}" for k, e in enumerate(META)]
)
def test_operator_gives_what_mxnet_gave(entry):
    meta = META[entry]
    what = difference(meta)
    if what == "all":
        pytest.skip("differs on purpose: see differences.tsv")
    function = function_of(meta["op"])
    inputs = arrays_of(entry, "in")
    arrays = [nd.array(inputs[i], dtype=inputs[i].dtype) for i in range(len(inputs))]
    grads = arrays_of(entry, "grad")
    for i in grads:
        arrays[i].attach_grad()
    with autograd.record(train_mode=meta["training"]):
        out = function(*arrays, **meta["params"])
    outs = out if isinstance(out, list) else [out]
    for i, expected in arrays_of(entry, "out").items():
        close(outs[i].asnumpy(), expected, f"output {i}")
    if not grads or what == "gradient":
        return
    heads = arrays_of(entry, "head")
    autograd.backward(
        outs,
        [nd.array(heads[i], dtype=y.dtype) for i, y in enumerate(outs)],
        train_mode=meta["training"],
    )
    for i, expected in grads.items():
        close(arrays[i].grad.asnumpy(), expected, f"gradient of input {i}")


def test_golden_data_covers_the_operators():
    assert len({e["op"] for e in META} & KNOWN) > 300
