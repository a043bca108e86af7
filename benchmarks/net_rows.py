"""The rows of whole networks, and what the sides that run them share.

A side is a script that hands main() a function: prepare(row) gives (outputs, variants).
outputs are those of prediction, which every side must agree on; variants are pairs
(name, step) of ways to do one step, the fastest of which counts. A step returns when
its results are there.
"""

import json
import sys
import time
from collections import namedtuple

import numpy as np

# unit: what a step of `batch` counts; items: how many of them; half: Plait computes in
# bfloat16, by contrib.amp, its peers in float32.
Row = namedtuple("Row", "network batch training unit items half")

CLASSES, WIDTH, LENGTH = 1000, 768, 128  # of images; of the transformer
VOCABULARY, HIDDEN, STEPS = 10000, 650, 35  # of the LSTM
TITLES = {
    "alexnet": "AlexNet",
    "vgg16": "VGG-16",
    "googlenet": "GoogLeNet",
    "resnet50": "ResNet-50",
    "mobilenet_v2": "MobileNet-v2",
}
GROWTH = "growth of cost an image, ResNet-50 prediction, batch 8 to 64"
GROWTH_BATCHES = (8, 16, 32, 64)


def _rows():
    for network, batch in (
        ("alexnet", 32), ("vgg16", 16), ("googlenet", 32), ("resnet50", 16)
    ):  # fmt: skip
        yield f"{TITLES[network]} training, batch {batch}", network, batch, True
    yield "LSTM 2 x 650 training, T 35, batch 20", "lstm", 20, True
    yield "transformer 4 x 768 training, T 128, batch 8", "transformer", 8, True
    yield "transformer 4 x 768 prediction, T 128, batch 8", "transformer", 8, False
    for what, training in (("training", True), ("prediction", False)):
        name = f"transformer 4 x 768 {what} in bfloat16, T 128, batch 8"
        yield name, "transformer", 8, training, True
    for network in ("alexnet", "vgg16", "resnet50", "mobilenet_v2"):
        for batch in (1, 16):
            yield f"{TITLES[network]} prediction, batch {batch}", network, batch, False


def _row(network, batch, training, half=False):
    steps = {"lstm": STEPS, "transformer": LENGTH}.get(network)
    unit = "tok/s" if steps else "img/s"
    return Row(network, batch, training, unit, batch * (steps or 1), half)


ROWS = {name: _row(*rest) for name, *rest in _rows()}


def batch_of(network, batch):
    """(x, labels) of one batch; images, words of shape (T, batch), or vectors."""
    rng = np.random.default_rng(batch)
    if network == "lstm":
        x = rng.integers(0, VOCABULARY, (STEPS, batch))
        return x, rng.integers(0, VOCABULARY, (STEPS, batch))
    shape = (LENGTH, WIDTH) if network == "transformer" else (3, 224, 224)
    x = rng.standard_normal((batch, *shape), dtype="float32")
    return x, rng.integers(0, CLASSES, batch)


def parameter(position, shape, is_bias):
    """The values of a network's parameter by its position among all of them."""
    size = int(np.prod(shape))
    rng = np.random.default_rng([1, position])
    values = rng.standard_normal(size, dtype="float32").reshape(shape)
    if is_bias:
        return 0.1 * values
    if len(shape) == 1:  # the scale of a normalisation
        return 1 + 0.1 * values
    return values * np.float32((2 * shape[0] / size) ** 0.5)  # by the fan-in


def part(outputs):
    """Some of the outputs of a batch: those of its first and last example."""
    flat = np.asarray(outputs, "float64").reshape(len(outputs), -1)
    return np.concatenate([flat[0, :1000], flat[-1, -1000:]]).tolist()


def seconds_of(step, least=0.5, most=12.0):
    """The median of at least two steps after a first, all within about `most`."""
    begin = time.perf_counter()
    step()
    times = []
    while True:
        start = time.perf_counter()
        step()
        end = time.perf_counter()
        times.append(end - start)
        done = len(times) >= 3 and sum(times) >= least
        if done or (end - begin) + times[-1] > most:
            return float(np.median(times))


def _growth(prepare):
    """How much dearer an image of a larger batch is than one of the smallest."""
    best = []
    for batch in GROWTH_BATCHES:
        _, variants = prepare(_row("resnet50", batch, False))
        _, step = variants[-1]
        best.append(min(seconds_of(step), seconds_of(step)) / batch)
    return max(best[1:]) / best[0]


def main(prepare):
    """Prints one JSON line for each row named on the command line."""
    for name in sys.argv[1:]:
        if name == GROWTH:
            line = {"value": _growth(prepare), "unit": "x", "outputs": []}
        else:
            row = ROWS[name]
            outputs, variants = prepare(row)
            timed = [(seconds_of(step), which) for which, step in variants]
            seconds, which = min(timed)
            line = {"value": row.items / seconds, "unit": row.unit}
            line |= {"outputs": outputs, "variant": which}
        print(json.dumps({"row": name, **line}), flush=True)
