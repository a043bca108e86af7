"""Trains on Fashion-MNIST with several processes: plait-run -n 2 this file.

Each rank takes its part of every batch, so that the steps, and with them the accuracy,
are those of one process. After each epoch rank 0 leaves a checkpoint in --out, from
which `plait-run --restarts 1` goes on when a rank was lost.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from fashion_mnist import load

import plait as mx
from plait import autograd, gluon
from plait import distributed as dist
from plait.gluon import nn

BATCH = 128  # of all ranks together


def build():
    """LeNet. Without batch norm: its statistics would be those of a rank's part."""
    net = nn.HybridSequential()
    for channels in (20, 50):
        net.add(nn.Conv2D(channels, kernel_size=5, activation="relu"))
        net.add(nn.MaxPool2D(pool_size=2))
    net.add(nn.Dense(500, activation="relu"), nn.Dense(10))
    return net


def batches(count, epoch):
    """The indices of this rank's part of each batch; all ranks draw the same order."""
    order = np.random.default_rng(epoch).permutation(count)
    for start in range(0, count - BATCH + 1, BATCH):
        yield order[start : start + BATCH][dist.rank() :: dist.size()]


def accuracy(net, images, labels):
    """Over all test images, of which each rank looks at its part."""
    metric = mx.metric.Accuracy()
    for start in range(dist.rank() * 500, len(images), dist.size() * 500):
        part = slice(start, start + 500)
        metric.update([mx.nd.array(labels[part])], [net(mx.nd.array(images[part]))])
    return dist.allreduce_metric(metric).get()[1]


def save(net, out, epoch):
    """Written beside the last one and then put in its place: always a whole file."""
    if dist.rank() == 0:
        net.save_parameters(str(out / "next.params"))
        (out / "next.params").rename(out / f"epoch-{epoch}.params")
    dist.barrier()


def last_checkpoint(out):
    """The number of epochs that are done, and their file."""
    found = {int(p.stem.split("-")[1]): p for p in out.glob("epoch-*.params")}
    return max(found.items(), default=(0, None))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--out", default="demo/distributed", type=Path)
    parser.add_argument("--epochs", default=4, type=int)
    parser.add_argument("--kvstore", default="dist_sync")
    parser.add_argument("--images", default=60000, type=int, help="to train on")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)

    (images, labels), (test_images, test_labels) = load(args.data)
    images, labels = images[: args.images], labels[: args.images]
    mx.random.seed(1)
    net = build()
    net.initialize(mx.init.Xavier())
    net(mx.nd.array(images[:1]))  # the shapes are known from here on
    net.hybridize()
    done, file = last_checkpoint(args.out)
    if file:
        net.load_parameters(str(file))
    dist.broadcast_parameters(net.collect_params())
    trainer = gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=args.kvstore
    )
    softmax_loss = gluon.loss.SoftmaxCrossEntropyLoss()

    start = time.time()
    for epoch in range(done + 1, args.epochs + 1):
        for part in batches(len(images), epoch):
            x, y = mx.nd.array(images[part]), mx.nd.array(labels[part])
            with autograd.record():
                loss = softmax_loss(net(x), y)
            loss.backward()
            trainer.step(BATCH)
        score = accuracy(net, test_images, test_labels)
        save(net, args.out, epoch)
        if dist.rank() == 0:
            seconds = time.time() - start
            print(f"epoch {epoch}: test accuracy {score:.2%}, {seconds:.0f} s")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
