"""What the ranks of test_shrink.py do: one function for each test, by name.

Ranks that outlive another go on without it, and print "on: SIZE".
"""

import os
import sys
import threading
import time

import fault_program as program
import numpy as np
from fault_program import DiesInBackward, Job, die

import plait as mx
from plait import distributed as dist
from plait import gluon, nd

ME, ALL = dist.rank(), dist.size()  # at the start


def go_on(error):
    """What a script does when a rank is lost."""
    print("error:", error, flush=True)
    size = dist.shrink(timeout=60)
    program.RANK, program.SIZE = dist.rank(), size
    print("on:", size, flush=True)


def train(folder, before=lambda job, k: None, steps=12):
    """Trains with whoever is left; a checkpoint after every third step."""
    job = Job()
    while True:
        try:
            job.trainer = gluon.Trainer(
                job.net.collect_params(),
                "adam",
                {"learning_rate": 0.05},
                kvstore="dist_sync",
            )
            found = dist.load_checkpoint(folder, job.net, job.trainer)
            start = found["step"] if found else 0
            print("from step", start, flush=True)
            for k in range(start, steps):
                before(job, k)
                job.step(k)
                if (k + 1) % 3 == 0:
                    dist.save_checkpoint(folder, k + 1, job.net, job.trainer)
            weights = job.weights()
            dist.barrier()
            if dist.rank() == 0:
                np.save(folder + "/weights.npy", weights)
            return
        except dist.RankLost as error:
            go_on(error)


def uninterrupted(folder, steps="12"):
    train(folder, steps=int(steps))


def killed(folder, victim, where):
    """One rank dies, in the first start."""

    def before(job, k):
        if ME != int(victim) or dist.size() < ALL:
            return
        if where == "step" and k == 7:
            die()
        if where == "backward" and k == 7:
            job.step(k, DiesInBackward())
        if where == "error" and k == 7:
            raise KeyError("a rank's own error")
        if where == "checkpoint" and k == 8:
            os.fsync = die  # its part is written, but not safe

    train(folder, before)


def two_lost(folder, how):
    """The second is lost while the others already wait for it to go on."""
    if ME == 1:
        dist.shrink = lambda **_: die() if how == "killed" else sys.exit(0)
    killed(folder, ALL - 1, "step")


def slow(folder):
    """A survivor comes to it only after some time."""
    if ME == 1:
        shrink = dist.shrink
        dist.shrink = lambda **options: time.sleep(3) or shrink(**options)
    killed(folder, str(ALL - 1), "step")


def in_place():
    """Sums in place that a loss has cut off do not reach into what comes after."""
    x = nd.ones((1 << 20,))
    try:
        for k in range(1000):
            if ME == ALL - 1 and k == 3:
                threading.Timer(0.02, die).start()
            dist.allreduce(x, inplace=True)
            x.wait_to_read()
            x[:] = 1
    except dist.RankLost as error:
        go_on(error)
    for k in range(20):
        x[:] = k
        dist.allreduce(x, inplace=True)
        assert (x.asnumpy() == k * dist.size()).all()


def misuse():
    """Errors that leave the job as it is."""
    for call, text in (
        (lambda: dist.shrink(), "no rank is lost"),
        (lambda: dist.shrink(timeout=0), "above 0"),
        (lambda: dist.shrink(timeout=float("nan")), "above 0"),
    ):
        try:
            call()
        except mx.MXNetError as error:
            assert text in str(error), error
        else:
            raise AssertionError("nothing was said")
    assert dist.allreduce(nd.ones(3)).asnumpy().sum() == 3 * ALL


def old_stores():
    """What was made before the loss says what to do."""
    store = mx.kv.create("dist_sync")
    store.init("w", nd.zeros((3000,)))
    if ME == 0:
        die()
    try:
        dist.barrier()
        raise AssertionError("nothing was noticed")
    except dist.RankLost as error:
        go_on(error)
    try:
        store.push("w", nd.ones((3000,)))
        store.pull("w", out := nd.zeros((3000,)))
        out.wait_to_read()
        raise AssertionError("an old store works")
    except mx.MXNetError as error:
        assert "must be made again" in str(error), error
        assert not isinstance(error, dist.RankLost)
    for kind in ("dist_sync", "dist_async"):
        store = mx.kv.create(kind)
        store.init("w", nd.zeros((3000,)))
        store.set_optimizer(mx.optimizer.Test())
        store._barrier()  # a push may come to who has no optimizer yet
        store.push("w", nd.ones((3000,)))
        store._barrier()
        store.pull("w", out := nd.zeros((3000,)))
        print(kind, out.asnumpy()[0], flush=True)


def cannot():
    """With an MPI without ULFM."""
    if ME == ALL - 1:
        die()
    try:
        dist.barrier()
    except dist.RankLost:
        try:
            dist.shrink()
        except mx.MXNetError as error:
            print("error:", error, flush=True)


def comes_never():
    """A rank neither ends nor comes: an error in time."""
    if ME == 0:
        die()
    try:
        dist.barrier()
    except dist.RankLost:
        if ME == 1:
            time.sleep(8)
            return
    for _ in range(2):
        try:
            dist.shrink(timeout=1)
        except mx.MXNetError as error:
            print("error:", error, flush=True)


def random_kill(folder, seed, second=None):
    """Somebody dies at any moment, and perhaps another while the rest goes on."""
    rng = np.random.RandomState(int(seed))
    victims, when, later = rng.permutation(ALL), rng.uniform(0, 0.7), rng.rand() * 0.15
    if ME == victims[0]:
        threading.Timer(when, die).start()
    if ME == victims[1] and second:
        shrink = dist.shrink

        def shrink_and_die(timeout):
            threading.Timer(later, die).start()
            return shrink(timeout)

        dist.shrink = shrink_and_die
    train(folder, steps=36)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
    print("ok", flush=True)
