"""A picture of what ranks compute and send while they train, from profiles of them."""

import json

COLOURS = {"forward": "tab:green", "backward": "tab:blue", "update": "black",
           "kvstore_reduce": "tab:orange", "kvstore_gather": "tab:red"}  # fmt: skip
NAMES = {
    "kvstore_reduce": "gradients to their owners",
    "kvstore_gather": "new weights to all",
    "update": "updates, copies",
}


def spans(path):
    """(kind, key or None, begin, end) in milliseconds."""
    events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]
    found = []
    for e in events:
        layer = e.get("args", {}).get("layer") or ""
        begin, end = e["ts"] / 1e3, (e["ts"] + e["dur"]) / 1e3
        if e["name"] in ("kvstore_reduce", "kvstore_gather"):
            found.append((e["name"], layer.removeprefix("the key "), begin, end))
        elif e["name"] in ("copy", "sgd_mom_update"):
            found.append(("update", None, begin, end))
        elif "_fwd" in layer and "_backward" not in layer:
            found.append(("forward", None, begin, end))
        elif "_backward" in layer or e["name"] == "dot":
            found.append(("backward", None, begin, end))
    return found


def draw(paths, picture):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    ranks = [spans(path) for path in paths]
    start = min(span[2] for found in ranks for span in found)
    # Keys in the order in which the first rank sends them, from the top.
    firsts = {}
    for kind, key, begin, _ in sorted(ranks[0], key=lambda span: span[2]):
        if kind == "kvstore_reduce":
            firsts.setdefault(key, begin)
    keys = {key: place for place, key in enumerate(firsts)}
    figure, axes = plt.subplots(
        len(ranks), figsize=(11, 3.2 * len(ranks)), sharex=True, layout="constrained"
    )
    for rank, (axis, found) in enumerate(zip(axes, ranks)):
        for kind, key, begin, end in found:
            place, height = (-2, 3) if key is None else (keys.get(key, 0) + 1, 0.8)
            axis.barh(place, end - begin, height, begin - start, color=COLOURS[kind])
        axis.set_yticks([-2, len(keys) / 2], ["computing", "transfers,\na row a key"])
        axis.invert_yaxis()
        axis.set_title(f"rank {rank}", loc="left")
    axes[-1].set_xlabel("milliseconds")
    figure.legend(
        handles=[Patch(color=c, label=NAMES.get(k, k)) for k, c in COLOURS.items()],
        loc="outside upper right",
        ncols=5,
        frameon=False,
    )
    figure.savefig(picture, dpi=110)
