#!/usr/bin/env python3
"""Runs samples through the real MXNet 1.9.1 and writes what it gives.

usage: PYTHON_WITH_MXNET tools/golden_mxnet.py SAMPLES.npz OUT.npz

Needs `pip install mxnet==1.9.1 numpy==1.23.5` in an environment of its own, and
nothing of Plait. Operators that MXNet does not have, or that refuse a sample, are left
out. They run in a child process, since a bad one may end it.
"""

import json
import multiprocessing
import sys

import numpy as np


def function_of(mx, name):
    places = (
        ("_contrib_", mx.nd.contrib),
        ("_linalg_", mx.nd.linalg),
        ("_sparse_", mx.nd.sparse),
        ("_image_", mx.nd.image),
    )
    for prefix, module in places:
        if name.startswith(prefix):
            return getattr(module, name[len(prefix) :])
    return getattr(mx.nd._internal if name.startswith("_") else mx.nd, name)


def targets(entry, arrays):
    """The weights that an update of several overwrites: MXNet asks for them."""
    name, params = entry["op"], entry["params"]
    if "multi_" not in name or not name.endswith("update"):
        return {}
    count = int(params.get("num_weights", params.get("num_tensors", 1)))
    extra = 2 if "preloaded" in name else int("adamw" in name)
    return {"out": arrays[: len(arrays) - extra : (len(arrays) - extra) // count]}


def run(job):
    """{"out_I": array, "grad_I": array} of one sample, or the error's text."""
    import mxnet as mx

    entry, inputs, heads = job
    try:
        function = function_of(mx, entry["op"])
    except AttributeError:
        return "absent"
    try:
        arrays = [mx.nd.array(a, dtype=a.dtype) for a in inputs]
        floats = [a.dtype in (np.float32, np.float64) for a in inputs]
        wanted = [f and g for f, g in zip(floats, entry["grads"])]
        for array, want in zip(arrays, wanted):
            if want:
                array.attach_grad()
        with mx.autograd.record(train_mode=entry["training"]):
            out = function(*arrays, **entry["params"], **targets(entry, arrays))
            outs = list(out) if isinstance(out, (list, tuple)) else [out]
        result = {"out_%d" % i: y.asnumpy() for i, y in enumerate(outs)}
    except Exception as e:
        return "refused: " + str(e).strip().splitlines()[-1][:200]
    if any(wanted):
        try:
            grads = [mx.nd.array(h, dtype=y.dtype) for h, y in zip(heads, outs)]
            mx.autograd.backward(outs, grads, train_mode=entry["training"])
            for i, (array, want) in enumerate(zip(arrays, wanted)):
                if want:
                    result["grad_%d" % i] = array.grad.asnumpy()
        except Exception as e:
            result["no_grad"] = np.array(str(e).strip().splitlines()[-1][:200])
    return result


def packed(store):
    """All arrays of a dtype one behind the other: a file of many would be larger."""
    parts, index, ends = {}, [], {}
    for name, array in store.items():
        array = np.asarray(array)
        dtype = array.dtype.name
        if array.dtype.kind == "U":  # why there is no gradient
            continue
        parts.setdefault(dtype, []).append(array.ravel())
        index.append([name, dtype, ends.get(dtype, 0), array.shape])
        ends[dtype] = ends.get(dtype, 0) + array.size
    flat = {"flat_" + dtype: np.concatenate(a) for dtype, a in parts.items()}
    return {"index": json.dumps(index), **flat}


def main():
    samples = np.load(sys.argv[1])
    meta = json.loads(str(samples["meta"]))
    jobs = []
    for k, entry in enumerate(meta):

        def listed(kind, k=k):
            arrays = []
            while "%d_%s_%d" % (k, kind, len(arrays)) in samples.files:
                arrays.append(samples["%d_%s_%d" % (k, kind, len(arrays))])
            return arrays

        jobs.append((entry, listed("in"), listed("head")))

    store, kept, pool = {}, [], None
    for k, job in enumerate(jobs):
        pool = pool or multiprocessing.Pool(1)
        try:
            result = pool.apply_async(run, (job,)).get(20)
        except multiprocessing.TimeoutError:
            result = "no answer"
            pool.terminate()
            pool = None
        if isinstance(result, str):
            print(meta[k]["op"], meta[k]["params"], result)
            continue
        entry = dict(meta[k])
        for i, a in enumerate(job[1]):
            store["%d_in_%d" % (len(kept), i)] = a
        for i, a in enumerate(job[2]):
            store["%d_head_%d" % (len(kept), i)] = a
        for name, a in result.items():
            store["%d_%s" % (len(kept), name)] = a
        kept.append(entry)
    np.savez_compressed(sys.argv[2], meta=json.dumps(kept), **packed(store))
    print(
        "%d of %d samples, %d operators"
        % (len(kept), len(meta), len({e["op"] for e in kept}))
    )


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
