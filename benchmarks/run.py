"""Measures Plait beside its peers, in turn (A B A B), and prints a table of ratios.

Outputs are compared before any figure counts. Writes benchmarks/out/results.json and
ratios.png. The columns: the median of the rounds with the least and the most, how many
times better than the best peer Plait is, and how many times better it means to be.
Small rows have one peer; whole networks have PyTorch, MXNet and, in prediction, ONNX
Runtime and OpenVINO. A round of everything takes about 25 minutes, most of it MXNet's
and PyTorch's.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import net_rows
import numpy as np
import report

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
OUT = HERE / "out"
PEERS = Path(os.environ.get("PEERS", "~/.cache/plait-peers")).expanduser()
TORCH, MXNET = PEERS / "tv/bin/python", PEERS / "mx/bin/python"
# Side: its Python, the script with its rows, and the module that must be there.
SIDES = {
    "plait": (sys.executable, "plait_rows.py", "plait"),
    "torch": (TORCH, "torch_rows.py", "torch"),
    "mxnet": (MXNET, "plait_rows.py", "mxnet"),
}
NET_SIDES = {
    "plait": (sys.executable, "net_gluon.py", "plait"),
    "torch": (TORCH, "net_torch.py", "torch"),
    "onnx": (TORCH, "net_onnx.py", "onnxruntime"),
    "openvino": (TORCH, "net_openvino.py", "openvino"),
    "mxnet": (MXNET, "net_gluon.py", "mxnet"),
}
PREDICTORS = ("onnx", "openvino")  # sides that cannot train
IMPORT = "import, beyond numpy"
# Row: how many times better than its best peer, at least (None: no target).
TARGETS = {
    "x = x + b, 4x4": 4,
    "x += b, 4x4": 3,
    "x.sum(), 4x4": 3,
    "dot(x, y), 4x4": 3,
    "(w*b).sum() and backward, 4x4": 4,
    "w -= lr*(g + wd*w), 1e4": 3,
    "w -= lr*(g + wd*w), 1e6": 3,
    "w -= lr*(g + wd*w), 25e6": 12,
    "(w*b).sum(), 25e6": None,
    "mean of (w-b)**2, backward, 25e6": None,
    "MLP step, batch 1": 2,
    "MLP step, batch 32": 2,
    "MLP step, batch 1, hybridized": 3,
    "MLP step, batch 32, hybridized": 3,
    "LeNet training, batch 128": 1.5,
    "LeNet training, hybridized": None,
    "arrays in batches, DataLoader": 5,
    "arrays in batches, NDArrayIter": 5,
    "SGD momentum, ResNet-50": None,
    "Adam, ResNet-50": None,
    "attention, T 512": None,
    "attention, T 1024": None,
    "attention, T 4096": 1.5,
    "attention and gradients, T 512": None,
    "attention and gradients, T 1024": None,
    "attention and gradients, T 4096": 1.5,
    "peak memory, VGG-16, batch 16": 1 / 0.7,
    "peak memory, ResNet-50, batch 16": 1 / 0.7,
    "peak memory, attention, T 16384": None,
    IMPORT: None,
    "AlexNet training, batch 32": 1.3,
    "VGG-16 training, batch 16": 2.5,
    "GoogLeNet training, batch 32": 1.5,
    "ResNet-50 training, batch 16": 1.5,
    "LSTM 2 x 650 training, T 35, batch 20": 1.25,
    "transformer 4 x 768 training, T 128, batch 8": 1.3,
    "transformer 4 x 768 prediction, T 128, batch 8": 1.15,
    "transformer 4 x 768 training in bfloat16, T 128, batch 8": 1.8,
    "transformer 4 x 768 prediction in bfloat16, T 128, batch 8": 1.8,
    "AlexNet prediction, batch 1": None,
    "AlexNet prediction, batch 16": None,
    "VGG-16 prediction, batch 1": 2.0,
    "VGG-16 prediction, batch 16": 2.0,
    "ResNet-50 prediction, batch 1": 1.2,
    "ResNet-50 prediction, batch 16": 1.2,
    "MobileNet-v2 prediction, batch 1": 1.1,
    "MobileNet-v2 prediction, batch 16": 1.1,
    net_rows.GROWTH: None,  # Plait's own is to be 1.1 at most
}
# Million pushes a second, at least.
ENGINE_TARGETS = {"inline_pushes": 3, "dependent_pushes": 0.5}
MEMORY = {
    "peak memory, VGG-16, batch 16": ("net_memory.py", "vgg16"),
    "peak memory, ResNet-50, batch 16": ("net_memory.py", "resnet50"),
    "peak memory, attention, T 16384": ("attention_memory.py",),
}
NETWORKS = (*net_rows.ROWS, net_rows.GROWTH)


def environment(module):
    """The machine as it is, without settings that only old libraries need."""
    drop = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    kept = {k: v for k, v in os.environ.items() if k not in drop}
    return {**kept, "MODULE": module}


def run(python, module, *command):
    return subprocess.run(
        [python, *command], env=environment(module), cwd=ROOT,
        capture_output=True, text=True,
    )  # fmt: skip


def run_rows(side, python, script, module, rows):
    """[{"row", "value", "unit", "outputs"}] from one process of one side."""
    done = run(python, module, HERE / script, *rows)
    left_out = [x for x in done.stderr.splitlines() if " is left out" in x]
    if done.returncode or left_out:
        text = "\n".join(left_out) or done.stderr.strip()[-2000:]
        print(f"{side}: {text}", file=sys.stderr)
    return [json.loads(x) for x in done.stdout.splitlines() if x.startswith("{")]


def import_seconds(python, _, module):
    code = (
        "import numpy, time; t = time.perf_counter(); "
        f"import {module}; print(time.perf_counter() - t)"
    )
    done = run(python, module, "-c", code)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


def peak_megabytes(side, script, *arguments):
    """The peak resident memory that a process of its own prints."""
    python, _, module = SIDES[side]
    done = run(python, module, HERE / script, *arguments)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


class Results:
    """What was measured, as report.py wants it; also in a file after each value."""

    def __init__(self, path, keep):
        self.path = path
        self.rows = json.loads(path.read_text()) if keep and path.exists() else {}
        self.outputs = {}  # Plait's, by row

    def add(self, side, row, value, unit, outputs=(), variant=None):
        """Adds the value of a round; outputs that differ from Plait's are noted."""
        new = {"unit": unit, "values": {}, "variant": {}, "why": {}}
        result = self.rows.setdefault(row, new)
        result["values"].setdefault(side, []).append(value)
        if variant:
            result["variant"][side] = variant
        if side == "plait":
            self.outputs[row] = outputs
        elif row not in self.outputs:
            result["why"][side] = "there are no outputs of Plait's to compare with"
        elif why := unequal(self.outputs[row], outputs, limit_of(row)):
            result["why"][side] = why
        self.path.write_text(json.dumps(self.rows, indent=1))
        print(f"{row}: {side} {value:.4g} {unit} {variant or ''}", file=sys.stderr)


def limit_of(row):
    """What outputs may differ by: of their largest one for networks, else of each."""
    if row not in NETWORKS:
        return 1e-4
    return 3e-2 if row in net_rows.ROWS and net_rows.ROWS[row].half else 1e-3


def unequal(mine, theirs, limit):
    """Why two lists of outputs differ, or None."""
    if len(mine) != len(theirs):
        return f"{len(theirs)} outputs against {len(mine)}"
    if not len(mine):
        return None
    size = np.abs(theirs)
    gap = np.abs(np.subtract(mine, theirs)) / (size.max() if limit > 1e-4 else 1 + size)
    return None if (gap < limit).all() else f"outputs differ by {gap.max():.2g}"


def measure_small(results, peer, rows, rounds):
    """The rows of one process a side, and of memory and import."""
    for row in MEMORY.keys() & set(rows):
        for side in ("plait", peer):
            if (peak := peak_megabytes(side, *MEMORY[row])) is not None:
                results.add(side, row, peak, "MB")
    wanted = [r for r in rows if r not in (IMPORT, *MEMORY)]
    for _ in range(rounds):
        for side in ("plait", peer):
            if IMPORT in rows and (seconds := import_seconds(*SIDES[side])) is not None:
                results.add(side, IMPORT, seconds * 1000, "ms")
            for line in run_rows(side, *SIDES[side], wanted) if wanted else ():
                results.add(side, **line)


def measure_networks(results, peers, rows, rounds):
    """A process for each row and side, so that sides alternate within a minute."""
    for _ in range(rounds):
        for row in rows:
            for side in ("plait", *peers):
                training = row in net_rows.ROWS and net_rows.ROWS[row].training
                if side in PREDICTORS and training:
                    continue
                if side == "mxnet" and row == net_rows.GROWTH:
                    continue  # it would take minutes
                for line in run_rows(side, *NET_SIDES[side], [row]):
                    results.add(side, **line)


def installed(side):
    """Whether a side is there; says so where it is not."""
    python, _, module = NET_SIDES[side]
    setup = "mxnet" if side == "mxnet" else "torch"
    if (
        python.exists()
        and run(python, module, "-c", f"import {module}").returncode == 0
    ):
        return True
    print(f"{side} is left out: benchmarks/setup_peers.sh {setup} installs it")
    return False


def engine():
    """The engine alone, from its C++ benchmark: lines of key|value|unit."""
    bench = ROOT / "build/release/engine_bench"
    done = subprocess.run([bench], check=True, capture_output=True, text=True)
    print("\nengine alone")
    for line in done.stdout.splitlines():
        key, value, unit = line.split("|")
        target = ENGINE_TARGETS.get(key)
        text = f"{key.replace('_', ' '):32s}{float(value):10.4g}  {unit}"
        print(text + (f"  (target {target:g})" if target else ""))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", help="parts of row names; default: all")
    parser.add_argument(
        "--peers", nargs="+", default=list(NET_SIDES)[1:], choices=list(NET_SIDES)[1:],
        help="of networks, those that are installed; other rows have the first",
    )  # fmt: skip
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument(
        "--keep", action="store_true", help="add to benchmarks/out/results.json"
    )
    return parser.parse_args()


def main():
    args = arguments()
    rows = [r for r in TARGETS if not args.rows or any(x in r for x in args.rows)]
    first = next((x for x in args.peers if x not in PREDICTORS), "torch")
    subprocess.run([HERE / "setup_peers.sh", first], check=True)
    OUT.mkdir(exist_ok=True)
    results = Results(OUT / "results.json", args.keep)
    small = [r for r in rows if r not in NETWORKS]
    networks = [r for r in rows if r in NETWORKS]
    measure_small(results, first, small, args.rounds)
    peers = [x for x in args.peers if installed(x)] if networks else []
    measure_networks(results, peers, networks, args.rounds)
    found = report.print_table(results.rows, TARGETS)
    if any(line.peer for line in found):
        report.draw(found, OUT / "ratios.png")
        print(f"\n{OUT.relative_to(ROOT)}/: results.json, ratios.png")
    if not args.rows:
        engine()
        subprocess.run([sys.executable, HERE / "graphs.py"], check=True)
    if any(r not in results.rows for r in rows):
        sys.exit("some rows have no figure")


if __name__ == "__main__":
    main()
