"""What the ranks of test_kvstore_nightly.py and test_user_asks_distributed.py do."""

import pathlib
import sys
import time

import numpy as np

import plait as mx
from plait import autograd, gluon, nd
from plait import distributed as dist

RANK, SIZE = dist.rank(), dist.size()
SHAPE, BIG = (2, 3), (1200, 1200)
RATE = 2


def equal(array, expected):
    values = array.asnumpy()
    assert (values == expected).all(), (RANK, values.ravel()[:4], expected)


# The purposes of MXNet's tests of distributed stores.


def push_pull():
    """Dense arrays, small and large, in both float types; the sum goes to the rule."""
    for dtype, names in (("float32", "357"), ("float16", "468")):
        kv = mx.kv.create("dist_sync")
        shapes = dict.fromkeys(names, SHAPE) | {names * 2: BIG}
        keys = list(shapes)
        kv.init(keys, [nd.ones(shapes[k], dtype=dtype) for k in keys])
        rule = mx.optimizer.create(
            "test", rescale_grad=RATE, multi_precision=dtype == "float16"
        )
        kv.set_optimizer(rule)
        for key, shape in shapes.items():
            for i in range(3):
                kv.push(key, nd.ones(shape, dtype=dtype) * (RANK + 1))
                kv.pull(key, out=(out := nd.zeros(shape, dtype=dtype)))
                equal(out, (SIZE + 1) * SIZE * RATE / 2 * (i + 1) + 1)


def init():
    """Many keys, one by one; each is pulled as it was started."""
    kv = mx.kv.create("dist_sync")
    for shape, first, count in ((SHAPE, 200, 60), (BIG, 300, 6)):
        outs = []
        for i in range(count):
            dtype = "float32" if i < count / 2 else "float16"
            kv.init(str(first + i), [nd.ones(shape, dtype=dtype) * i])
            kv.pull(str(first + i), out=(out := nd.zeros(shape, dtype=dtype)))
            outs.append(out)
        for i, out in enumerate(outs):
            equal(out, i)


def device_sync():
    """Several devices of each rank; in place and into other arrays."""
    kv = mx.kv.create("dist_device_sync")
    kv.set_optimizer(mx.optimizer.create("test", rescale_grad=RATE))
    devices = [mx.cpu(0), mx.cpu(1)]
    kv.init(["9", "99"], [nd.ones(SHAPE), nd.ones(BIG)])
    kv.init(["10", "100"], [nd.ones(SHAPE), nd.ones(BIG)])
    for i in range(3):
        expected = (SIZE + 1) * SIZE * RATE * len(devices) / 2 * (i + 1) + 1
        for pushed, both, shape in (("9", "10", SHAPE), ("99", "100", BIG)):
            arrays = [nd.ones(shape, ctx=d) * (RANK + 1) for d in devices]
            kv.push(pushed, arrays)
            kv.pull(pushed, out=(out := nd.zeros(shape)))
            equal(out, expected)
            outs = [nd.zeros(shape) for _ in devices]
            kv.pushpull(both, arrays, out=outs)
            for out in outs:
                equal(out, expected)


def without_updater():
    """broadcast() and pushpull() as an allreduce in place."""
    kv = mx.kv.create("dist_device_sync")
    assert kv.type == "dist_device_sync"
    for key, shape in (("3", SHAPE), ("99", BIG)):
        kv.broadcast(key, nd.ones(shape) * 5, out=(out := nd.zeros(shape)))
        equal(out, 5)
        for _ in range(3):
            arrays = [nd.ones(shape, ctx=mx.cpu(j)) * (RANK + 1) for j in range(2)]
            kv.pushpull(key, arrays)
            for array in arrays:
                equal(array, (SIZE + 1) * SIZE)


def two_bits(values, residual, threshold):
    """(what is said, what is kept)"""
    total = values + residual
    said = np.where(total >= threshold, threshold, 0.0)
    said = np.where(total <= -threshold, -threshold, said).astype("float32")
    return said, total - said


def compression():
    """2 bits: first values plain, zeros, what is kept back, random gradients."""
    threshold = 0.5
    kv = mx.kv.create("dist_sync")
    kv.set_gradient_compression({"type": "2bit", "threshold": threshold})
    kv.set_optimizer(mx.optimizer.create("test", rescale_grad=RATE))
    shapes = {"1000": SHAPE, "1200": (1211, 1211), "1300": BIG}
    for key, shape in shapes.items():
        kv.init(key, nd.zeros(shape))
        kv.init(key + "1", nd.ones(shape))
        kv.pull(key + "1", out=(out := nd.zeros(shape)))
        equal(out, 1)  # not compressed
        value = 0
        each = threshold * RATE * SIZE
        for gradient, change in (
            (0, 0),
            (0.4, 0),
            (threshold - 0.4, each),
            (0.2, 0),
            (threshold - 0.2, each),
            (threshold, each),
        ):
            kv.push(key, nd.ones(shape) * gradient)
            kv.pull(key, out=(out := nd.ones(shape)))
            value += change
            equal(out, value)
    rng = np.random.RandomState(123)
    for key, shape in shapes.items():
        key += "2"
        kv.init(key, nd.zeros(shape))
        kept, value = np.zeros(shape, "float32"), np.zeros(shape, "float32")
        for _ in range(3):
            gradient = rng.rand(*shape).astype("float32")
            kv.push(key, nd.array(gradient))
            kv.pull(key, out=(out := nd.zeros(shape)))
            said, kept = two_bits(gradient, kept, threshold)
            value = value + said * SIZE * RATE
            np.testing.assert_allclose(out.asnumpy(), value, rtol=1e-5)


def parameter(**more):
    x = gluon.Parameter("x", shape=(10, 1), lr_mult=1.0, **more)
    x.initialize(ctx=[mx.cpu(0), mx.cpu(1)], init="zeros")
    return x


def trainer_types(kind):
    """Where updates run, for each kind of weights; None: not possible."""
    asynchronous = "async" in kind
    cases = [
        ("default", "default", None, True),
        ("default", "default", True, True),
        ("default", "default", False, None if asynchronous else False),
        ("default", "row_sparse", None, True),
        ("row_sparse", "row_sparse", None, True),
        ("row_sparse", "row_sparse", False, None),
    ]
    for stype, grad_stype, wanted, expected in cases:
        x = parameter(stype=stype, grad_stype=grad_stype)
        try:
            trainer = gluon.Trainer(
                [x],
                "sgd",
                {"learning_rate": 0.1},
                kvstore=mx.kv.create(kind),
                update_on_kvstore=wanted,
            )
            trainer._init_kvstore()
        except ValueError:
            assert expected is None, (stype, grad_stype, wanted)
            continue
        assert trainer._kv_initialized
        assert trainer._update_on_kvstore is expected, (stype, grad_stype, wanted)


def trainer_step():
    """The sum over ranks and devices; a new rate counts at once."""
    x = parameter()
    trainer = gluon.Trainer(
        [x], "sgd", {"learning_rate": 0.1}, kvstore=mx.kv.create("dist_sync")
    )
    value = np.float32(0)
    for rate in (0.1, 0.1, 0.5):
        trainer.set_learning_rate(rate)
        with autograd.record():
            losses = [w + 1 for w in x.list_data()]
        autograd.backward(losses)
        trainer.step(1)
        value -= np.float32(rate) * np.float32(2 * SIZE)
        for w in x.list_data():
            np.testing.assert_allclose(w.asnumpy(), value, rtol=1e-6)
    assert trainer._kv_initialized and trainer._update_on_kvstore
    try:  # a store that others share cannot be made anew
        x.set_data(nd.ones((10, 1)))
    except RuntimeError as error:
        assert "distributed" in str(error)
    else:
        raise AssertionError("the store was reset")


def invalid():
    kv = mx.kv.create("dist_sync")
    kv.init(999, nd.ones((2, 2)))
    for call in (
        lambda: kv.pull("invalid_key", out=nd.ones((2, 2)), ignore_sparse=False),
        lambda: kv.push(998, nd.ones((2, 2))),
        lambda: kv.push(999, nd.ones((2, 3))),
        lambda: kv.pull(999, out=nd.ones((3, 2))),
    ):
        try:
            call()
        except mx.MXNetError as error:
            assert "key" in str(error) or "999" in str(error), error
        else:
            raise AssertionError("it was accepted")
    dist.barrier()


# What users have asked for.


def push_before_an_optimizer():
    kv = mx.kv.create("dist_async")
    kv.init("w", nd.ones((300,)))
    try:
        kv.push("w", nd.ones((300,)))
    except mx.MXNetError as error:
        assert "'w'" in str(error) and "set_optimizer" in str(error), error
    else:
        raise AssertionError("a push without an updater was accepted")
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
    kv._barrier()
    kv.push("w", nd.ones((300,)))
    kv.pull("w", out=(out := nd.zeros((300,))))
    assert (out.asnumpy() <= 0.5).all()


def new_rate(kind):
    """w = 1, g = 1, and the rate is raised before the first push."""
    rule = mx.optimizer.SGD(learning_rate=0.01)
    kv = mx.kv.create(kind)
    kv.init("w", nd.ones((300,)))
    kv.set_optimizer(rule)
    rule.set_learning_rate(0.1)
    kv._barrier()
    if RANK == 0 or "sync" in kind.split("_"):
        kv.push("w", nd.ones((300,)) / (SIZE if "async" not in kind else 1))
    kv.pull("w", out=(out := nd.zeros((300,))))
    out.wait_to_read()
    kv._barrier()
    kv.pull("w", out=out)
    np.testing.assert_allclose(out.asnumpy(), 0.9, rtol=1e-6)


def wait_for(path):
    for _ in range(6000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError("nobody has written %s" % path)


def slow_worker(folder):
    """A rank that does nothing holds nobody up, but with a bound it does."""
    done = pathlib.Path(folder) / "done"
    kv = mx.kv.create("dist_async")
    kv.init("w", nd.zeros((3000,)))
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
    kv._barrier()
    out = nd.zeros((3000,))
    if RANK == 0:
        for i in range(20):
            kv.push("w", nd.ones((3000,)))
            kv.pull("w", out=out)
            equal(out, -(i + 1))
        done.write_text("done")
    else:
        wait_for(done)
    kv._barrier()
    kv.set_staleness(2)
    for i in range(10):
        kv.push("w", nd.ones((3000,)))
        kv.pull("w", out=out)
        values = out.asnumpy()
        # Of each other rank all but two of as many pushes, at the least.
        assert (values <= -20 - (i + 1) - (SIZE - 1) * (i - 1)).all(), (i, values[:3])
    kv._barrier()


def balance():
    """Eight large arrays and many small ones; parts give what whole arrays give."""
    sizes = [51200 + 37 * i for i in range(8)] + list(range(64, 114))
    results = []
    for elementwise in (True, False):
        kv = mx.kv.create("dist_sync")
        keys = list(range(len(sizes)))
        kv.init(keys, [nd.ones((n,)) for n in sizes])
        rule = mx.optimizer.SGD(learning_rate=0.1, momentum=0.9)
        if elementwise:
            kv.set_optimizer(rule)
        else:  # a function of the user's is given whole arrays
            update = mx.optimizer.get_updater(rule)
            kv._set_updater(lambda k, g, w, update=update: update(k, g, w))
        outs = [nd.zeros((n,)) for n in sizes]
        for step in range(3):
            grads = [nd.ones((n,)) * (step + RANK) for n in sizes]
            kv.pushpull(keys, grads, outs)
        results.append([out.asnumpy() for out in outs])
        if elementwise:
            owned = np.zeros(SIZE)
            for key in keys:
                for r, (first, last) in enumerate(kv._store.ranges(key)):
                    owned[r] += last - first
            assert owned.max() / owned.min() < 1.1, owned
    for split, whole in zip(*results):
        assert (split == whole).all()


def many_sums():
    """10,000 sums of the ranks' numbers, many of them under way at a time."""
    kv = mx.kv.create("dist_sync")
    keys = list(range(100))
    kv.init(keys, [nd.zeros((3,))] * 100)
    expected = SIZE * (SIZE - 1) / 2
    for _ in range(100):
        arrays = [nd.ones((3,)) * RANK for _ in keys]
        kv.pushpull(keys, arrays)
        for array in arrays:
            equal(array, expected)


def thousand_transfers():
    for _ in range(1000):
        equal(dist.allreduce(nd.ones((2,))), SIZE)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
    print("ok", flush=True)
