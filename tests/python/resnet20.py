"""Trains a ResNet-20 on a part of Fashion-MNIST and prints its accuracy.

usage: python resnet20.py IMAGES EPOCHS [float32|bfloat16|float16]

Half types train by contrib.amp, with scaled losses, and what was trained is also
converted for prediction: a second line.
"""

import gzip
import sys
from pathlib import Path

import numpy as np

import plait as mx
from plait import autograd, gluon
from plait.gluon.model_zoo import vision

DATA = Path("/usr/share/datasets/fashion-mnist")


def read(name, count):
    """Images (count, 1, 28, 28), mean 0 and deviation 1, and labels."""
    pixels = gzip.open(DATA / (name + "-images-idx3-ubyte.gz")).read()
    labels = gzip.open(DATA / (name + "-labels-idx1-ubyte.gz")).read()
    images = np.frombuffer(pixels, np.uint8, count * 784, 16).reshape(count, 1, 28, 28)
    images = (images.astype("float32") - 73) / 90
    return images, np.frombuffer(labels, np.uint8, count, 8).astype("float32")


def network():
    net = vision.ResNetV1(
        vision.BasicBlockV1, [3, 3, 3], [16, 16, 32, 64], classes=10, thumbnail=True
    )
    net.initialize(mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2))
    net.hybridize()
    return net


def main(count, epochs, dtype):
    if dtype != "float32":
        from plait.contrib import amp

        amp.init(dtype)
    mx.random.seed(7)
    images, labels = read("train", count)
    net = network()
    batch = 50
    steps = epochs * (count // batch)
    trainer = gluon.Trainer(
        net.collect_params(),
        "sgd",
        {
            "momentum": 0.9,
            "wd": 1e-4,
            "lr_scheduler": mx.lr_scheduler.CosineScheduler(steps, 0.1, 0.001),
        },
    )
    if dtype != "float32":
        amp.init_trainer(trainer)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    random = np.random.RandomState(3)
    for _ in range(epochs):
        order = random.permutation(count)
        for i in range(0, count - batch + 1, batch):
            part = order[i : i + batch]
            with autograd.record():
                loss = loss_of(
                    net(mx.nd.array(images[part])), mx.nd.array(labels[part])
                )
                if dtype != "float32":
                    with amp.scale_loss(loss, trainer) as scaled:
                        autograd.backward(scaled)
            if dtype == "float32":
                loss.backward()
            trainer.step(batch)
    report(net)
    if dtype != "float32":
        half = amp.convert_hybrid_block(net, dtype)
        half.hybridize()
        report(half)


def report(net):
    images, labels = read("t10k", 5000)
    right = 0
    for i in range(0, 5000, 500):
        out = net(mx.nd.array(images[i : i + 500])).astype("float32").asnumpy()
        right += int((out.argmax(1) == labels[i : i + 500]).sum())
    print("accuracy %.4f" % (right / 5000))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:] or ["float32"])
