"""Measures Plait beside a peer, in turn (A B A B), and prints the ratio of each row.

Outputs are compared before any figure counts. Writes benchmarks/out/results.json and
ratios.png. The columns: the median of the rounds, how many times better Plait is, and
how many times better it means to be.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
OUT = HERE / "out"
PEERS = Path(os.environ.get("PEERS", "~/.cache/plait-peers")).expanduser()
SIDES = {
    "plait": (sys.executable, "plait_rows.py", "plait"),
    "torch": (PEERS / "tv/bin/python", "torch_rows.py", "torch"),
    "mxnet": (PEERS / "mx/bin/python", "plait_rows.py", "mxnet"),
}
# Row: how many times better than PyTorch, at least (None: no target).
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
    "SGD momentum, ResNet-50": None,
    "Adam, ResNet-50": None,
    "attention, T 512": None,
    "attention, T 1024": None,
    "attention, T 4096": 1.5,
    "attention and gradients, T 512": None,
    "attention and gradients, T 1024": None,
    "attention and gradients, T 4096": 1.5,
    "peak memory, VGG-16, batch 16": 1 / 0.7,
    "peak memory, attention, T 16384": None,
}
# Million pushes a second, at least.
ENGINE_TARGETS = {"inline_pushes": 3, "dependent_pushes": 0.5}
IMPORT = "import, beyond numpy"
MEMORY = {
    "peak memory, VGG-16, batch 16": "vgg_memory.py",
    "peak memory, attention, T 16384": "attention_memory.py",
}


def environment(module):
    """The machine as it is, without settings that only old libraries need."""
    drop = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
    kept = {k: v for k, v in os.environ.items() if k not in drop}
    return {**kept, "MODULE": module}


def run_rows(side, rows):
    """{row: (value, unit, outputs)} from one process of one side."""
    if not rows:
        return {}
    python, script, module = SIDES[side]
    done = subprocess.run(
        [python, HERE / script, *rows],
        env=environment(module), capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        print(f"{side}: {done.stderr.strip()[-2000:]}", file=sys.stderr)
    lines = [json.loads(x) for x in done.stdout.splitlines() if x.startswith("{")]
    return {x["row"]: (x["value"], x["unit"], x["outputs"]) for x in lines}


def import_seconds(side):
    python, _, module = SIDES[side]
    code = (
        "import numpy, time; t = time.perf_counter(); "
        f"import {module}; print(time.perf_counter() - t)"
    )
    done = subprocess.run(
        [python, "-c", code], env=environment(module), cwd=ROOT,
        capture_output=True, text=True,
    )  # fmt: skip
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


def peak_megabytes(side, script):
    """The peak resident memory that a process of its own prints."""
    python, _, module = SIDES[side]
    done = subprocess.run(
        [python, HERE / script], env=environment(module),
        capture_output=True, text=True,
    )  # fmt: skip
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


def measure(peer, rows, rounds):
    """{side: {row: [values]}}, units, and the outputs of each side's first round."""
    values = {"plait": {}, peer: {}}
    units, outputs = {}, {"plait": {}, peer: {}}
    for row in MEMORY.keys() & set(rows):
        units[row] = "MB"
        for side in (peer, "plait"):
            if (peak := peak_megabytes(side, MEMORY[row])) is not None:
                values[side][row] = [peak]
    for _ in range(rounds):
        for side in (peer, "plait"):
            if IMPORT in rows and (seconds := import_seconds(side)) is not None:
                values[side].setdefault(IMPORT, []).append(seconds * 1000)
                units[IMPORT] = "ms"
            wanted = [r for r in rows if r not in (IMPORT, *MEMORY)]
            for row, (value, unit, out) in (
                run_rows(side, wanted) if wanted else {}
            ).items():
                values[side].setdefault(row, []).append(value)
                units[row] = unit
                outputs[side].setdefault(row, out)
    return values, units, outputs


def unequal(mine, theirs):
    """Why two lists of outputs differ, or None."""
    if len(mine) != len(theirs):
        return f"{len(mine)} outputs against {len(theirs)}"
    gap = np.abs(np.subtract(mine, theirs)) / (1 + np.abs(theirs))
    return f"outputs differ by {gap.max():.2g}" if not (gap < 1e-4).all() else None


def table(peer, rows, values, units, outputs):
    """Prints the rows; returns [(row, ratio, target)]."""
    results = []
    print(f"{'':32s}{'plait':>10s}  {peer:>10s}          ratio  target")
    for row in rows:
        mine, theirs = values["plait"].get(row), values[peer].get(row)
        if not mine or not theirs:
            print(f"{row:32s}missing on " + ("plait" if not mine else peer))
            continue
        why = None
        if row in outputs["plait"]:
            why = unequal(outputs["plait"][row], outputs[peer][row])
        if why:
            print(f"{row:32s}{why}")
            continue
        a, b = float(np.median(mine)), float(np.median(theirs))
        ratio = a / b if units[row].endswith("/s") else b / a
        target = TARGETS.get(row) if peer == "torch" else None
        results.append((row, ratio, target))
        print(
            f"{row:32s}{a:10.4g}  {b:10.4g}  {units[row]:5s}  {ratio:6.2f}"
            + (f"  {target:>6g}" if target else "")
        )
    return results


def draw(peer, results):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        figsize=(8, 0.4 * len(results) + 1), layout="constrained"
    )
    places = range(len(results))
    axes.barh(places, [ratio for _, ratio, _ in results], color="tab:blue")
    for place, (_, ratio, target) in zip(places, results):
        axes.text(ratio, place, f" {ratio:.1f}", va="center")
        if target:
            axes.plot([target, target], [place - 0.4, place + 0.4], color="tab:orange")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(places, [row for row, _, _ in results])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel(f"times better than {peer} (orange: the target)")
    figure.savefig(OUT / "ratios.png", dpi=120)


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", help="parts of row names; default: all")
    parser.add_argument("--peer", default="torch", choices=("torch", "mxnet"))
    parser.add_argument("--rounds", default=2, type=int)
    args = parser.parse_args()
    subprocess.run([HERE / "setup_peers.sh", args.peer], check=True)
    every = [*TARGETS, IMPORT]
    rows = [r for r in every if not args.rows or any(part in r for part in args.rows)]
    values, units, outputs = measure(args.peer, rows, args.rounds)
    results = table(args.peer, rows, values, units, outputs)
    OUT.mkdir(exist_ok=True)
    saved = {"values": values, "units": units}
    (OUT / "results.json").write_text(json.dumps(saved, indent=1))
    if results:
        draw(args.peer, results)
        print(f"\n{OUT.relative_to(ROOT)}/: results.json, ratios.png")
    if not args.rows:
        engine()
        subprocess.run([sys.executable, HERE / "graphs.py"], check=True)
    if len(results) < len(rows):
        sys.exit("some rows have no figure")


if __name__ == "__main__":
    main()
