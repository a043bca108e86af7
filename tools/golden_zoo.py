"""Fingerprints of the model zoo: what MXNet 1.9.1 gives for seeded weights, in little.

usage: python tools/golden_zoo.py OUT.npz SYMBOLS      makes
       python tools/golden_zoo.py --check FILE.npz     compares, and prints differences
       python tools/golden_zoo.py --names OUT.tsv      names of parameters, as checksums

With an interpreter that has MXNet 1.9.1 it makes tests/golden/mxnet-1.9.1-zoo.npz, with
python/alias on PYTHONPATH it compares Plait's. SYMBOLS is a folder that
tools/export_models.py filled with the networks that MXNet's zoo lacks (--classes 10).

Weights and images follow from their names by NumPy's generator, so that no weights are
stored. A run goes forward and backward from two images, without dropout. Of the output,
the gradient of the images and that of each parameter, two projections on random signs
are kept, and the root of the mean square, so 12 bytes each. In the mode `fixed`, batch
normalization takes its running statistics. `batch` takes those of the batch, and keeps
the running ones that follow; it computes in float64, since few numbers make these
statistics, and depth amplifies rounding.
"""

import json
import sys
import zlib
from pathlib import Path

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon.model_zoo import vision

CLASSES = 10
DIRECTIONS = 2

# The height and width of the images: small, as far as the last pooling lets them be.
SIZES = {"alexnet": 64, "googlenet": 64, "inception_bn": 64, "inceptionv3": 299}
SIZES.update({"squeezenet1.0": 224, "squeezenet1.1": 224})
SIZES.update({"densenet%d" % n: 224 for n in (121, 161, 169, 201)})
for _n in (11, 13, 16, 19):
    SIZES.update({"vgg%d" % _n: 32, "vgg%d_bn" % _n: 32})
for _n in (18, 34, 50, 101, 152):
    SIZES.update({"resnet%d_v1" % _n: 64, "resnet%d_v2" % _n: 64})
for _n in ("1.0", "0.75", "0.5", "0.25"):
    SIZES.update({"mobilenet" + _n: 64, "mobilenetv2_" + _n: 64})
EXTRA = ["googlenet", "inception_bn"]
EXTRA += ["resnext50_32x4d", "resnext101_32x4d", "resnext101_64x4d"]
SIZES.update({name: 64 for name in EXTRA})

BATCH = ["resnet18_v1", "resnet34_v1", "resnet50_v1", "resnet18_v2", "resnet50_v2"]
BATCH += ["mobilenet0.25", "mobilenet1.0", "mobilenetv2_0.25", "mobilenetv2_1.0"]
BATCH += ["vgg11_bn", "densenet121", "inceptionv3", "inception_bn", "resnext50_32x4d"]

CASES = [(name, "fixed") for name in sorted(SIZES)]
CASES += [(name, "batch") for name in sorted(BATCH)]


def numbers(name, shape):
    """Numbers of a tensor, of a size that suits its place."""
    random = np.random.RandomState(zlib.crc32(name.encode()))
    values = random.uniform(-1, 1, shape).astype("float32")
    if name.endswith(("gamma", "var")):
        return 1 + values / 2
    if len(shape) > 1 and name != "data":
        return values * np.float32(np.sqrt(3 / np.prod(shape[1:])))
    return values if name == "data" else values / 8


def fingerprint(name, array):
    """Projections on signs that follow from the name, and the size, per element."""
    flat = array.astype("float64").ravel()
    rows = []
    for k in range(DIRECTIONS):
        random = np.random.RandomState(zlib.crc32(b"%s %d" % (name.encode(), k)))
        bits = np.frombuffer(random.bytes(flat.size // 8 + 1), np.uint8)
        signs = np.unpackbits(bits, count=flat.size)
        rows.append((2 * flat[signs == 1].sum() - flat.sum()) / np.sqrt(flat.size))
    rows.append(np.sqrt(np.mean(flat * flat)))
    return np.array(rows, "float32")


def symbol_of(name, mode, folder):
    """The network's symbol, from a folder where the zoo does not have it."""
    if folder is None or name not in EXTRA:
        net = vision.get_model(name, classes=CLASSES, prefix="net_")
        text = net(mx.sym.var("data")).tojson()
    else:
        text = Path("%s/%s-symbol.json" % (folder, name)).read_text()
        text = text.replace('"%s_' % name, '"net_')
    graph = json.loads(text)
    for node in graph["nodes"]:
        if node["op"] == "Dropout":
            node["attrs"]["p"] = "0"
        elif node["op"] == "null":
            node.get("attrs", {}).pop("__dtype__", None)
        elif node["op"] == "BatchNorm" and mode == "fixed":
            node["attrs"]["use_global_stats"] = "True"
    return mx.sym.load_json(json.dumps(graph))


def weighted(symbol, shape, dtype):
    """The network with its numbers, and its parameters by names without prefix."""
    net = gluon.SymbolBlock(symbol, mx.sym.var("data", dtype=dtype))
    shapes, _, states = symbol.infer_shape(data=shape)
    known = dict(zip(symbol.list_arguments(), shapes))
    known.update(zip(symbol.list_auxiliary_states(), states))
    params = {}
    for key, param in net.collect_params().items():
        param.shape = known[key]
        short = key[len("net_") :]
        params[short] = param
        param.initialize(mx.init.Zero())
        param.set_data(mx.nd.array(numbers(short, known[key]), dtype=dtype))
    return net, params


def rows_of(name, mode, folder=None):
    """The fingerprint of a case: a row for each tensor, in the order of names."""
    shape = (2, 3, SIZES[name], SIZES[name])
    dtype = "float64" if mode == "batch" else "float32"
    net, params = weighted(symbol_of(name, mode, folder), shape, dtype)
    data = mx.nd.array(numbers("data", shape), dtype=dtype)
    data.attach_grad()
    with autograd.record():
        out = net(data)
        loss = (out * mx.nd.array(numbers("head", out.shape), dtype=dtype)).sum()
    loss.backward()
    tensors = {"": out, "data": data.grad}
    for key, param in params.items():
        if param.grad_req != "null":
            tensors[key] = param.grad()
        elif mode == "batch":
            tensors[key] = param.data()
    return np.stack([fingerprint(k, v.asnumpy()) for k, v in sorted(tensors.items())])


def names_of(name):
    """Of a network of the zoo: how many parameters, and checksums of their names with
    shapes and of their paths through the blocks, in order."""
    net = vision.get_model(name, classes=CLASSES, prefix="net_")
    params = net.collect_params()
    named = ["%s %s" % (key, tuple(p.shape)) for key, p in params.items()]
    texts = [named, list(net._collect_params_with_prefix())]
    return [len(named)] + [zlib.crc32("\n".join(lines).encode()) for lines in texts]


def differences(found, expected, mode):
    """Of each tensor, the largest difference of projections and sizes, as a part of the
    size. Biases before statistics of the batch have gradients of nothing but rounding.
    """
    if found.shape != expected.shape:
        return np.array([np.inf])
    size = np.maximum(expected[:, -1:], 1e-6 if mode == "batch" else 1e-12)
    return (np.abs(found.astype("float64") - expected) / size).max(axis=1)


def main():
    if sys.argv[1] == "--names":
        lines = [
            "\t".join([name, *map(str, names_of(name))])
            for name in sorted(set(SIZES) - set(EXTRA))
        ]
        Path(sys.argv[2]).write_text("\n".join(lines) + "\n")
        return
    if sys.argv[1] == "--check":
        golden = np.load(sys.argv[2])
        for name, mode in CASES:
            found = rows_of(name, mode)
            expected = golden["%s/%s" % (name, mode)]
            print(
                "%-20s %-8s %.1e"
                % (name, mode, differences(found, expected, mode).max())
            )
        return
    arrays = {}
    for name, mode in CASES:
        rows = arrays["%s/%s" % (name, mode)] = rows_of(name, mode, sys.argv[2])
        assert np.isfinite(rows).all(), name
        print(name, mode, rows.shape, rows[:, 2].min(), rows[:, 2].max(), flush=True)
    np.savez_compressed(Path(sys.argv[1]), **arrays)


if __name__ == "__main__":
    main()
