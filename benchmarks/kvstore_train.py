"""One rank of benchmarks/kvstore.py that trains: `overlap FOLDER` or `scaling FOLDER`.

Each rank has one core. Rank 0 prints "result NAME NUMBER".
"""

import os
import pathlib
import subprocess
import sys
import time

RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])
CORES = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {CORES[RANK % len(CORES)]})
os.environ["PLAIT_THREADS"] = "1"

import numpy as np  # noqa: E402

import plait as mx  # noqa: E402
from plait import autograd, gluon, profiler  # noqa: E402
from plait import distributed as dist  # noqa: E402
from plait.gluon import nn  # noqa: E402
from plait.gluon.model_zoo import vision  # noqa: E402

SHARE = 0.75  # of the time of compute that a transfer is to take
SGD = ("sgd", {"learning_rate": 1e-3, "momentum": 0.9})


def report(name, number):
    if RANK == 0:
        print(f"result {name} {number:.6g}", flush=True)


def vgg():
    """VGG-11 for images of 32 x 32, with 512 hidden units: 39 MB."""
    net = nn.HybridSequential()
    for width, count in ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)):
        for _ in range(count):
            net.add(nn.Conv2D(width, 3, padding=1, activation="relu"))
        net.add(nn.MaxPool2D(2))
    net.add(nn.Flatten(), nn.Dense(512, activation="relu"))
    net.add(nn.Dense(512, activation="relu"), nn.Dense(10))
    return net


class Training:
    """A network with random images, and its steps: alone, transfer only, and both."""

    def __init__(self, net, batch):
        self.net, self.batch = net, batch
        mx.random.seed(1)
        net.initialize(mx.init.Xavier())
        net.hybridize()
        rng = np.random.default_rng(RANK)
        self.x = mx.nd.array(rng.standard_normal((batch, 3, 32, 32)).astype("float32"))
        self.y = mx.nd.array(rng.integers(0, 10, batch))
        self.loss = gluon.loss.SoftmaxCrossEntropyLoss()
        net(self.x)
        self.params = net.collect_params()
        self.alone = gluon.Trainer(self.params, *SGD, kvstore=None)
        self.together = None

    def share(self):
        self.together = gluon.Trainer(self.params, *SGD, kvstore="dist_sync")

    def gradients(self):
        with autograd.record():
            loss = self.loss(self.net(self.x), self.y)
        loss.backward()
        return loss

    def compute(self):
        loss = self.gradients()
        self.alone.step(self.batch)
        return loss

    def transfer(self):
        self.together.step(self.batch * dist.size(), ignore_stale_grad=True)

    def both(self):
        loss = self.gradients()
        self.transfer()
        return loss

    def bytes(self):
        return sum(4 * p.data().size for p in self.params.values())


def seconds(step, count, barrier=dist.barrier):
    """A step's time in a row of them: from the first one's loss to that of the last, or
    to the end of all where there is no loss.
    """
    mx.nd.waitall()
    barrier()
    start = end = time.perf_counter()
    for i in range(count + 1):
        loss = step()
        if loss is None:
            mx.nd.waitall()
        else:
            loss.wait_to_read()
        end = time.perf_counter()
        if i == 0:
            start = end
    mx.nd.waitall()
    return (end - start) / count


def slowest(value):
    """Of all ranks."""
    values = np.zeros(dist.size())
    values[RANK] = value
    return float(dist.allreduce(mx.nd.array(values)).asnumpy().max())


def rounds(most, budget):
    """Numbers from 0, on all ranks the same: until `budget` seconds have passed."""
    start = time.perf_counter()
    for i in range(most):
        if i > 0 and slowest(time.perf_counter() - start) > budget:
            return
        yield i


def limit(bits):
    """The speed of this machine's side of the link."""
    words = f"tc qdisc replace dev v0 root tbf rate {bits / 1e6:.0f}mbit"
    subprocess.run(
        [*words.split(), *"burst 256kb latency 50ms".split()], check=True, timeout=30
    )


def overlap(folder):
    """Over a link that is made so slow that transfers take SHARE of the time of
    compute.
    """
    job = Training(vgg(), 256)
    job.share()
    seconds(job.both, 1)
    compute = slowest(min(seconds(job.compute, 1) for _ in rounds(4, 5)))
    bits = 8 * job.bytes() / (SHARE * compute)
    limit(bits)
    found = {"compute": [], "transfer": [], "both": []}
    for _ in rounds(6, 30):
        for name, times in found.items():
            times.append(slowest(seconds(getattr(job, name), 3)))
    for name, times in found.items():
        report(name, min(times))
    report("mbit", bits / 1e6)
    profiler.set_config(filename=str(folder / f"overlap{RANK}.json"), profile_all=True)
    dist.barrier()
    profiler.set_state("run")
    seconds(job.both, 2)
    profiler.set_state("stop")
    profiler.dump()


def scaling(_):
    """One rank alone, two that have nothing to do with each other, two that share."""
    job = Training(vision.get_resnet(1, 18, thumbnail=True, classes=10), 64)
    job.share()
    for step in (job.compute, job.both):
        seconds(step, 1)
    found = {"alone": [], "apart": [], "together": []}
    for _ in rounds(4, 20):
        dist.barrier()
        if RANK == 0:
            found["alone"].append(seconds(job.compute, 2, lambda: None))
        found["apart"].append(slowest(seconds(job.compute, 2)))
        found["together"].append(slowest(seconds(job.both, 2)))
    for name, times in found.items():
        if RANK == 0:
            report(name, min(times))


if __name__ == "__main__":
    globals()[sys.argv[1]](pathlib.Path(sys.argv[2]))
