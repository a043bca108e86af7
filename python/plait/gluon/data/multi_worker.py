"""The iterator over batches made by a pool of multiprocessing, for libraries written
for MXNet that subclass it. DataLoader itself does without: see workers.py.
"""

import multiprocessing.pool
import pickle

from ...context import cpu_pinned
from .batchify import as_in_context


class MultiWorkerIter:
    """Batches in order, made ahead by worker_fn in worker_pool.

    worker_fn(indices, batchify_fn, dataset) gives a batch; without a dataset it is
    called in another process and gives the batch as bytes of pickle. Subclasses
    override _push_next(), which hands the next indices to the pool, and use the
    attributes of MXNet's class.
    """

    def __init__(
        self,
        worker_pool,
        batchify_fn,
        batch_sampler,
        pin_memory=False,
        pin_device_id=0,
        worker_fn=None,
        prefetch=0,
        dataset=None,
        data_loader=None,
        timeout=120,
    ):
        self._worker_pool = worker_pool
        self._batchify_fn = batchify_fn
        self._batch_sampler = batch_sampler
        self._data_buffer = {}  # number of the batch -> its AsyncResult
        self._rcvd_idx = 0
        self._sent_idx = 0
        self._iter = iter(batch_sampler)
        self._worker_fn = worker_fn
        self._pin_memory = pin_memory
        self._pin_device_id = pin_device_id
        self._dataset = dataset
        self._data_loader = data_loader  # kept alive, as its pool would end with it
        self._timeout = timeout
        for _ in range(prefetch):
            self._push_next()

    def __len__(self):
        return len(self._batch_sampler)

    def _push_next(self):
        indices = next(self._iter, None)
        if indices is None:
            return
        self._data_buffer[self._sent_idx] = self._worker_pool.apply_async(
            self._worker_fn, (indices, self._batchify_fn, self._dataset)
        )
        self._sent_idx += 1

    def __iter__(self):
        return self

    def __next__(self):
        self._push_next()
        if self._rcvd_idx == self._sent_idx:
            raise StopIteration
        pending = self._data_buffer.pop(self._rcvd_idx)
        self._rcvd_idx += 1
        try:
            batch = pending.get(self._timeout)
        except multiprocessing.TimeoutError:
            raise multiprocessing.TimeoutError(
                "DataLoader: no batch after %g seconds; is the data set that slow? See "
                "timeout=" % self._timeout
            ) from None
        except Exception:
            self._worker_pool.terminate()
            raise
        if self._dataset is None and isinstance(batch, bytes):
            batch = pickle.loads(batch)
        if self._pin_memory:
            batch = as_in_context(batch, cpu_pinned(self._pin_device_id))
        return batch

    def next(self):
        """The next batch."""
        return next(self)
