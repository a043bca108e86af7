"""Trains on Fashion-MNIST with several processes: plait-run -n 2 this file.

Each rank takes its part of every batch, so that the steps, and with them the accuracy,
are those of one process. After each epoch there is a checkpoint in --out, from which
`plait-run --restarts 1` goes on when a rank was lost, and so does a second run that is
asked for more --epochs.
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


def say(*words):
    """Once for all ranks."""
    if dist.rank() == 0:
        print(*words, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--out", default="demo/distributed", type=Path)
    parser.add_argument("--epochs", default=4, type=int)
    parser.add_argument("--kvstore", default="dist_sync")
    parser.add_argument("--images", default=60000, type=int, help="to train on")
    args = parser.parse_args()
    (images, labels), (test_images, test_labels) = load(args.data)
    images, labels = images[: args.images], labels[: args.images]
    if len(images) < BATCH:
        sys.exit(f"--images {args.images}: at least one batch of {BATCH} is needed")
    mx.random.seed(1)
    net = build()
    net.initialize(mx.init.Xavier())
    net(mx.nd.array(images[:1]))  # the shapes are known from here on
    net.hybridize()
    dist.broadcast_parameters(net.collect_params())
    trainer = gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore=args.kvstore
    )
    softmax_loss = gluon.loss.SoftmaxCrossEntropyLoss()
    say(f"{dist.size()} ranks, {args.kvstore}, {len(images)} images")
    found = dist.load_checkpoint(args.out, net, trainer)
    done = found["step"] if found else 0
    if found:
        say(f"{args.out} has the checkpoint of epoch {done}, so training goes on there")

    start = time.time()
    for epoch in range(done + 1, args.epochs + 1):
        for part in batches(len(images), epoch):
            x, y = mx.nd.array(images[part]), mx.nd.array(labels[part])
            with autograd.record():
                loss = softmax_loss(net(x), y)
            loss.backward()
            trainer.step(BATCH)
        score = accuracy(net, test_images, test_labels)
        dist.save_checkpoint(args.out, epoch, net, trainer)
        seconds = time.time() - start
        say(f"epoch {epoch}: test accuracy {score:.2%}, {seconds:.0f} s")
    if done >= args.epochs:
        say(f"all {args.epochs} epochs are done: ask for more, or for another --out")


if __name__ == "__main__":
    main()
