"""What the ranks of test_faults.py do: one function for each test, by name.

A rank that outlives another prints its error as "error: TEXT" and ends well.
"""

import os
import signal
import sys

import numpy as np

import plait as mx
from plait import autograd, gluon, nd
from plait import distributed as dist

RANK, SIZE = dist.rank(), dist.size()
VICTIM = SIZE - 1
FIRST_START = os.environ.get("PLAIT_RESTART", "0") == "0"
BATCH = 12


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


class DiesInBackward(autograd.Function):
    """The identity, whose backward ends the process."""

    def forward(self, x):
        return x

    def backward(self, dy):
        die()
        return dy


class Job:
    """A net, its trainer and its data; the steps are those of any number of ranks."""

    def __init__(self, kvstore="dist_sync", optimizer="adam", on_store=None, seed=1):
        mx.random.seed(seed)
        self.net = gluon.nn.HybridSequential()
        self.net.add(
            gluon.nn.Dense(300, activation="tanh", dtype="float64", in_units=10),
            gluon.nn.Dense(2, dtype="float64", in_units=300),
        )
        self.net.initialize(mx.init.Xavier())
        self.trainer = gluon.Trainer(
            self.net.collect_params(),
            optimizer,
            {"learning_rate": 0.05},
            kvstore=kvstore,
            update_on_kvstore=on_store,
        )
        rng = np.random.RandomState(3)
        self.xs = rng.randn(40, BATCH, 10)
        self.ys = np.tanh(self.xs @ rng.randn(10, 2))

    def step(self, k, between=None):
        own = slice(BATCH * RANK // SIZE, BATCH * (RANK + 1) // SIZE)
        x = nd.array(self.xs[k][own], dtype="float64")
        y = nd.array(self.ys[k][own], dtype="float64")
        with autograd.record():
            out = self.net(x)
            if between is not None:
                out = between(out)
            loss = gluon.loss.L2Loss()(out, y)
        loss.backward()
        self.trainer.step(BATCH)

    def weights(self):
        params = self.net.collect_params().values()
        return np.concatenate([p.data().asnumpy().ravel() for p in params])


def survive(steps):
    """Runs a generator of steps until a fault ends it; prints the error."""
    try:
        for _ in steps:
            pass
    except mx.MXNetError as error:
        print("error:", error, flush=True)
        return
    raise AssertionError("nothing was noticed")


def kill_in_backward():
    job = Job()

    def steps():
        for k in range(40):
            dies = RANK == VICTIM and k == 3
            job.step(k, DiesInBackward() if dies else None)
            job.weights()
            yield

    survive(steps())


def kill_in_transfer():
    """The victim has sent some of a large array, and never all of it."""
    store = mx.kv.create("dist_sync")
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.1))
    shape = (4 << 20,)
    store.init("big", nd.zeros(shape))
    store.pull("big", out := nd.zeros(shape))
    out.wait_to_read()

    def steps():
        for k in range(100):
            before = dist.traffic()["payload_sent"]
            store.push("big", nd.ones(shape))
            store.pull("big", out)
            if RANK == VICTIM and k == 1:
                while dist.traffic()["payload_sent"] == before:
                    pass
                die()
            out.wait_to_read()
            yield

    survive(steps())


def kill_in_asynchronous_push():
    store = mx.kv.create("dist_async")
    store.init("w", nd.zeros((3000,)))
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.1))
    store._barrier()

    def steps():
        for k in range(10**6):
            store.push("w", nd.ones((3000,)))
            if RANK == VICTIM and k == 3:
                die()
            store.pull("w", out := nd.zeros((3000,)))
            out.wait_to_read()
            yield

    survive(steps())


def stop():
    """A rank that is stopped, not ended."""
    job = Job()

    def steps():
        for k in range(40):
            # Again and again: somebody may wake it up.
            while RANK == VICTIM and k == 3 and not dist.fault():
                os.kill(os.getpid(), signal.SIGSTOP)
            job.step(k)
            job.weights()
            yield

    survive(steps())


def different_shapes():
    """Every way in which ranks may disagree is an error on all of them, and no end."""
    other = RANK == 1
    store = mx.kv.create("dist_sync")
    store.init("v", nd.zeros((300,)))
    attempts = {
        "shapes": lambda: store.init("w", nd.zeros((3 + other,))),
        "dtypes": lambda: store.init("w", nd.zeros((3,), dtype=("f4", "f8")[other])),
        "names": lambda: store.init("uw"[other], nd.zeros((3,))),
        "counts": lambda: store.init(
            ["w", "x"][: 1 + other], [nd.ones(3)] * (1 + other)
        ),
        "twice": lambda: store.init("v", nd.zeros((300 + other,))),
        "twice on one": lambda: store.init("v" if other else "w", nd.zeros((3,))),
        "sums": lambda: dist.allreduce(nd.ones((9000 + other,)), name="g").asnumpy(),
        "kinds": lambda: dist.allreduce(
            nd.ones((9000,), dtype=("float32", "int32")[other]), name="g"
        ).asnumpy(),
        "values": lambda: dist.broadcast(nd.ones((9 + other,)), name="g").asnumpy(),
    }
    for name, attempt in attempts.items():
        try:
            attempt()
        except mx.MXNetError as error:
            print("error: %s: %s" % (name, error), flush=True)
        else:
            raise AssertionError("%s were accepted" % name)
    for method in (store.push, store.pull):
        try:
            method("unknown", nd.zeros((3,)))
        except mx.MXNetError as error:
            assert "'unknown' is not initialized" in str(error), error
        else:
            raise AssertionError("an unknown key was accepted")
    store.push("v", nd.ones((300,)))
    store.pull("v", out := nd.zeros((300,)))
    assert (out.asnumpy() == SIZE).all()


# Checkpoints.


def train(folder, steps="12", **options):
    """Goes on from the newest checkpoint; one after every third step."""
    job = Job(**options)
    found = dist.load_checkpoint(folder, job.net, job.trainer)
    start = found["step"] if found else 0
    print("from step", start, flush=True)
    for k in range(start, int(steps)):
        yield job, k
        job.step(k)
        if (k + 1) % 3 == 0:
            dist.save_checkpoint(folder, k + 1, job.net, job.trainer, extra={"k": k})
    if RANK == 0:
        np.save(folder + "/weights.npy", job.weights())
    job.weights()


def uninterrupted(folder, steps="12", kvstore="dist_sync", optimizer="adam"):
    for _ in train(folder, steps, kvstore=kvstore, optimizer=optimizer):
        pass


def killed(folder, where):
    """Trains; in the first start the victim dies."""
    for job, k in train(folder):
        if not FIRST_START or RANK != VICTIM:
            continue
        if where == "step" and k == 7:
            die()
        if where == "backward" and k == 7:
            job.step(k, DiesInBackward())
        if where == "checkpoint" and k == 8:
            os.fsync = die  # its part is written, but not safe
    assert where in ("step", "backward", "checkpoint")


def killed_in_manifest(folder):
    """Rank 0 dies between the parts and the manifest."""
    from plait import checkpoint

    for _, k in train(folder):
        if FIRST_START and RANK == 0 and k == 8:
            checkpoint._write_manifest = die


def full_disk(folder):
    """The third checkpoint does not fit; training goes on, and so do the others."""
    job = Job()
    job.step(0)
    dist.save_checkpoint(folder, 1, job.net, job.trainer)
    wide = nd.ones((1 << 18,))  # 1 MiB, more than there is
    try:
        dist.save_checkpoint(folder, 2, {"wide": wide}, job.trainer)
    except mx.error.MXNetOSError as error:
        print("error:", error, flush=True)
    else:
        raise AssertionError("the disk is larger than it was made")
    job.step(1)
    expected = job.weights()
    dist.save_checkpoint(folder, 3, job.net, job.trainer)
    job.step(2)
    found = dist.load_checkpoint(folder, job.net, job.trainer)
    assert found["step"] == 3, found
    assert (job.weights() == expected).all()


def load(folder, step=None):
    job = Job()
    try:
        found = dist.load_checkpoint(
            folder, job.net, job.trainer, step=step and int(step)
        )
    except mx.MXNetError as error:
        print("error:", error, flush=True)
        return
    print("found", found, float(np.abs(job.weights()).sum()), flush=True)


# Ends.


def raises():
    """One rank's program ends by an exception while the others wait for it."""
    if RANK == VICTIM:
        dist.barrier()  # all have started, and wait
        raise KeyError("no such thing")
    survive(iter(lambda: nd.waitall() or dist.barrier(), 1))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
    print("ok", flush=True)
