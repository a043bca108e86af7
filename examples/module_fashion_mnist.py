"""Trains a symbol on Fashion-MNIST by Module.fit, saves it, loads it and goes on.

The same network and data as fashion_mnist.py, in the declarative style: the graph is
drawn first, bound to shapes, and trained by a loop that is already there.
"""

import argparse
import logging
from pathlib import Path

import numpy as np
from fashion_mnist import load

import plait as mx


def network():
    x = mx.sym.Variable("data")
    for number, channels in enumerate((16, 32), 1):
        x = mx.sym.Convolution(
            x, kernel=(3, 3), pad=(1, 1), num_filter=channels, no_bias=True,
            name=f"conv{number}",
        )  # fmt: skip
        x = mx.sym.BatchNorm(x, fix_gamma=False, name=f"norm{number}")
        x = mx.sym.Activation(x, act_type="relu", name=f"relu{number}")
        x = mx.sym.Pooling(
            x, kernel=(2, 2), stride=(2, 2), pool_type="max", name=f"pool{number}"
        )
    x = mx.sym.FullyConnected(mx.sym.Flatten(x), num_hidden=128, name="hidden")
    x = mx.sym.Activation(x, act_type="relu", name="relu3")
    x = mx.sym.FullyConnected(x, num_hidden=10, name="scores")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--out", default="demo", type=Path)
    parser.add_argument("--epochs", default=3, type=int)
    parser.add_argument("--images", default=60000, type=int, help="to train on")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    mx.random.seed(1)
    np.random.seed(1)
    (images, labels), (test_images, test_labels) = load(args.data)
    train_data = mx.io.NDArrayIter(
        images[: args.images], labels[: args.images], batch_size=128,
        shuffle=True, last_batch_handle="discard",
    )  # fmt: skip
    test_data = mx.io.NDArrayIter(test_images, test_labels, batch_size=500)

    symbol = network()
    mx.viz.print_summary(symbol, {"data": (1, 1, 28, 28)}, line_length=80)
    args.out.mkdir(parents=True, exist_ok=True)
    prefix = str(args.out / "module")
    settings = {"learning_rate": 0.05, "momentum": 0.9, "wd": 5e-4}
    module = mx.mod.Module(symbol)
    module.fit(
        train_data,
        test_data,
        optimizer="sgd",
        optimizer_params=settings,
        initializer=mx.init.Xavier(),
        num_epoch=args.epochs,
        batch_end_callback=mx.callback.Speedometer(128, 100),
    )
    module.save_checkpoint(prefix, args.epochs, save_optimizer_states=True)

    # Another process could go on here; MXNet too, with states_format="mxnet".
    again = mx.mod.Module.load(prefix, args.epochs, load_optimizer_states=True)
    again.fit(
        train_data,
        optimizer="sgd",
        optimizer_params={**settings, "learning_rate": 0.005},
        begin_epoch=args.epochs,
        num_epoch=args.epochs + 1,
    )
    ((_, accuracy),) = again.score(test_data, "acc")
    print(f"test accuracy {accuracy:.2%}")
    print(f"{args.out}/: module-symbol.json, module-{args.epochs:04d}.params, .states")


if __name__ == "__main__":
    main()
