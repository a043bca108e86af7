"""Graphs alone: time to bind, and loops that mix graphs with array expressions."""

import statistics
import time

import numpy as np
from common import numbers

import plait as mx
from plait import nd


def layers(count):
    x = mx.sym.var("x")
    for i in range(count):
        x = mx.sym.FullyConnected(x, num_hidden=4, name=f"fc{i}")
        x = mx.sym.Activation(x, act_type="relu", name=f"relu{i}")
    return x


def pointwise(count):
    x = mx.sym.var("x")
    for i in range(count):
        x = x + 1 if i % 2 else x * 0.5
    return x


def seconds_to_bind(symbol):
    """From the symbol to the end of the first forward and backward."""
    start = time.perf_counter()
    executor = symbol.simple_bind(mx.cpu(), x=(2, 4))
    executor.forward(is_train=True)
    executor.backward()
    nd.waitall()
    return time.perf_counter() - start


def binding():
    print("\nbind, forward and backward once")
    for what, build, count, target in (
        ("layers", layers, 1000, 0.5),
        ("nodes", pointwise, 25000, None),
        ("nodes", pointwise, 50000, None),
        ("nodes", pointwise, 100000, 5),
    ):
        seconds = seconds_to_bind(build(count))
        wanted = f"  (target {target:g})" if target else ""
        print(f"{count:8d} {what:23s}{seconds:10.3g}  s{wanted}")


def mlp():
    x = mx.sym.var("data")
    for i, units in enumerate((512, 512)):
        x = mx.sym.FullyConnected(x, num_hidden=units, name=f"fc{i}")
        x = mx.sym.Activation(x, act_type="relu")
    x = mx.sym.FullyConnected(x, num_hidden=10, name="out")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def mixing(rounds=9, steps=40):
    """w -= eta * g in Python against the optimizer that knows all weights at once."""
    batch, eta = 128, 0.01
    net = mlp().simple_bind(mx.cpu(), data=(batch, 784), softmax_label=(batch,))
    rng = np.random.default_rng(0)
    net.arg_dict["data"][:] = nd.array(numbers(batch, 784))
    net.arg_dict["softmax_label"][:] = nd.array(rng.integers(0, 10, batch))
    names = [n for n in net.arg_dict if n not in ("data", "softmax_label")]
    for i, name in enumerate(names):
        array = net.arg_dict[name]
        array[:] = nd.array(numbers(*array.shape, seed=i, scale=0.05))
    weights = [net.arg_dict[n] for n in names]
    grads = [net.grad_dict[n] for n in names]
    update = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=eta, wd=0))
    indices = list(range(len(names)))

    def mixed():
        net.forward(is_train=True)
        net.backward()
        for w, g in zip(weights, grads):
            w -= eta * g

    def inside():
        net.forward(is_train=True)
        net.backward()
        update(indices, grads, weights)

    def measure(step):
        start = time.perf_counter()
        for _ in range(steps):
            step()
        nd.waitall()
        return (time.perf_counter() - start) / steps

    ratios = []
    for _ in range(rounds):
        first = measure(mixed)
        ratios.append(first / measure(inside))
    print("\nnet.w -= eta * net.g in Python against one update of all weights")
    print(
        f"{'time, mixed / at once':32s}{statistics.median(ratios):10.3f}  (target 1.03)"
    )


if __name__ == "__main__":
    binding()
    mixing()
