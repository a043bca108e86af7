"""plait.distributed: the ranks of a job, and what they do together.

A program started by plait-run, mpirun or srun is one of several equal ranks; one that
was started by itself is the only one. The functions below are collective unless they
say otherwise: all ranks call them, in one order and with arrays of equal shapes.

    from plait import distributed as dist

    net.initialize()
    dist.broadcast_parameters(net.collect_params())
    data = dataset.shard(dist.size(), dist.rank())
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore="dist_sync")
    dist.allreduce_metric(metric)
"""

import contextlib
import math
import os

from . import _plait
from .error import MXNetTypeError, MXNetValueError, RankLost
from .ndarray import NDArray
from .ndarray import array as array_of

__all__ = [
    "rank",
    "size",
    "barrier",
    "allreduce",
    "broadcast",
    "broadcast_parameters",
    "allreduce_metric",
    "save_checkpoint",
    "load_checkpoint",
    "traffic",
    "fault",
    "abort",
    "RankLost",
    "shrink",
]


def rank():
    """The number of this process, from 0. Not collective."""
    return _plait.world_rank()


def size():
    """How many processes there are. Not collective."""
    return _plait.world_size()


def barrier():
    """Returns when all ranks have called it."""
    _plait.world_barrier()


def _dense(what, array):
    if not isinstance(array, NDArray) or array.stype != "default":
        raise MXNetTypeError(
            "%s: got %s; expected a dense NDArray"
            % (what, getattr(array, "stype", type(array).__name__))
        )
    return array


def allreduce(array, average=False, name="an array", inplace=False):
    """The sum (or the mean) of all ranks' arrays; `name` is for errors."""
    result = _dense("allreduce", array)
    if not inplace:
        result = array.copy()
    if result.size:
        _plait.world_allreduce(result, name)
    if average:
        result /= size()
    return result


def broadcast(array, root=0, name="an array"):
    """Copies rank root's array over everybody's, in place; returns it."""
    if _dense("broadcast", array).size:
        _plait.world_broadcast(array, root, name)
    return array


def broadcast_parameters(params, root=0):
    """Gives all ranks the values of rank root: of Gluon's parameters, or of a dict of
    arrays. Parameters whose shape is not known yet are an error.
    """
    if not hasattr(params, "items"):
        raise MXNetTypeError(
            "broadcast_parameters: got a %s; expected a dict or collect_params()"
            % type(params).__name__
        )
    for name, value in sorted(params.items()):
        if isinstance(value, NDArray):
            broadcast(value, root, name)
            continue
        arrays = value.list_data()
        broadcast(arrays[0], root, name)
        for other in arrays[1:]:
            arrays[0].copyto(other)


_SUMS = ("sum_metric", "num_inst", "global_sum_metric", "global_num_inst")


def allreduce_metric(metric):
    """Adds up what all ranks have counted in a metric (or a composite of them), so that
    get() is the value over all data on every rank; returns it. Once before a reset.
    """
    if hasattr(metric, "metrics"):
        for part in metric.metrics:
            allreduce_metric(part)
        return metric
    missing = [name for name in _SUMS if not hasattr(metric, name)]
    if missing:
        raise MXNetValueError(
            "allreduce_metric: %s has no %s; expected a metric that counts"
            % (type(metric).__name__, missing[0])
        )
    counts = [float(getattr(metric, name)) for name in _SUMS]
    sums = allreduce(array_of(counts, dtype="float64"), name="a metric").asnumpy()
    for name, value in zip(_SUMS, sums.tolist()):
        setattr(metric, name, int(value) if "num" in name else value)
    return metric


def save_checkpoint(folder, step, params=None, trainer=None, extra=None, keep=2):
    """Saves weights and optimizer states, each rank its part: all of it or nothing; see
    plait.checkpoint.save.
    """
    from . import checkpoint

    return checkpoint.save(folder, step, params, trainer, extra, keep)


def load_checkpoint(folder, params=None, trainer=None, step=None):
    """Loads the newest checkpoint (or that of `step`), saved by any number of ranks;
    None when there is none; see plait.checkpoint.load.
    """
    from . import checkpoint

    return checkpoint.load(folder, params, trainer, step)


def fault():
    """Why the job cannot go on; "" while all is well. Not collective."""
    return _plait.world_fault()


def traffic():
    """Bytes and messages of this rank so far, as a dict. Not collective."""
    return _plait.world_traffic()


def abort(reason):
    """Makes every transfer of every rank fail with a reason. Not collective."""
    _plait.world_abort(str(reason))


def shrink(timeout=300):
    """After a RankLost: goes on with the ranks that live; returns how many there are.

    All of them must call it; one that ends instead is left out. They get new numbers in
    their old order. Stores and trainers must then be made again, and weights and
    optimizer states loaded from a checkpoint: those in memory may be of different
    steps, and the states that the lost rank owned are gone. Needs an MPI that can,
    Open MPI 5 (plait-run, or `mpirun --with-ft ulfm`); else it is a MXNetRuntimeError.
    When not all have come in `timeout` seconds it raises, and may be called again.
    """
    _tell_launcher(f"shrinking {math.ceil(timeout) if timeout < 1e6 else 10**6}")
    try:
        _plait.world_shrink(float(timeout))
    except Exception:
        _tell_launcher("shrinking 0")
        raise
    _tell_launcher(f"shrunk {size()}")
    return size()


def _tell_launcher(text):
    """plait-run waits for those that go on, and must know who they are."""
    with contextlib.suppress(KeyError, ValueError, OSError):
        os.write(int(os.environ["PLAIT_RUN_PIPE"]), f"\x1d{text}\n".encode())
