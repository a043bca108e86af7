"""A local store's sums over 4 devices, beside what copying a large array takes.

Prints "result NAME GIGABYTES_A_SECOND" for the best of several rounds: `copy` counts a
read and a write of each byte, `store` 4 reads and a write.
"""

import time

import numpy as np
from common import resnet50_shapes

import plait as mx

DEVICES, ROUNDS = 4, 12


def seconds(step):
    mx.nd.waitall()
    start = time.perf_counter()
    step()
    mx.nd.waitall()
    return time.perf_counter() - start


def main():
    devices = [mx.cpu(i) for i in range(DEVICES)]
    shapes = resnet50_shapes()
    values = [
        [mx.nd.full(shape, k + 1, ctx=device) for k, device in enumerate(devices)]
        for shape in shapes
    ]
    store = mx.kv.create("device")
    keys = list(range(len(shapes)))
    store.init(keys, [mx.nd.zeros(shape) for shape in shapes])
    size = sum(int(np.prod(shape)) for shape in shapes)
    x, y = mx.nd.ones((size,)), mx.nd.zeros((size,))

    best = {"copy": 1e9, "store": 1e9}
    for _ in range(ROUNDS):
        best["copy"] = min(best["copy"], seconds(lambda: x.copyto(y)))
        best["store"] = min(best["store"], seconds(lambda: store.push(keys, values)))
    out = mx.nd.zeros(shapes[-2])
    store.pull(keys[-2], out)
    assert (out.asnumpy() == sum(range(1, DEVICES + 1))).all()
    print(f"result copy {2 * 4 * size / best['copy'] / 1e9:.2f}")
    print(f"result store {5 * 4 * size / best['store'] / 1e9:.2f}")


if __name__ == "__main__":
    main()
