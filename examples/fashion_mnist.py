"""Trains a small convolutional network on Fashion-MNIST and draws what it learnt.

Fashion-MNIST: 60,000 training and 10,000 test images of clothing, 28 x 28 pixels, ten
classes. Leaves model.params, learning-curve.png and predictions.png in --out.
"""

import argparse
import gzip
import importlib
import sys
import time
from pathlib import Path

import numpy as np

import plait as mx
from plait import autograd, gluon
from plait.gluon import nn

CLASSES = (
    "T-shirt", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip


def read_idx(path):
    """An IDX file as an array: two zero bytes, dtype, rank, sizes, then the numbers."""
    data = gzip.open(path).read()
    rank = data[3]
    shape = np.frombuffer(data, ">i4", rank, offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(shape)


def load(folder):
    """Images (n, 1, 28, 28), mean 0 and deviation 1, and labels, for train and t10k."""
    folder = Path(folder)
    if not folder.is_dir():
        sys.exit(f"{folder} is missing: apt-get install dataset-fashion-mnist")
    sets = []
    for name in ("train", "t10k"):
        images = read_idx(folder / f"{name}-images-idx3-ubyte.gz")[:, None] / 255
        labels = read_idx(folder / f"{name}-labels-idx1-ubyte.gz")
        images = ((images - 0.2860) / 0.3530).astype("float32")
        sets.append((images, labels.astype("float32")))
    return sets


def build():
    net = nn.HybridSequential()
    for channels in (16, 32):
        net.add(
            nn.Conv2D(channels, kernel_size=3, padding=1, use_bias=False),
            nn.BatchNorm(),
            nn.Activation("relu"),
            nn.MaxPool2D(pool_size=2),
        )
    net.add(nn.Dense(128, activation="relu"), nn.Dense(10))
    return net


def accuracy(net, data):
    metric = mx.metric.Accuracy()
    data.reset()
    for batch in data:
        metric.update(batch.label, [net(batch.data[0])])
    return metric.get()[1]


class Progress:
    """A bar with the time left on a terminal; elsewhere a line for each tenth."""

    def __init__(self, total):
        self.total, self.start, self.shown = total, time.time(), 0.0
        self.live = sys.stdout.isatty()

    def due(self, done):
        if self.live:
            return done == self.total or time.time() - self.shown > 0.1
        return done * 10 // self.total > (done - 1) * 10 // self.total

    def show(self, done, text):
        self.shown = time.time()
        left = (self.shown - self.start) * (self.total / done - 1)
        line = f"{100 * done // self.total:3d} %  {text}  {left:4.0f} s left"
        if self.live:
            bar = "#" * (30 * done // self.total)
            print(f"\r[{bar:<30}] {line}", end="", flush=True)
        else:
            print(line, flush=True)

    def say(self, text):
        print(("\r\033[K" if self.live else "") + text, flush=True)


def train(net, train_data, test_data, epochs, learning_rate=0.1):
    """Returns, by epoch, the loss of each step and the accuracy on the test images."""
    batch_size = train_data.batch_size
    steps = epochs * (train_data.num_data // batch_size)
    schedule = mx.lr_scheduler.CosineScheduler(
        steps, base_lr=learning_rate, final_lr=0, warmup_steps=steps // 6
    )
    trainer = gluon.Trainer(
        net.collect_params(),
        "nag",
        {"momentum": 0.9, "wd": 5e-4, "lr_scheduler": schedule},
    )
    softmax_loss = gluon.loss.SoftmaxCrossEntropyLoss()
    progress, losses, scores, done = Progress(steps), [], [], 0
    for epoch in range(1, epochs + 1):
        train_data.reset()
        pending = []  # arrays still being computed: reading one would wait for it
        for batch in train_data:
            images, labels = batch.data[0], batch.label[0]
            with autograd.record():
                loss = softmax_loss(net(images), labels)
            loss.backward()
            trainer.step(batch_size)
            pending.append(loss.mean())
            done += 1
            if progress.due(done):
                progress.show(done, f"loss {pending[-1].asscalar():.3f}")
        losses.append([loss.asscalar() for loss in pending])
        scores.append(accuracy(net, test_data))
        progress.say(
            f"epoch {epoch} of {epochs}: loss {np.mean(losses[-1]):.3f}, "
            f"test accuracy {scores[-1]:.2%}"
        )
    return losses, scores


def pyplot():
    import matplotlib

    matplotlib.use("Agg")  # draws into files, needs no screen
    return importlib.import_module("matplotlib.pyplot")


def draw_curve(losses, scores, path):
    figure, left = pyplot().subplots(figsize=(7, 4), layout="constrained")
    flat = np.concatenate(losses)
    steps = len(losses[0])
    width = max(1, len(flat) // 100)
    smooth = np.convolve(flat, np.ones(width) / width, "valid")
    left.plot(np.arange(len(smooth)) / steps, smooth, color="tab:blue")
    left.set(xlabel="epoch", ylabel="training loss", ylim=(0, None))
    right = left.twinx()
    right.plot(
        range(1, len(scores) + 1), np.multiply(scores, 100), "o-", color="tab:red"
    )
    right.set_ylabel("test accuracy, %", color="tab:red")
    left.set_title(f"Fashion-MNIST: {scores[-1]:.2%} of the test images right")
    figure.savefig(path, dpi=120)


def draw_predictions(net, images, labels, path):
    guesses = net(mx.nd.array(images)).softmax().asnumpy()
    figure, cells = pyplot().subplots(4, 8, figsize=(12, 7), layout="constrained")
    for cell, image, label, guess in zip(cells.flat, images, labels, guesses):
        best = int(guess.argmax())
        right = best == int(label)
        title = f"{CLASSES[best]} {guess[best]:.0%}"
        cell.imshow(image[0], cmap="gray_r")
        cell.set_title(
            title if right else f"{title}\n(is {CLASSES[int(label)]})",
            fontsize=9,
            color="tab:green" if right else "tab:red",
        )
        cell.axis("off")
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--out", default="demo", type=Path)
    parser.add_argument("--epochs", default=6, type=int)
    parser.add_argument("--images", default=60000, type=int, help="to train on")
    args = parser.parse_args()

    mx.random.seed(1)
    np.random.seed(1)
    (images, labels), (test_images, test_labels) = load(args.data)
    train_data = mx.io.NDArrayIter(
        images[: args.images], labels[: args.images], batch_size=128,
        shuffle=True, last_batch_handle="discard",
    )  # fmt: skip
    test_data = mx.io.NDArrayIter(test_images, test_labels, batch_size=500)

    net = build()
    net.initialize(mx.init.Xavier())
    start = time.time()
    losses, scores = train(net, train_data, test_data, args.epochs)
    seconds = time.time() - start

    out = args.out
    out.mkdir(parents=True, exist_ok=True)
    net.save_parameters(str(out / "model.params"))
    saved = build()
    saved.load_parameters(str(out / "model.params"))
    draw_curve(losses, scores, out / "learning-curve.png")
    draw_predictions(saved, test_images[:32], test_labels[:32], out / "predictions.png")
    print(f"test accuracy {scores[-1]:.2%} after {seconds:.0f} s of training")
    print(f"{out}/: model.params, learning-curve.png, predictions.png")


if __name__ == "__main__":
    main()
