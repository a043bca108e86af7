"""Checkpoints of Modules between MXNet and Plait: makes them, or checks the other's.

usage: python tools/golden_module.py OUT.npz            makes
       python tools/golden_module.py --check FILE.npz   loads, and compares

With an interpreter that has MXNet 1.9.1 it makes tests/golden/mxnet-1.9.1-module.npz;
with python/alias on PYTHONPATH it does the same in Plait, for MXNet to check. For each
case: the three files of a checkpoint after two updates, the outputs of a batch then,
and the outputs and parameters after one more update with the loaded states.
"""

import sys
import tempfile
from pathlib import Path

import mxnet as mx
import numpy as np

PLAIT = "plait" in sys.modules


def mlp():
    x = mx.sym.Variable("data")
    x = mx.sym.FullyConnected(x, num_hidden=6, name="fc1")
    x = mx.sym.Activation(x, act_type="tanh", name="act1")
    x = mx.sym.FullyConnected(x, num_hidden=3, name="fc2", lr_mult="0.5")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def convnet():
    x = mx.sym.Variable("data")
    x = mx.sym.Convolution(x, kernel=(3, 3), num_filter=4, no_bias=True, name="conv")
    x = mx.sym.BatchNorm(x, fix_gamma=False, name="bn")
    x = mx.sym.Activation(x, act_type="relu")
    x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=3, name="fc")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def lstm():
    cell = mx.rnn.LSTMCell(4, prefix="lstm_")
    outputs, _ = cell.unroll(3, mx.sym.Variable("data"), merge_outputs=True)
    x = mx.sym.Reshape(outputs, shape=(-1, 4))
    x = mx.sym.FullyConnected(x, num_hidden=3, name="fc")
    label = mx.sym.Reshape(mx.sym.Variable("softmax_label"), shape=(-1,))
    return mx.sym.SoftmaxOutput(x, label, name="softmax")


# name: (symbol, shape of data, shape of label, optimizer, its parameters)
CASES = {
    "mlp": (mlp, (4, 5), (4,), "sgd", {"learning_rate": 0.1, "momentum": 0.9}),
    "convnet": (convnet, (4, 2, 6, 6), (4,), "adam", {"learning_rate": 0.05}),
    "lstm": (lstm, (4, 3, 2), (4, 3), "rmsprop", {"centered": True, "wd": 0.01}),
}


def step(module, batch):
    module.forward(batch, is_train=True)
    module.backward()
    # MXNet's BatchNorm changes its moving statistics there, unknown to the engine.
    mx.nd.waitall()
    module.update()


def record(name, arrays):
    build, data_shape, label_shape, optimizer, params = CASES[name]
    data = np.random.uniform(-1, 1, data_shape).astype("float32")
    label = np.random.randint(0, 3, label_shape).astype("float32")
    batch = mx.io.DataBatch([mx.nd.array(data)], [mx.nd.array(label)])
    module = mx.mod.Module(build())
    module.bind([("data", data_shape)], [("softmax_label", label_shape)])
    module.init_params(mx.init.Uniform(0.5))
    module.init_optimizer(optimizer=optimizer, optimizer_params=params)
    step(module, batch)
    step(module, batch)
    with tempfile.TemporaryDirectory() as folder:
        prefix = folder + "/golden"
        more = {"states_format": "mxnet"} if PLAIT else {}
        module.save_checkpoint(prefix, 1, save_optimizer_states=True, **more)
        for part in ("symbol.json", "0001.params", "0001.states"):
            content = Path("%s-%s" % (prefix, part)).read_bytes()
            arrays["%s/%s" % (name, part)] = np.frombuffer(content, np.uint8)
    arrays[name + "/data"], arrays[name + "/label"] = data, label
    module.forward(batch, is_train=False)
    arrays[name + "/outputs"] = module.get_outputs()[0].asnumpy()
    # Counts of updates are not in the file; one who loads it starts them again.
    module._optimizer._all_index_update_counts[0].clear()
    module._optimizer.num_update = 0
    step(module, batch)
    module.forward(batch, is_train=False)
    arrays[name + "/outputs_after"] = module.get_outputs()[0].asnumpy()
    for key, value in module.get_params()[0].items():
        arrays["%s/after/%s" % (name, key)] = value.asnumpy()


def check(name, arrays):
    """The largest differences of the outputs before and after one more update."""
    _, data_shape, label_shape, optimizer, params = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        prefix = folder + "/golden"
        for part in ("symbol.json", "0001.params", "0001.states"):
            content = arrays["%s/%s" % (name, part)].tobytes()
            Path("%s-%s" % (prefix, part)).write_bytes(content)
        module = mx.mod.Module.load(prefix, 1, load_optimizer_states=True)
        module.bind([("data", data_shape)], [("softmax_label", label_shape)])
        module.init_optimizer(optimizer=optimizer, optimizer_params=params)
    batch = mx.io.DataBatch(
        *([mx.nd.array(arrays["%s/%s" % (name, kind)])] for kind in ("data", "label"))
    )
    differences = []
    for which in ("outputs", "outputs_after"):
        module.forward(batch, is_train=False)
        found = module.get_outputs()[0].asnumpy()
        differences.append(np.abs(found - arrays["%s/%s" % (name, which)]).max())
        step(module, batch)
    return differences


def main():
    if sys.argv[1] == "--check":
        arrays = np.load(sys.argv[2])
        worst = {name: check(name, arrays) for name in CASES}
        for name, differences in worst.items():
            print("%-8s %.1e %.1e" % (name, *differences))
        sys.exit(any(max(d) > 1e-4 for d in worst.values()))
    np.random.seed(3)
    mx.random.seed(3)
    arrays = {}
    for name in CASES:
        record(name, arrays)
    np.savez_compressed(sys.argv[1], **arrays)


if __name__ == "__main__":
    main()
