"""The table and the picture of what run.py measured.

Results are {row: {"unit", "values": {side: [a value of each round]}, "variant": {side:
name}, "why": {side: why its figures do not count}}}.
"""

from collections import namedtuple

import numpy as np

# peer: the best one; ratio: how many times better Plait is; None where none was found.
Line = namedtuple("Line", "row unit mine theirs peer ratio target")


def lines(results, targets):
    """A Line for each row, in the order of the targets."""
    for row in sorted(results, key=list(targets).index):
        unit, values = results[row]["unit"], results[row]["values"]
        mine = values.get("plait")
        rate = unit.endswith("/s")
        peers = {
            side: np.median(v)
            for side, v in values.items()
            if side != "plait" and side not in results[row]["why"]
        }
        if not mine or not peers or "plait" in results[row]["why"]:
            yield Line(row, unit, mine, None, None, None, targets[row])
            continue
        peer = (max if rate else min)(peers, key=peers.get)
        ratio = np.median(mine) / peers[peer]
        ratio = float(ratio if rate else 1 / ratio)
        yield Line(row, unit, mine, values[peer], peer, ratio, targets[row])


def spread(values):
    """The median, and the least and the most where there are several."""
    if not values:
        return "-"
    text = f"{np.median(values):.4g}"
    if len(values) > 1:
        text += f" ({min(values):.4g}-{max(values):.4g})"
    return text


def print_table(results, targets):
    """Prints the rows; returns their Lines."""
    print(f"{'':60s}{'plait':>24s}  {'best peer':>24s}                ratio  target")
    found = list(lines(results, targets))
    for line in found:
        result = results[line.row]
        text = f"{line.row:60s}{spread(line.mine):>24s}"
        if line.peer:
            name = " ".join(filter(None, (line.peer, result["variant"].get(line.peer))))
            text += f"  {spread(line.theirs):>24s} {line.unit:5s} {line.ratio:9.2f}"
            target = f"{line.target:.3g}" if line.target else ""
            text += f"  {target:>6s}  {name}"
        elif line.mine:
            text += f"  no peer to compare with, {line.unit}"
        else:
            text += "  missing"
        print(text)
        for side, why in result["why"].items():
            print(f"    {side} does not count: {why}")
    return found


def draw(found, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = [line for line in found if line.peer]
    figure, axes = plt.subplots(figsize=(9, 0.3 * len(found) + 1), layout="constrained")
    places = range(len(found))
    axes.barh(places, [line.ratio for line in found], color="tab:blue")
    for place, line in zip(places, found):
        axes.text(line.ratio, place, f" {line.ratio:.2g} {line.peer}", va="center")
        if line.target:
            ends = [place - 0.4, place + 0.4]
            axes.plot([line.target] * 2, ends, color="tab:orange")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(places, [line.row for line in found])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.set_xlabel("times better than the best peer (orange: the target)")
    figure.savefig(path, dpi=120)
