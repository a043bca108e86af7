"""Data parallel training around a key-value store.

Each worker takes the weights from the store, computes gradients on its part of the data
and pushes them; the store adds up what the workers push and gives it to its updater.
Here the workers are devices of one process. The loop stays as it is when they are not.
"""

import numpy as np
from net import Net, spirals

import plait as mx

WORKERS = 2
points, labels = spirals(400, seed=1)
nets = [Net(points[i::WORKERS], labels[i::WORKERS], mx.cpu(i)) for i in range(WORKERS)]
nets[0].initialize(seed=1)
eta = 0.5


def update(key, gradient, weight):
    weight -= eta / WORKERS * gradient


kv = mx.kv.create("local")
kv.init("w", nets[0].w)
kv._set_updater(update)

for step in range(1, 1501):
    kv.pull("w", out=[net.w for net in nets])
    for net in nets:
        net.forward_backward()
    kv.push("w", [net.g for net in nets])
    if step % 500 == 0:
        accuracy = np.mean([net.accuracy() for net in nets])
        print(f"step {step}: accuracy {accuracy:.1f}")

kv.pull("w", out=[net.w for net in nets])
same = np.array_equal(nets[0].w.asnumpy(), nets[1].w.asnumpy())
print("workers end with the same weights:", same)
