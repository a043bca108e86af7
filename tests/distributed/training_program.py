"""A rank that trains: the recipe of docs/distributed.md, and a network in float16."""

import pathlib
import re
import sys

import numpy as np

import plait as mx
from plait import autograd, gluon
from plait import distributed as dist
from plait.gluon import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS, BATCH = 4, 8  # a rank's


def network(dtype="float32"):
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(nn.Dense(300, activation="relu", in_units=12), nn.Dense(3, in_units=300))
    net.initialize(mx.init.Xavier())
    net.cast(dtype)
    net.hybridize()
    return net


def data():
    rng = np.random.default_rng(5)
    count = STEPS * BATCH * 2
    return rng.standard_normal((count, 12)), rng.integers(0, 3, count)


def step(net, images, labels, dtype="float32"):
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    with autograd.record():
        value = loss(net(mx.nd.array(images, dtype=dtype)), mx.nd.array(labels))
    value.backward()


def weights(net):
    return [p.data().asnumpy() for p in net.collect_params().values()]


def alone(dtype="float32", **options):
    """The weights that one process gets with the batches of two ranks."""
    net = network(dtype)
    options["learning_rate"] = 0.1
    trainer = gluon.Trainer(net.collect_params(), "sgd", options, kvstore=None)
    images, labels = data()
    for i in range(STEPS):
        part = slice(i * 2 * BATCH, (i + 1) * 2 * BATCH)
        step(net, images[part], labels[part], dtype)
        trainer.step(2 * BATCH)
    return weights(net)


def recipe():
    """What the page says, pasted into a program that has the names it uses."""
    text = (ROOT / "docs" / "distributed.md").read_text()
    code = re.search(r"## Five lines\n\n```python\n(.*?)```", text, re.S).group(1)
    setup, last = code.rsplit("\n", 2)[0], code.rsplit("\n", 2)[1]
    assert last.startswith("trainer.step("), code
    net, (images, labels) = network(), data()
    if dist.rank() == 1:  # the broadcast makes them equal
        for p in net.collect_params().values():
            p.set_data(p.data() * 2)
    scope = {"net": net, "images": images, "gluon": gluon, "batch_size": BATCH}
    exec(setup, scope)
    images, labels = scope["images"], labels[dist.rank() :: dist.size()]
    for i in range(STEPS):
        part = slice(i * BATCH, (i + 1) * BATCH)
        step(net, images[part], labels[part])
        exec(last, scope)
    for mine, one in zip(weights(net), alone()):
        np.testing.assert_allclose(mine, one, rtol=1e-4, atol=1e-6)


def half():
    """float16 with float32 masters, updated by owners and by every rank itself."""
    for on_store in (True, False):
        net, (images, labels) = network("float16"), data()
        options = {"learning_rate": 0.1, "multi_precision": True}
        trainer = gluon.Trainer(
            net.collect_params(),
            "sgd",
            options,
            kvstore="dist_sync",
            update_on_kvstore=on_store,
        )
        for i in range(STEPS):
            part = slice(i * 2 * BATCH + dist.rank(), (i + 1) * 2 * BATCH, dist.size())
            step(net, images[part], labels[part], "float16")
            trainer.step(BATCH * dist.size())
        for mine, one in zip(weights(net), alone("float16", multi_precision=True)):
            assert mine.dtype == np.float16
            np.testing.assert_allclose(mine, one, rtol=1e-2, atol=2e-3)
            total = dist.allreduce(mx.nd.array(mine, dtype="float32")).asnumpy()
            np.testing.assert_array_equal(total, 2 * mine.astype("float32"))


def metric():
    """Counted by each rank, over all of them after the reduction."""
    accuracy = mx.metric.Accuracy()
    right = [1, 1, 1] if dist.rank() == 0 else [0]
    accuracy.update([mx.nd.array([1] * len(right))], [mx.nd.array(right)])
    assert dist.allreduce_metric(accuracy).get()[1] == 0.75


def ahead():
    """Asynchronous steps that nobody waits for, with room for few results."""
    net, (images, labels) = network(), data()
    trainer = gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore="dist_async"
    )
    for i in range(200):
        part = slice(i % STEPS * BATCH, (i % STEPS + 1) * BATCH)
        step(net, images[part], labels[part])
        trainer.step(BATCH * dist.size())
    mx.nd.waitall()
    assert all(np.isfinite(w).all() for w in weights(net))
    dist.barrier()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(f"rank {dist.rank()} of {dist.size()}: {sys.argv[1]} holds")
