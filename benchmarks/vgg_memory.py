"""Three steps of training VGG-16 at batch 16 (SGD with momentum); prints the peak
resident memory of the process in MB. MODULE=plait, mxnet or torch.
"""

import importlib
import os
import resource

import numpy as np

BATCH, STEPS = 16, 3
LAYERS = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)


def train_gluon(module):
    mx = importlib.import_module(module)
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    for channels in LAYERS:
        layer = nn.Conv2D(channels, 3, padding=1, activation="relu")
        net.add(layer if channels else nn.MaxPool2D(2, 2))
    for units in (4096, 4096):
        net.add(nn.Dense(units, "relu"), nn.Dropout(0.5))
    net.add(nn.Dense(1000))
    net.initialize(mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    loss_of.hybridize()
    trainer = mx.gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 1e-3, "momentum": 0.9}
    )
    x, labels = mx.nd.array(images()), mx.nd.array(np.arange(BATCH))
    for _ in range(STEPS):
        with mx.autograd.record():
            loss = loss_of(net(x), labels)
        loss.backward()
        trainer.step(BATCH)
        mx.nd.waitall()


def train_torch():
    torch = importlib.import_module("torch")
    nn = torch.nn
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    layers, inputs = [], 3
    for channels in LAYERS:
        if channels:
            layers += [nn.Conv2d(inputs, channels, 3, padding=1), nn.ReLU(inplace=True)]
            inputs = channels
        else:
            layers.append(nn.MaxPool2d(2))
    layers.append(nn.Flatten())
    for width in (512 * 49, 4096):
        layers += [nn.Linear(width, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5)]
    net = nn.Sequential(*layers, nn.Linear(4096, 1000))
    loss_of = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    x, labels = torch.from_numpy(images()), torch.arange(BATCH)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(net(x), labels).backward()
        optimizer.step()


def images():
    rng = np.random.default_rng(0)
    return rng.standard_normal((BATCH, 3, 224, 224)).astype("float32")


if __name__ == "__main__":
    module = os.environ.get("MODULE", "plait")
    train_torch() if module == "torch" else train_gluon(module)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
