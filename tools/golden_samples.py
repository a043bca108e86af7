#!/usr/bin/env python3
"""Writes the operators' samples, with numbers, to a file that golden_mxnet.py reads.

usage: .venv/bin/python tools/golden_samples.py OUT.npz

One entry a sample of each operator that draws no random numbers: `meta` is JSON, a
list of {op, params, training, grads: [bool]}; arrays are named ENTRY_in_I and
ENTRY_head_I (head gradients, one for each visible output).
"""

import json
import sys
import zlib

import numpy as np

from plait import _plait, nd

SKIP = ("random", "sample", "shuffle")  # other numbers by design


def is_drawn(name, sample):
    """Whether the results depend on random numbers, or MXNet does not take the images.

    With equal bounds there is one factor only; batches of images are for others.
    """
    params = sample["params"]
    if name.startswith("_image_") and ("random" in name or "lighting" in name):
        fixed = params.get("min_factor", "?") == params.get("max_factor", "")
        fixed = fixed or name == "_image_adjust_lighting"
        return not fixed or len(sample["inputs"][0]["shape"]) == 4
    return "pdf" not in name and any(word in name for word in SKIP)


def numbers(spec, random):
    shape, low, high = spec["shape"], spec["low"], spec["high"]
    if spec["kind"] == "normal":
        values = random.standard_normal(shape)
    elif spec["kind"] == "uniform":
        values = random.uniform(low, high, shape)
    elif spec["kind"] == "integers":
        values = random.randint(int(low), int(high), shape)
    else:
        values = np.asarray(spec["values"]).reshape(shape)
    return np.asarray(values).astype(spec["dtype"])


def entries():
    for name in sorted({_plait.op_info(n)["name"] for n in _plait.op_names()}):
        if name.startswith("_backward"):
            continue
        for k, sample in enumerate(_plait.op_samples(name)):
            if is_drawn(name, sample):
                continue
            if any(x["dtype"] == "bfloat16" for x in sample["inputs"]):
                continue
            random = np.random.RandomState(zlib.crc32(f"{name}/{k}".encode()))
            yield name, sample, [numbers(x, random) for x in sample["inputs"]], random


def visible_shapes(name, sample, arrays):
    inputs = [nd.array(a, dtype=a.dtype) for a in arrays]
    out = _plait.op_function(name, name)(*inputs, **sample["params"])
    return [y.shape for y in (out if isinstance(out, list) else [out])]


def main():
    meta, store = [], {}
    for name, sample, arrays, random in entries():
        try:
            shapes = visible_shapes(name, sample, arrays)
        except Exception as e:
            print(f"{name}: {e}")
            continue
        key = len(meta)
        for i, a in enumerate(arrays):
            store[f"{key}_in_{i}"] = a
        for i, shape in enumerate(shapes):
            store[f"{key}_head_{i}"] = random.standard_normal(shape).astype("float32")
        meta.append(
            {
                "op": name,
                "params": sample["params"],
                "training": sample["training"],
                "grads": [x["differentiable"] for x in sample["inputs"]],
            }
        )
    np.savez_compressed(sys.argv[1], meta=json.dumps(meta), **store)
    print(f"{len(meta)} samples")


main()
