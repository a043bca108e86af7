"""DataLoader: batches of a data set, made ahead by threads or processes."""

import zlib

import numpy as np

from ... import ndarray as nd
from ...context import cpu_pinned
from . import sampler as _sampler
from .batchify import default_batchify_fn, default_mp_batchify_fn, make_batch
from .workers import DataLoaderTimeout, ProcessPool, ThreadPool

__all__ = ["DataLoader", "default_batchify_fn", "default_mp_batchify_fn"]


class DataLoader:
    """An iterable of batches.

    batch_size with shuffle or sampler and last_batch ('keep', 'discard', 'rollover'),
    or a batch_sampler, choose the samples. batchify_fn makes a batch of a list of
    samples.

    num_workers > 0 makes batches ahead, `prefetch` at a time (2 * num_workers by
    default): by threads, or with thread_pool=False by forked processes; start_method
    chooses 'fork', 'spawn' or 'forkserver'. A batch that takes longer than `timeout`
    seconds is an error. Batches come in order. In processes the generators of random,
    NumPy and Plait are seeded for each batch, from the state of NumPy's generator:
    results do not depend on the number of workers, and epochs differ.

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
        self._dataset = dataset
        self._batch_sampler = _choose_sampler(
            dataset, batch_size, shuffle, sampler, last_batch, batch_sampler
        )
        self._batchify_fn = batchify_fn or default_batchify_fn
        self._num_workers = max(0, num_workers)
        self._prefetch = max(
            0, 2 * self._num_workers if prefetch is None else int(prefetch)
        )
        self._method = start_method or ("fork" if thread_pool is False else None)
        self._timeout = timeout
        self._pin = cpu_pinned(pin_device_id) if pin_memory else None
        self._auto_reload = auto_reload
        self._pool = None
        self._epoch = 0
        self._ready = None  # the next epoch's iterator, under auto_reload
        if auto_reload and self._num_workers > 0:
            self.refresh()

    def _start_pool(self):
        if self._pool is None:
            if self._method is None:
                self._pool = ThreadPool(
                    self._num_workers, self._dataset, self._batchify_fn
                )
            else:
                self._pool = ProcessPool(
                    self._num_workers, self._dataset, self._batchify_fn, self._method
                )
        return self._pool

    def __iter__(self):
        if self._num_workers == 0:
            return self._in_this_thread()
        if self._ready is None:
            return self._new_epoch()
        iterator, self._ready = self._ready, None
        return iterator

    def _in_this_thread(self):
        for indices in self._batch_sampler:
            yield self._placed(make_batch(self._dataset, indices, self._batchify_fn))

    def _placed(self, batch):
        return batch if self._pin is None else _as_in_context(batch, self._pin)

    def _new_epoch(self):
        self._epoch += 1
        return _Ahead(self, self._start_pool(), self._epoch)

    def _epoch_ended(self):
        if self._auto_reload and self._ready is None:
            self.refresh()

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


class _Ahead:
    """The batches of one epoch, some of them under way."""

    def __init__(self, loader, pool, epoch):
        self._loader, self._pool = loader, pool
        self._samples = iter(loader._batch_sampler)
        # Derived, not drawn: the order of samples must not depend on the number of
        # workers.
        state = np.random.get_state()
        self._seed = zlib.crc32(np.asarray(state[1]).tobytes(), state[2] + 7919 * epoch)
        self._count = 0
        self._tickets = []
        for _ in range(loader._prefetch):
            self._submit()

    def _submit(self):
        indices = next(self._samples, None)
        if indices is None:
            return
        self._count += 1
        seed = (self._seed + 1000003 * self._count) & 0x7FFFFFFF
        self._tickets.append(self._pool.submit(list(indices), seed))

    def __iter__(self):
        return self

    def __len__(self):
        return len(self._loader)

    def __next__(self):
        self._submit()
        if not self._tickets:
            self._loader._epoch_ended()
            raise StopIteration
        try:
            batch = self._pool.result(self._tickets[0], self._loader._timeout)
        except DataLoaderTimeout:
            raise  # it may still come
        except BaseException:
            self._tickets.pop(0)
            raise
        self._tickets.pop(0)
        return self._loader._placed(batch)

    next = __next__

    def __del__(self):
        try:
            for ticket in self._tickets:
                self._pool.forget(ticket)
        except Exception:
            pass  # the interpreter is shutting down


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


def _as_in_context(data, ctx):
    if isinstance(data, nd.NDArray):
        return data.as_in_context(ctx)
    if isinstance(data, (list, tuple)):
        return [_as_in_context(d, ctx) for d in data]
    return data
