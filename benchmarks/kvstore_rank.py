"""One rank of benchmarks/kvstore.py: `allreduce`, `plait`, `mpi` or `gloo`.

`narrow` is plait with bfloat16 on the wire. Rank 0 prints "result NAME SECONDS" for the
best of several rounds; what was computed is compared with what it must be.
"""

import ctypes
import os
import sys
import time

import numpy as np
from common import resnet50_shapes

ROUNDS = 9
RANK = int(os.environ["OMPI_COMM_WORLD_RANK"])
RANKS = int(os.environ["OMPI_COMM_WORLD_SIZE"])


class Mpi:
    """Open MPI, called directly. Started before Plait, and for several threads."""

    def __init__(self):
        self.lib = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        level = ctypes.c_int()
        self.lib.MPI_Init_thread(None, None, 3, ctypes.byref(level))
        assert level.value == 3, "MPI_THREAD_MULTIPLE is not there"
        self.world, self.float, self.sum = (
            ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self.lib, name)))
            for name in ("ompi_mpi_comm_world", "ompi_mpi_float", "ompi_mpi_op_sum")
        )

    def barrier(self):
        self.lib.MPI_Barrier(self.world)

    def allreduce(self, x, y):
        """y = the sum of all ranks' x."""
        pointers = (ctypes.c_void_p(a.ctypes.data) for a in (x, y))
        failed = self.lib.MPI_Allreduce(
            *pointers, ctypes.c_int(x.size), self.float, self.sum, self.world
        )
        assert failed == 0

    def finish(self):
        self.lib.MPI_Finalize()


def best(barrier, step, rounds=ROUNDS):
    times = []
    for _ in range(rounds + 2):  # the first two warm up
        barrier()
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return min(times[2:])


def report(name, seconds):
    if RANK == 0:
        print(f"result {name} {seconds:.6f}", flush=True)


def allreduce_both():
    """25e6 floats: by MPI and by Plait, in turns, in the same processes."""
    mpi = Mpi()
    import plait as mx
    from plait import distributed as dist

    count = 25_000_000
    x, y = np.ones(count, "float32"), np.empty(count, "float32")
    a = mx.nd.ones((count,))
    a.wait_to_read()

    def by_mpi():
        mpi.allreduce(x, y)

    def by_plait():
        dist.allreduce(a, inplace=True)
        a.wait_to_read()

    for turn in range(3):
        report(f"mpi{turn}", best(mpi.barrier, by_mpi, 5))
        a[:] = 1
        a.wait_to_read()
        report(f"plait{turn}", best(mpi.barrier, by_plait, 5))
        assert y[0] == y[-1] == RANKS
        assert a[0].asscalar() == a[-1].asscalar() == RANKS**7
    mpi.barrier()


def gradients():
    rng = np.random.default_rng(RANK)
    return [rng.standard_normal(s).astype("float32") for s in resnet50_shapes()]


def expected(index):
    """The sum of all ranks' gradients of one parameter."""
    total = 0
    for rank in range(RANKS):
        rng = np.random.default_rng(rank)
        for shape in resnet50_shapes()[: index + 1]:
            x = rng.standard_normal(shape).astype("float32")
        total = total + x
    return total


def agree(values, error=1e-5):
    """Whether the first and the last are the sums."""
    for index in (0, len(values) - 1):
        np.testing.assert_allclose(
            values[index], expected(index), rtol=error, atol=error
        )


def plait_store(narrow=False):
    import plait as mx
    from plait import distributed as dist

    store = mx.kv.create("dist_sync")
    if narrow:
        store.set_gradient_compression({"type": "bfloat16"})
    arrays = [mx.nd.array(g) for g in gradients()]
    outs = [mx.nd.zeros(a.shape) for a in arrays]
    keys = list(range(len(arrays)))
    store.init(keys, outs)

    def step():
        for key in keys:
            store.push(key, arrays[key], priority=-key)
            store.pull(key, outs[key], priority=-key)
        mx.nd.waitall()

    report("plait", best(dist.barrier, step))
    agree([o.asnumpy() for o in outs], 4e-2 if narrow else 1e-5)
    if RANK == 0:
        before = dist.traffic()["payload_sent"]
        step()
        sent = dist.traffic()["payload_sent"] - before
        print(f"result bytes {sent}", flush=True)
        print(f"result model {4 * sum(a.size for a in arrays)}", flush=True)
    else:
        step()


def mpi_one_by_one():
    mpi = Mpi()
    arrays = gradients()
    outs = [np.empty_like(a) for a in arrays]

    def step():
        for a, o in zip(arrays, outs):
            mpi.allreduce(a, o)

    report("mpi", best(mpi.barrier, step))
    agree(outs)
    mpi.finish()


def gloo():
    """Buckets of 25 MB, as DistributedDataParallel makes them, all begun at once."""
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=RANK, world_size=RANKS)
    arrays = [torch.from_numpy(g) for g in gradients()]
    outs = [torch.empty_like(a) for a in arrays]
    buckets, size = [[]], 0
    for i in reversed(range(len(arrays))):
        if size > 25 << 20:
            buckets.append([])
            size = 0
        buckets[-1].append(i)
        size += 4 * arrays[i].numel()

    def step():
        flat = [torch.cat([arrays[i].view(-1) for i in b]) for b in buckets]
        works = [dist.all_reduce(f, async_op=True) for f in flat]
        for bucket, f, work in zip(buckets, flat, works):
            work.wait()
            parts = f.split([arrays[i].numel() for i in bucket])
            for i, part in zip(bucket, parts):
                outs[i].copy_(part.view_as(outs[i]))

    report("gloo", best(dist.barrier, step))
    agree([o.numpy() for o in outs])
    dist.destroy_process_group()


if __name__ == "__main__":
    modes = {"allreduce": allreduce_both, "plait": plait_store}
    modes |= {"narrow": lambda: plait_store(True)}
    modes |= {"mpi": mpi_one_by_one, "gloo": gloo}
    modes[sys.argv[1]]()
