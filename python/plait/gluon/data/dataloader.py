"""DataLoader: batches of a data set, made ahead by threads or processes."""

import logging
import random
from multiprocessing.reduction import ForkingPickler  # noqa: F401  (libraries want it)

import numpy as np

from ... import _plait
from ... import ndarray as nd
from ...context import cpu_pinned
from . import sampler as _sampler
from .batchify import (
    BatchMaker,
    Partial,
    as_in_context,
    default_batchify_fn,
    default_mp_batchify_fn,
)
from .chance import Place, seed_of_epoch
from .multi_worker import MultiWorkerIter
from .workers import DataLoaderTimeout, ProcessPool, ThreadPool

__all__ = ["DataLoader", "default_batchify_fn", "default_mp_batchify_fn"]

# MXNet's names, which libraries with loaders of their own import.
_as_in_context = as_in_context
_MultiWorkerIter = MultiWorkerIter


class DataLoader:
    """An iterable of batches.

    batch_size with shuffle or sampler and last_batch ('keep', 'discard', 'rollover'),
    or a batch_sampler, choose the samples. batchify_fn makes a batch of a list of
    samples.

    num_workers > 0 makes batches ahead, `prefetch` at a time (2 * num_workers by
    default): by threads, or with thread_pool=False by forked processes; start_method
    chooses 'fork', 'spawn' or 'forkserver'. No more batches are made ahead than
    prefetch_bytes hold, but one, if none is larger than those before; the first is made
    alone, since nobody knows how large it will be. A batch that takes longer than
    `timeout` seconds is an error. Batches come in order.

    Where data set, transforms and batchify are Plait's own, C++ makes the batches. What
    is random in Plait's transforms comes from a generator for each sample, of a seed
    that the state of NumPy's generator gives at the start of the epoch: results do not
    depend on workers, and epochs differ. In processes the generators of random, NumPy
    and Plait are seeded for each batch in the same way.

    state_dict() tells where the next batch is, also in the middle of an epoch;
    load_state_dict() goes there: the next iteration gives the rest of that epoch, and
    NumPy's and Python's generators are as they were.

    on_error='skip' leaves out samples that cannot be read (MXNet's errors, and the
    system's), and batches without any other; how many is in `skipped`, and is said with
    the reasons at the end of the epoch.

    pin_memory puts batches into memory that a GPU reads directly. auto_reload begins
    the next epoch as soon as one ends.
    """

    def __init__(
        self,
        dataset,
        batch_size=None,
        shuffle=False,
        sampler=None,
        last_batch=None,
        batch_sampler=None,
        batchify_fn=None,
        num_workers=0,
        pin_memory=False,
        pin_device_id=0,
        prefetch=None,
        thread_pool=None,
        timeout=120,
        auto_reload=False,
        start_method=None,
        prefetch_bytes=1 << 30,
        on_error="raise",
    ):
        if timeout <= 0:
            raise ValueError(
                "DataLoader: timeout is %r; expected more than 0 seconds" % (timeout,)
            )
        if start_method not in (None, "fork", "spawn", "forkserver"):
            raise ValueError(
                "DataLoader: start_method is %r; expected 'fork', 'spawn' or "
                "'forkserver'" % (start_method,)
            )
        if on_error not in ("raise", "skip"):
            raise ValueError(
                "DataLoader: on_error is %r; expected 'raise' or 'skip'" % (on_error,)
            )
        self.skipped = 0  # samples that were left out so far
        self._skip = on_error == "skip"
        self._dataset = dataset
        self._batch_sampler = _choose_sampler(
            dataset, batch_size, shuffle, sampler, last_batch, batch_sampler
        )
        self._batchify_fn = batchify_fn or default_batchify_fn
        self._num_workers = max(0, num_workers)
        self._prefetch = max(
            0, 2 * self._num_workers if prefetch is None else int(prefetch)
        )
        self._prefetch_bytes = int(prefetch_bytes)
        self._batch_bytes = None  # of the largest so far
        self._method = start_method or ("fork" if thread_pool is False else None)
        self._timeout = timeout
        self._pin_memory = pin_memory  # libraries' loaders look at it
        self._pin = cpu_pinned(pin_device_id) if pin_memory else None
        self._auto_reload = auto_reload
        self._pool = None
        self._epoch = 0
        self._ready = None  # the next epoch's iterator, under auto_reload
        self._position = None  # in the epoch that the user is in
        self._resumed = None  # what load_state_dict() was given
        if auto_reload and self._num_workers > 0:
            self.refresh()

    def _most_ahead(self):
        """How many batches are made ahead of the one that is waited for."""
        if self._batch_bytes is None:
            return 0  # the first one tells
        fits = self._prefetch_bytes // max(self._batch_bytes, 1)
        return min(self._prefetch, max(fits, 1))

    def _learn_size(self, batch):
        if isinstance(batch, Partial):
            batch = batch.batch
        self._batch_bytes = max(self._batch_bytes or 0, _bytes_of(batch))

    def _start_pool(self):
        if self._pool is None:
            if self._method is None:
                self._pool = ThreadPool(
                    self._num_workers, self._dataset, self._batchify_fn, self._skip
                )
            else:
                self._pool = ProcessPool(
                    self._num_workers,
                    self._dataset,
                    self._batchify_fn,
                    self._method,
                    self._skip,
                )
        return self._pool

    def __iter__(self):
        if self._resumed is not None or self._ready is None:
            epoch = self._new_epoch()
        else:
            epoch, self._ready = self._ready, None
        self._position = epoch.position
        return epoch

    def _placed(self, batch):
        return batch if self._pin is None else as_in_context(batch, self._pin)

    def _new_epoch(self):
        resumed, self._resumed = self._resumed, None
        if resumed is None:
            self._epoch += 1
        else:
            self._epoch = resumed["epoch"]
            _set_generators(resumed["start"])
            self._set_rollover(resumed)
        pool = self._start_pool() if self._num_workers > 0 else None
        return _Epoch(self, pool, self._epoch, resumed)

    def _set_rollover(self, state):
        if hasattr(self._batch_sampler, "_prev"):
            self._batch_sampler._prev = list(state["rollover"])

    def _epoch_ended(self, position):
        if self._position is position:
            self._position = None
        if self._auto_reload and self._ready is None:
            self.refresh()

    def state_dict(self):
        """Where the next batch is; it can be pickled."""
        position = self._position or self._resumed
        if position is None and self._ready is not None:
            position = self._ready.position
        if position is None:
            rollover = _rollover(self._batch_sampler)
            position = {"epoch": self._epoch, "rollover": rollover}
        return {"now": _generators(), **position}

    def load_state_dict(self, state):
        """Goes to a place that state_dict() of a loader with equal arguments told."""
        self._position = self._ready = None
        if "batches" in state:
            self._resumed = dict(state)
            return
        self._resumed = None
        self._epoch = state["epoch"]
        _set_generators(state["now"])
        self._set_rollover(state)

    def refresh(self):
        """Begins the next epoch now, in the background."""
        if self._num_workers > 0:
            self._ready = self._new_epoch()

    def clean(self):
        """Ends the workers; they start again when they are needed."""
        self._ready = None
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def __del__(self):
        try:
            self.clean()
        except Exception:
            pass  # the interpreter is shutting down

    def __len__(self):
        return len(self._batch_sampler)

    def __getstate__(self):
        state = dict(self.__dict__)
        state["_pool"] = state["_ready"] = None
        return state


class _Epoch:
    """The batches of one epoch; with a pool, some of them under way."""

    def __init__(self, loader, pool, number, resumed=None):
        self._loader, self._pool = loader, pool
        self.position = {
            "epoch": number,
            "batches": 0,  # delivered
            "seed": seed_of_epoch() if resumed is None else resumed["seed"],
            "start": _generators(),
            "rollover": _rollover(loader._batch_sampler),
        }
        self._samples = iter(loader._batch_sampler)
        self._planned = 0  # samples of the batches that were begun
        self._most = loader._most_ahead()
        self._make = None
        if pool is None:
            self._make = BatchMaker(loader._dataset, loader._batchify_fn, loader._skip)
        self._errors = []  # of samples that were left out
        self._tickets = []
        if resumed is not None:
            for _ in range(resumed["batches"]):
                self._planned += len(next(self._samples))
            self.position["batches"] = resumed["batches"]
            _set_generators(resumed["now"])
        if pool is not None:
            self._fill(max(self._most, min(loader._prefetch, 1)))

    def _plan(self):
        """(numbers of the samples, place) of the next batch, or None."""
        indices = next(self._samples, None)
        if indices is None:
            return None
        indices = list(indices)
        place = Place(self.position["seed"], self.position["epoch"], self._planned)
        self._planned += len(indices)
        return indices, place

    def _fill(self, count):
        """Begins batches until so many are under way."""
        while len(self._tickets) < count:
            planned = self._plan()
            if planned is None:
                return
            self._tickets.append(self._pool.submit(*planned))

    def __iter__(self):
        return self

    def __len__(self):
        return len(self._loader)

    def __next__(self):
        while True:
            if self._pool is None:
                planned = self._plan()
                batch = None if planned is None else self._make(*planned)
            else:
                batch = self._next_of_pool()
            if batch is None:
                self._say_skipped()
                self._loader._epoch_ended(self.position)
                raise StopIteration
            self.position["batches"] += 1
            if isinstance(batch, Partial):
                self._errors += batch.errors
                self._loader.skipped += len(batch.errors)
                batch = batch.batch
                if batch is None:
                    continue
            return self._loader._placed(batch)

    def _say_skipped(self):
        if self._errors:
            logging.warning(
                "DataLoader: %d samples were left out:\n%s%s",
                len(self._errors),
                "\n".join(self._errors[:10]),
                "\n..." if len(self._errors) > 10 else "",
            )
            self._errors = []

    def _next_of_pool(self):
        self._fill(self._most + 1)  # with the one that is waited for
        if not self._tickets:
            return None
        start = _plait.wait_begin()
        try:
            batch = self._pool.result(self._tickets[0], self._loader._timeout)
        except DataLoaderTimeout:
            raise  # it may still come
        except BaseException:
            self._tickets.pop(0)
            self.position["batches"] += 1
            raise
        finally:
            _plait.wait_end("DataLoader.wait", start)
        self._tickets.pop(0)
        self._loader._learn_size(batch)
        self._most = self._loader._most_ahead()
        self._fill(self._most)  # while the caller works on this one
        return batch

    next = __next__

    def __del__(self):
        try:
            for ticket in self._tickets:
                self._pool.forget(ticket)
        except Exception:
            pass  # the interpreter is shutting down


def _rollover(batch_sampler):
    """The samples that a sampler keeps for its next epoch."""
    return list(getattr(batch_sampler, "_prev", ()))


def _generators():
    return np.random.get_state(), random.getstate()


def _set_generators(states):
    np.random.set_state(states[0])
    random.setstate(states[1])


def _bytes_of(batch):
    if isinstance(batch, dict):
        return sum(map(_bytes_of, batch.values()))
    if isinstance(batch, (list, tuple)):
        return sum(map(_bytes_of, batch))
    if isinstance(batch, nd.NDArray):
        if batch.stype != "default":
            return sum(map(_bytes_of, _plait.sparse_parts(batch)))
        return batch.size * np.dtype(batch.dtype).itemsize
    return getattr(batch, "nbytes", 0)


def _choose_sampler(dataset, batch_size, shuffle, sampler, last_batch, batch_sampler):
    if batch_sampler is not None:
        if (
            batch_size is not None
            or shuffle
            or sampler is not None
            or last_batch is not None
        ):
            raise ValueError(
                "batch_size, shuffle, sampler and last_batch must not be specified "
                "if batch_sampler is specified."
            )
        return batch_sampler
    if batch_size is None:
        raise ValueError(
            "batch_size must be specified unless batch_sampler is specified"
        )
    if sampler is None:
        kind = _sampler.RandomSampler if shuffle else _sampler.SequentialSampler
        sampler = kind(len(dataset))
    elif shuffle:
        raise ValueError("shuffle must not be specified if sampler is specified")
    return _sampler.BatchSampler(sampler, batch_size, last_batch or "keep")
