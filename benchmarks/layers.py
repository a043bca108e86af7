"""Where a network's time goes: for each node of its graph the time, the GFLOP/s and
their share of the roof, which is what a large product of matrices reaches.

usage: layers.py NETWORK BATCH train|predict [--picture FILE]

Convolutions count as many operations as they have when computed directly, so that those
by Winograd may be beyond the roof; products of few rows are bound by memory, far below
it. A node's gradients stand beside its name: dx, dweight.
"""

import argparse
import collections
import json
import math
import re
import tempfile
import time
from pathlib import Path

import net_gluon
import net_rows
from net_gluon import mx, nd

STEPS = 5
# Kind: the colour in the picture, and what the operators' names contain.
KINDS = {
    "convolution": ("tab:blue", ("convolution",)),
    "product": (
        "tab:green",
        ("fullyconnected", "fully_connected", "dot", "rnn", "attention"),
    ),
    "normalisation": ("tab:orange", ("norm",)),
    "pooling": ("tab:purple", ("pool",)),
    "the rest": ("tab:gray", ("",)),
}
# What prepares weights carries the name of the node that it prepares them for.
HELPERS = re.compile(r"^_pack|^_un?block$|^_reorder|^_block$")
GRADIENT = re.compile(r"^(_backward_\w+|dot|batch_dot)_(\d+)$")

Node = collections.namedtuple("Node", "op name flops first")
# share: of the whole step's time; flops: 0 where unknown.
Line = collections.namedtuple("Line", "name op seconds flops share")


def kind_of(op):
    op = op.lower()
    return next(k for k, (_, words) in KINDS.items() if any(w in op for w in words))


def flops_of(op, attrs, inputs, output):
    """Operations of a node by its shapes: a multiplication and an addition are two."""
    if op == "Convolution":
        return 2 * math.prod(output) * math.prod(inputs[1][1:])
    if op == "FullyConnected":
        return 2 * math.prod(output) * inputs[1][1]
    if op == "batch_dot":
        turned = attrs.get("transpose_a", "False") in ("True", "1", "true")
        return 2 * math.prod(output) * inputs[0][1 if turned else 2]
    if op == "RNN":  # nearly all parameters are matrices
        length, batch = inputs[0][:2]
        return 2 * length * batch * math.prod(inputs[1])
    return 0


def nodes_of(net, x):
    """The Nodes that count, in the order of the network; first: it reads the data."""
    symbol = net(mx.sym.var("data"))
    inside = symbol.get_internals()
    names = inside.list_outputs()
    shapes = dict(zip(names, inside.infer_shape(data=x.shape)[1]))
    nodes = json.loads(symbol.tojson())["nodes"]
    counted = ("Convolution", "FullyConnected", "batch_dot", "RNN", "BatchNorm")

    def shape(entry):
        node, index = nodes[entry[0]], entry[1]
        if node["op"] == "null":
            return shapes[node["name"]]
        several = f"{node['name']}_output{index}"
        return shapes.get(several) or shapes.get(f"{node['name']}_output")

    for i, node in enumerate(nodes):
        if node["op"] not in counted:
            continue
        inputs = [shape(e) for e in node["inputs"]]
        output = shape([i, 0]) or ()
        flops = flops_of(node["op"], node.get("attrs", {}), inputs, output)
        first = nodes[node["inputs"][0][0]]["name"] == "data"
        yield Node(node["op"], node["name"], flops, first)


def profiled(step):
    """[(operator, layer, seconds)] of one step, the mean of some, in order of time."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "profile.json"
        mx.profiler.set_config(profile_all=True, filename=str(file))
        mx.profiler.set_state("run")
        for _ in range(STEPS):
            step()
        mx.profiler.set_state("stop")
        mx.profiler.dump()
        events = json.loads(file.read_text())["traceEvents"]
    total = {}
    # A graph is an event around those of its nodes.
    wanted = (e for e in events if e.get("cat") == "operator" and e["name"] != "graph")
    for event in sorted(wanted, key=lambda e: e["ts"]):
        key = event["name"], (event.get("args") or {}).get("layer", "")
        total[key] = total.get(key, 0) + event["dur"] * 1e-6 / STEPS
    return [(op, layer, seconds) for (op, layer), seconds in total.items()]


def gradients(events, nodes):
    """{name of a gradient's node: (the Node it belongs to, what it is)}.

    Gradients are numbered as they are made, from the last node to the first one. Where
    their count is not the one expected nothing is known.
    """
    found = collections.defaultdict(dict)
    for _, layer, _ in events:
        for part in layer.split("+"):
            if match := GRADIENT.match(part):
                found[match[1]][int(match[2])] = part
    back = nodes[::-1]
    convs = [n for n in back if n.op == "Convolution"]
    rnns = [n for n in back if n.op == "RNN"]
    expected = {
        "_backward_Convolution_weight": [(n, "weight") for n in convs],
        "_backward_Convolution_data": [(n, "x") for n in convs if not n.first],
        "_backward_RNN": [(n, "all") for n in rnns],
        "_backward_Normalize": [(n, "x") for n in back if n.op == "BatchNorm"],
    }
    for kind, op in (("dot", "FullyConnected"), ("batch_dot", "batch_dot")):
        same = [n for n in back if n.op == op]
        expected[kind] = [(n, "any") for n in same for _ in range(1 if n.first else 2)]
    out = {}
    for kind, pairs in expected.items():
        if len(pairs) == len(found[kind]):
            out |= {found[kind][i]: p for i, p in zip(sorted(found[kind]), pairs)}
    return out


def report(network, batch, training):
    """The Lines of a step in order of time, and the seconds of a step."""
    net, x, labels = net_gluon.load(network, batch)
    if training:
        step = net_gluon.trainer_step(net, network, x, labels)
    else:

        def step():
            net(x).wait_to_read()

    step()
    start = time.perf_counter()
    for _ in range(STEPS):
        step()
    seconds = (time.perf_counter() - start) / STEPS
    events, nodes = profiled(step), list(nodes_of(net, x))
    by_name = {n.name: n for n in nodes}
    back = gradients(events, nodes)
    total = sum(s for _, _, s in events)
    lines = []
    for op, layer, spent in events:
        parts = layer.split("+")
        flops = 0
        if not HELPERS.match(op):
            flops = sum(by_name[p].flops for p in parts if p in by_name)
            for node, what in (back[p] for p in parts if p in back):
                flops += node.flops * (2 if what == "all" else 1)
        named = [f"{back[p][0].name} d{back[p][1]}" if p in back else p for p in parts]
        name = shorter(named, net.prefix)
        lines.append(Line(name or op, op, spent, flops, spent / total))
    return lines, seconds


def shorter(parts, prefix):
    """Names joined, without what all of them begin with and the usual ends."""
    parts = [p.removeprefix(prefix).replace("_fwd", "") for p in parts]
    return "+".join(parts) if len(parts) < 4 else f"{parts[0]}+...+{parts[-1]}"


def roof():
    """GFLOP/s of a product of matrices of 2048 x 2048."""
    x = nd.random.normal(shape=(2048, 2048))
    best = math.inf
    for _ in range(6):
        start = time.perf_counter()
        nd.dot(x, x).wait_to_read()
        best = min(best, time.perf_counter() - start)
    return 2 * 2048**3 / best / 1e9


def show(lines, seconds, top):
    print(f"{'node':44s}{'operator':32s}{'ms':>8s}{'time':>7s}{'GFLOP/s':>9s}  roof")
    for line in lines:
        text = f"{line.name[:43]:44s}{line.op[:31]:32s}{1e3 * line.seconds:8.3f}"
        text += f"{line.share:7.1%}"
        if line.flops:
            rate = line.flops / line.seconds / 1e9
            text += f"{rate:9.1f}  {rate / top:4.0%}"
        print(text)
    spent, flops = collections.Counter(), collections.Counter()
    for line in lines:
        spent[kind_of(line.op)] += line.seconds
        flops[kind_of(line.op)] += line.flops
    print()
    for kind in KINDS:
        if spent[kind]:
            rate = flops[kind] / spent[kind] / 1e9
            text = f"{kind:20s}{1e3 * spent[kind]:9.2f} ms"
            print(text + (f"{rate:9.1f} GFLOP/s  {rate / top:4.0%}" if rate else ""))
    total = sum(spent.values())
    print(
        f"{'all nodes':20s}{1e3 * total:9.2f} ms; a step takes {1e3 * seconds:.2f} ms"
    )
    print(f"{'the roof':20s}{top:9.1f} GFLOP/s")


def draw(lines, top, title, path):
    """Nodes side by side in order of time: as wide as their time, as high as their
    rate, so that areas are work; those without a rate stand below the axis.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(10, 4), layout="constrained")
    seen, at = set(), 0.0
    for line in lines:
        kind, wide = kind_of(line.op), 1e3 * line.seconds
        high = line.flops / line.seconds / 1e9 or -top / 15
        label = None if kind in seen else kind
        seen.add(kind)
        axes.bar(
            at, high, wide, align="edge", color=KINDS[kind][0], label=label,
            edgecolor="white", linewidth=0.3,
        )  # fmt: skip
        at += wide
    axes.axhline(top, color="black", linestyle="--", linewidth=0.8, label="the roof")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xlim(0, at)
    axes.set_xlabel("time in ms")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(title)
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(path, dpi=100)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network")
    parser.add_argument("batch", type=int)
    parser.add_argument("mode", choices=("train", "predict"))
    parser.add_argument("--picture", help="a PNG to draw")
    args = parser.parse_args()
    top = roof()
    lines, seconds = report(args.network, args.batch, args.mode == "train")
    top = max(top, roof())
    show(lines, seconds, top)
    if args.picture:
        what = {"train": "training", "predict": "prediction"}[args.mode]
        name = net_rows.TITLES.get(args.network, args.network)
        title = f"{name}, {what}, batch {args.batch}"
        draw(lines, top, title, args.picture)


if __name__ == "__main__":
    main()
