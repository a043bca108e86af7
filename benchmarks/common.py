"""What both sides of a benchmark share: the inputs, the clock, the command line.

A side is a script with rows. A row is a function that prepares the work and returns
(check, run): check() does a few steps and returns numbers that every side must agree
on; run(n) does n steps and returns when their results are there.
"""

import json
import sys
import time

import numpy as np

ROWS = {}


def row(name, unit="us", items=1):
    """Declares a row; unit "us" is time a step, else `items` a step make a rate."""

    def add(prepare):
        ROWS[name] = (prepare, unit, items)
        return prepare

    return add


def numbers(*shape, seed=0, scale=1.0):
    """Standard normal numbers times `scale`, in float32, the same on every side."""
    rng = np.random.default_rng([seed, *shape])
    return (scale * rng.standard_normal(shape)).astype("float32")


def classes(n, count=10, seed=0):
    return np.random.default_rng([seed, n]).integers(0, count, n)


def layers(*shapes, seed=7):
    """Weights and biases for the given weight shapes, scaled by the fan-in."""
    for i, shape in enumerate(shapes):
        scale = float(np.prod(shape[1:])) ** -0.5
        yield numbers(*shape, seed=seed + i, scale=scale), np.zeros(shape[0], "float32")


MLP = ((128, 784), (64, 128), (10, 64))
HEAD = 64  # the size of a head of attention
LENET = ((20, 1, 5, 5), (50, 20, 5, 5), (500, 800), (10, 500))


def resnet50_shapes():
    """The shapes of the 161 parameters of ResNet-50."""
    shapes = [(64, 3, 7, 7), (64,), (64,)]
    inputs = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            convs = [
                (width, inputs, 1, 1),
                (width, width, 3, 3),
                (4 * width, width, 1, 1),
            ]
            if block == 0:
                convs.append((4 * width, inputs, 1, 1))
            for conv in convs:
                shapes += [conv, conv[:1], conv[:1]]
            inputs = 4 * width
    return shapes + [(1000, 2048), (1000,)]


def measure(run, least=0.25, times=5):
    """Seconds a step: the median of `times` runs of about `least` seconds each."""
    steps, seconds = 1, 0.0
    while seconds < least / 4:
        steps = steps * 2 if seconds * 50 > least else steps * 8
        start = time.perf_counter()
        run(steps)
        seconds = time.perf_counter() - start
    steps = max(1, int(steps * least / seconds))
    results = []
    for _ in range(times):
        start = time.perf_counter()
        run(steps)
        results.append((time.perf_counter() - start) / steps)
    return sorted(results)[times // 2]


def main():
    """Prints one JSON line for each row named on the command line."""
    for name in sys.argv[1:] or ROWS:
        prepare, unit, items = ROWS[name]
        check, run = prepare()
        outputs = np.asarray(check(), "float64").ravel().tolist()
        seconds = measure(run)
        value = seconds * 1e6 if unit == "us" else items / seconds
        line = {"row": name, "value": value, "unit": unit, "outputs": outputs}
        print(json.dumps(line), flush=True)
