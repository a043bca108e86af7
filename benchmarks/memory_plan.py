"""What the memory planner makes of six networks: the paper's figure 7, with today's.

Prints megabytes of internal variables at batch 64 for training (forward and backward)
and prediction, by strategy, and draws benchmarks/out/memory-plan.png. No array is made.
"""

import argparse
import importlib
import time
from pathlib import Path

from networks import NETWORKS, shapes

COLUMNS = ("none", "inplace", "co_share", "both", "lower_bound")
LABELS = ("none", "inplace", "co-share", "both", "lower bound")


def plans(batch):
    """{(network, mode): plan} in bytes."""
    result = {}
    for name, (build, _, _) in NETWORKS.items():
        symbol = build()
        known = shapes(name, batch)
        requests = {a: "write" for a in symbol.list_arguments() if a not in known}
        for training in (True, False):
            mode = "training" if training else "prediction"
            result[name, mode] = symbol.memory_plan(
                is_train=training, grad_req=requests, **known
            )
    return result


def print_table(result, batch):
    print(f"MB of internal variables, batch {batch}; unfused: none without fusion")
    head = ("network", "mode", "unfused", *LABELS, "none/both", "both/bound")
    print(" | ".join(f"{h:>11}" for h in head))
    for (name, mode), plan in result.items():
        cells = [f"{plan[c] / 1e6:.1f}" for c in ("unfused", *COLUMNS)]
        cells.append(f"{plan['none'] / plan['both']:.2f}")
        cells.append(f"{plan['both'] / plan['lower_bound']:.3f}")
        print(" | ".join(f"{c:>11}" for c in (f"{name:11.11}", mode, *cells)))


def draw(result, batch, path):
    """Bars in percent of `none`; megabytes of none and both as text."""
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("Agg")  # draws into files, needs no screen
    plt = importlib.import_module("matplotlib.pyplot")
    figure, axes = plt.subplots(2, 1, figsize=(11, 8), layout="constrained")
    colors = ("#8fb3d9", "#4f81bd", "#1f4e79", "#d98c4f")
    width = 0.8 / len(colors)
    for axis, mode, target in zip(axes, ("training", "prediction"), (50, 25)):
        for i, (column, label) in enumerate(zip(COLUMNS[1:], LABELS[1:])):
            for n, name in enumerate(NETWORKS):
                plan = result[name, mode]
                percent = 100 * plan[column] / plan["none"]
                at = n + (i - 1.5) * width
                axis.bar(
                    at, percent, width, color=colors[i], label=None if n else label
                )
                text = f"{percent:.0f}"
                axis.text(at, percent + 1, text, ha="center", fontsize=8)
        axis.axhline(target, color="#b03030", lw=1, ls="--", label="the paper's")
        ticks = [
            f"{name}\n{result[name, mode]['none'] / 1e6:,.0f} MB to "
            f"{result[name, mode]['both'] / 1e6:,.0f} MB"
            for name in NETWORKS
        ]
        axis.set_xticks(range(len(NETWORKS)), ticks)
        axis.set(title=f"{mode}, batch {batch}", ylabel="% of none", ylim=(0, 100))
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, ncols=5, loc="upper center")
    figure.suptitle("Memory of internal variables, by strategy of the planner")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64)
    out = Path(__file__).parent / "out/memory-plan.png"
    parser.add_argument("--out", type=Path, default=out)
    args = parser.parse_args()
    start = time.time()
    result = plans(args.batch)
    print_table(result, args.batch)
    draw(result, args.batch, args.out)
    print(f"{args.out}, after {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
