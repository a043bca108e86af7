"""Models between MXNet and Plait: makes files of one, or checks those of the other.

usage: python tools/golden_models.py OUT.npz            makes
       python tools/golden_models.py --check FILE.npz   loads, and compares

With an interpreter that has MXNet 1.9.1 it makes tests/golden/mxnet-1.9.1-models.npz;
with python/alias on PYTHONPATH it does the same in Plait, for MXNet to check. For each
case: the symbol's JSON, what it gives for prediction, and the .params file of the
small ones. Weights of the others follow from their names, so that nobody stores them.
`operators` holds the JSON of every operator's samples in mxnet-1.9.1.npz, `old` what
the files of old versions in old-symbols.json become.
"""

import json
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import mxnet as mx
import numpy as np
from mxnet.gluon import nn, rnn
from mxnet.gluon.model_zoo import vision

OLD = Path(__file__).parent.parent / "tests" / "golden" / "old-symbols.json"
SAMPLES = Path(__file__).parent.parent / "tests" / "golden" / "mxnet-1.9.1.npz"


# ------------------------------------------------- numbers that follow from names


def numbers(name, shape):
    """Coarse numbers, which compress well, of a size that suits their place."""
    random = np.random.RandomState(zlib.crc32(name.encode()))
    values = random.randint(-15, 16, shape).astype("float32") / 16
    if name.endswith(("gamma", "var")):
        return 1 + values / 2
    if len(shape) > 1 and name != "data":
        return values * np.float32(2 / np.sqrt(np.prod(shape[1:])))
    return values if name == "data" else values / 8


# ------------------------------------------------- the model zoo


def zoo(make, size, until=None):
    """A network of the zoo and the shape of its data. `until`: the operator whose last
    output counts, where the rest needs large images."""

    def build():
        net = make(classes=4, prefix="net_")
        out = net(mx.sym.var("data"))
        if until:
            names = out.get_internals().list_outputs()
            last = [n for n in names if until in n and n.endswith("_output")][-1]
            out = out.get_internals()[last]
        return out, (1, 3, size, size)

    return build


ZOO = {
    "alexnet": zoo(vision.alexnet, 64),
    "densenet121": zoo(vision.densenet121, 32, until="conv"),
    "inception_v3": zoo(vision.inception_v3, 80, until="concat"),
    "mobilenet0_25": zoo(vision.mobilenet0_25, 32),
    "mobilenet_v2_0_25": zoo(vision.mobilenet_v2_0_25, 32),
    "resnet18_v1": zoo(vision.resnet18_v1, 32),
    "resnet18_v2": zoo(vision.resnet18_v2, 32),
    "squeezenet1_1": zoo(vision.squeezenet1_1, 48, until="concat"),
    "vgg11": zoo(vision.vgg11, 32),
    "vgg11_bn": zoo(vision.vgg11_bn, 32),
}
STORED = ("mobilenet0_25", "squeezenet1_1")  # with their .params


def zoo_arrays(symbol, shape):
    """(arguments, auxiliary states) by name; data among the arguments."""
    shapes, _, aux_shapes = symbol.infer_shape(data=shape)
    args = dict(zip(symbol.list_arguments(), shapes))
    aux = dict(zip(symbol.list_auxiliary_states(), aux_shapes))
    return tuple(
        {n: mx.nd.array(numbers(n, s)) for n, s in which.items()}
        for which in (args, aux)
    )


def run(symbol, args, aux):
    executor = symbol.bind(mx.cpu(), args, aux_states=aux, grad_req="null")
    return [y.asnumpy() for y in executor.forward(is_train=False)]


def params_file(args, aux):
    """The bytes of a .params file of these."""
    arrays = {"arg:" + n: a for n, a in args.items() if n != "data"}
    arrays.update({"aux:" + n: a for n, a in aux.items()})
    with tempfile.TemporaryDirectory() as folder:
        mx.nd.save(folder + "/it.params", arrays)
        return Path(folder + "/it.params").read_bytes()


def split(arrays):
    parts = {"arg": {}, "aux": {}}
    for name, array in arrays.items():
        kind, _, name = name.partition(":")
        parts[kind][name] = array
    return parts["arg"], parts["aux"]


# ------------------------------------------------- exported blocks


class Tagger(mx.gluon.HybridBlock):
    """Embedding, dropout, LSTM, batch normalization: two inputs, two outputs."""

    def __init__(self):
        super().__init__(prefix="tagger_")
        with self.name_scope():
            self.words = nn.Embedding(11, 6)
            self.drop = nn.Dropout(0.3)
            self.lstm = rnn.LSTM(5, num_layers=2, layout="NTC", bidirectional=True)
            self.norm = nn.BatchNorm(axis=-1)
            self.out = nn.Dense(3, flatten=False)

    def hybrid_forward(self, F, words, weights):
        x = self.drop(self.words(words))
        x = F.broadcast_mul(x, F.expand_dims(weights, axis=-1))
        x = self.norm(self.lstm(x))
        return self.out(x), F.softmax(F.mean(x, axis=-1))


def normalize(F, x):
    return F.L2Normalization(x, mode="instance")


def convnet():
    net = nn.HybridSequential(prefix="convnet_")
    with net.name_scope():
        net.add(nn.Conv2D(4, 3, padding=1, use_bias=False))
        net.add(nn.BatchNorm(), nn.LeakyReLU(0.1), nn.PReLU(), nn.MaxPool2D())
        net.add(nn.Conv2DTranspose(3, 2, strides=2, groups=1), nn.GELU())
        net.add(nn.InstanceNorm(), nn.LayerNorm(), nn.AvgPool2D(2, ceil_mode=True))
        net.add(nn.Flatten(), nn.Dense(5, activation="tanh"))
        net.add(nn.HybridLambda(normalize))
    return net


def gru_net():
    net = nn.HybridSequential(prefix="gru_")
    with net.name_scope():
        net.add(rnn.GRU(4, dropout=0.2), rnn.RNN(3, activation="relu"))
        net.add(nn.GroupNorm(1), nn.Swish(), nn.SELU())
    return net


# name: (block, inputs)
BLOCKS = {
    "tagger": (
        Tagger,
        [
            np.array([[1, 2, 3, 10], [0, 7, 5, 5]], "float32"),
            np.array([[1, 0.5, 1, 1], [1, 1, 2, 0]], "float32"),
        ],
    ),
    "convnet": (convnet, [numbers("data", (2, 3, 6, 6))]),
    "gru": (gru_net, [numbers("data", (3, 2, 5))]),
}


def record_block(name, arrays):
    build, inputs = BLOCKS[name]
    net = build()
    net.initialize(mx.init.Uniform(0.5))
    net.hybridize()
    data = [mx.nd.array(a) for a in inputs]
    for _ in range(2):  # moving statistics that are not the first ones
        with mx.autograd.record():
            net(*data)
    mx.nd.waitall()
    outputs = net(*data)
    with tempfile.TemporaryDirectory() as folder:
        net.export(folder + "/it", epoch=3)
        for part in ("symbol.json", "0003.params"):
            content = Path("%s/it-%s" % (folder, part)).read_bytes()
            arrays["%s/%s" % (name, part)] = np.frombuffer(content, np.uint8)
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    for i, y in enumerate(outputs):
        arrays["%s/out_%d" % (name, i)] = y.asnumpy()


def check_block(name, arrays):
    _, inputs = BLOCKS[name]
    count = len(inputs)
    names = ["data%d" % i for i in range(count)] if count > 1 else ["data"]
    with tempfile.TemporaryDirectory() as folder:
        for part in ("symbol.json", "0003.params"):
            content = arrays["%s/%s" % (name, part)].tobytes()
            Path("%s/it-%s" % (folder, part)).write_bytes(content)
        net = mx.gluon.SymbolBlock.imports(
            folder + "/it-symbol.json", names, folder + "/it-0003.params"
        )
    outputs = net(*[mx.nd.array(a) for a in inputs])
    return (
        [y.asnumpy() for y in outputs]
        if isinstance(outputs, list)
        else [outputs.asnumpy()]
    )


# ------------------------------------------------- attributes


def attributes():
    """Every kind of attribute that a file may hold."""
    data = mx.sym.Variable(
        "data", shape=(2, 3, 4, 4), dtype="float32", attr={"note": "a b"}
    )
    weight = mx.sym.Variable(
        "w",
        lr_mult=0.5,
        wd_mult=2,
        init=mx.init.Constant(0.25),
        shape=(4, 0, 3, 3),
        __force_mirroring__="True",
    )
    with mx.AttrScope(ctx_group="dev1", __mirror_stage__="2"):
        x = mx.sym.Convolution(
            data,
            weight,
            kernel=(3, 3),
            pad=(1, 1),
            num_filter=4,
            name="conv",
            lr_mult="3",
        )
        x = mx.sym.BatchNorm(x, name="bn", attr={"__odd__": 'say "x"\\\t\n'}, eps=1e-4)
    x = mx.sym.LeakyReLU(x, act_type="prelu", name="prelu")
    states = mx.sym.Variable("states", stype="default", __layout__="TNC")
    x = mx.sym.broadcast_add(x, mx.sym.slice_axis(states, axis=0, begin=0, end=None))
    parts = mx.sym.SliceChannel(x, num_outputs=2, axis=1, name="parts")
    x = parts[1] + 2 * parts[0] - 1
    x = mx.sym.FullyConnected(
        x, num_hidden=3, name="fc", attr={"__ctx_group__": "dev2"}
    )
    x = mx.sym.Cast(x, dtype="float64")
    return mx.sym.Group(
        [mx.sym.softmax(x, axis=-1, name="sm"), mx.sym.BlockGrad(parts[0])]
    )


def attribute_arrays(symbol):
    shapes, _, aux_shapes = symbol.infer_shape(states=(1, 1, 1, 1))
    args = {
        n: mx.nd.array(numbers(n, s)) for n, s in zip(symbol.list_arguments(), shapes)
    }
    aux = zip(symbol.list_auxiliary_states(), aux_shapes)
    return args, {n: mx.nd.array(numbers(n, s)) for n, s in aux}


# ------------------------------------------------- operators


def find(module, name):
    for prefix in ("_contrib_", "_linalg_", "_sparse_", "_image_"):
        if name.startswith(prefix):
            inner = getattr(module, prefix.strip("_"))
            return getattr(inner, name[len(prefix) :])
    return getattr(module._internal if name.startswith("_") else module, name)


def sample_json(op, params, count):
    """The JSON of one sample as a symbol, or None where there is no such function."""
    try:
        function = find(mx.sym, op)
        inputs = [mx.sym.var("x%d" % i) for i in range(count)]
        return function(*inputs, name="it", **params).tojson()
    except Exception as e:
        print(op, params, type(e).__name__, str(e).splitlines()[0][:90])
        return None


def samples():
    """(operator, parameters, number of inputs) of each."""
    arrays = np.load(SAMPLES)
    names = [row[0] for row in json.loads(str(arrays["index"]))]
    counts = Counter(n.split("_")[0] for n in names if "_in_" in n)
    meta = json.loads(str(arrays["meta"]))
    return [(e["op"], e["params"], counts[str(k)]) for k, e in enumerate(meta)]


# ------------------------------------------------- files of old versions


def upgraded(graph):
    """What a file of an old version becomes: its JSON now, and its names."""
    symbol = mx.sym.load_json(json.dumps(graph))
    names = symbol.list_arguments(), symbol.list_auxiliary_states()
    return [symbol.tojson(), *names, symbol.list_outputs(), symbol.attr_dict()]


# ------------------------------------------------- all of them


def text(string):
    return np.frombuffer(string.encode(), np.uint8)


def make(path):
    arrays = {}
    for name, build in ZOO.items():
        symbol, shape = build()
        args, aux = zoo_arrays(symbol, shape)
        arrays[name + "/symbol.json"] = text(symbol.tojson())
        if name in STORED:
            arrays[name + "/0000.params"] = np.frombuffer(
                params_file(args, aux), np.uint8
            )
        arrays[name + "/out_0"] = run(symbol, args, aux)[0]
    for name in BLOCKS:
        record_block(name, arrays)
    symbol = attributes()
    arrays["attributes/symbol.json"] = text(symbol.tojson())
    for i, y in enumerate(run(symbol, *attribute_arrays(symbol))):
        arrays["attributes/out_%d" % i] = y
    arrays["operators"] = text(json.dumps([[*s, sample_json(*s)] for s in samples()]))
    old = json.loads(OLD.read_text())
    arrays["old"] = text(json.dumps({name: upgraded(g) for name, g in old.items()}))
    np.savez_compressed(path, **arrays)


def outputs_of(name, arrays):
    """What the files of a case give here."""
    if name in BLOCKS:
        return check_block(name, arrays)
    symbol = mx.sym.load_json(arrays[name + "/symbol.json"].tobytes().decode())
    if name == "attributes":
        return run(symbol, *attribute_arrays(symbol))
    args, aux = zoo_arrays(symbol, ZOO[name]()[1])
    if name + "/0000.params" in arrays:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder + "/it.params")
            path.write_bytes(arrays[name + "/0000.params"].tobytes())
            data = args["data"]
            args, aux = split(mx.nd.load(str(path)))
            args["data"] = data
    return run(symbol, args, aux)


def cases(arrays):
    return [n.split("/")[0] for n in arrays if n.endswith("/symbol.json")]


def check(path):
    arrays = dict(np.load(path))
    bad = 0
    for name in cases(arrays):
        worst = 0.0
        for i, y in enumerate(outputs_of(name, arrays)):
            expected = arrays["%s/out_%d" % (name, i)]
            scale = np.abs(expected).max()
            worst = max(worst, np.abs(y - expected).max() / scale)
        print("%-18s %.1e" % (name, worst))
        bad += worst > 1e-4
    read = refused = 0
    for *_, source in json.loads(arrays["operators"].tobytes()):
        try:
            if source is not None:
                mx.sym.load_json(source)
                read += 1
        except Exception as e:
            refused += 1
            print("refused:", str(e).splitlines()[0][:200])
            print(source[:400])
    print("operators: %d samples read, %d refused" % (read, refused))
    return bad + refused


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        sys.exit(check(sys.argv[2]) > 0)
    mx.random.seed(5)
    make(sys.argv[1])
