"""PrefetchingIter: fetches the next batch in a thread while the current one is used."""

from concurrent.futures import ThreadPoolExecutor

from .. import _plait
from ..error import check
from .base import DataBatch, DataDesc, DataIter


def _next(iterator):
    """The next batch, or None at the end: a future cannot carry StopIteration."""
    try:
        return iterator.next()
    except StopIteration:
        return None


class PrefetchingIter(DataIter):
    """Joins iterators; each has a thread that is one batch ahead.

    rename_data and rename_label: for each iterator a dict from old to new names. An
    exception of an iterator is raised by the next() that would have given its batch.
    """

    def __init__(self, iters, rename_data=None, rename_label=None):
        self.iters = iters if isinstance(iters, list) else [iters]
        check(self.iters, "PrefetchingIter: no iterators are given")
        self.n_iter = len(self.iters)
        self.rename_data = rename_data
        self.rename_label = rename_label
        super().__init__(self.provide_data[0][1][0])
        self.current_batch = None
        self._pools = [ThreadPoolExecutor(1, "plait-prefetch") for _ in self.iters]
        self._begin(self._states())

    def _states(self):
        """Where the iterators are, if all can tell."""
        if all(hasattr(it, "state_dict") for it in self.iters):
            return [it.state_dict() for it in self.iters]
        return None

    def _begin(self, states):
        """Begins an epoch, or what is left of one."""
        self._start = states
        self._delivered = 0  # since then
        self._fetch()

    def _fetch(self):
        self._pending = [
            pool.submit(_next, it) for pool, it in zip(self._pools, self.iters)
        ]

    def __del__(self):
        for pool in getattr(self, "_pools", ()):
            pool.shutdown(wait=False)

    def _described(self, what, renames):
        result = []
        for number, iterator in enumerate(self.iters):
            for desc in getattr(iterator, what):
                if renames is None:
                    result.append(desc)
                elif isinstance(desc, DataDesc):
                    result.append(
                        DataDesc(renames[number][desc.name], desc.shape, desc.dtype)
                    )
                else:
                    result.append(DataDesc(*desc))
        return result

    @property
    def provide_data(self):
        """Names and shapes of the data of a batch."""
        return self._described("provide_data", self.rename_data)

    @property
    def provide_label(self):
        """Names and shapes of the labels of a batch."""
        return self._described("provide_label", self.rename_label)

    def _settle(self):
        for future in self._pending:
            future.exception()  # waits; an error belongs to the epoch that is left

    def reset(self):
        self._settle()
        for iterator in self.iters:
            iterator.reset()
        self._begin(self._states())

    def state_dict(self):
        """Where the next batch is: where the iterators were, and how many batches came
        since then.
        """
        check(
            self._start is not None,
            "PrefetchingIter: an iterator without state_dict() cannot tell where it is",
        )
        return {"start": self._start, "delivered": self._delivered}

    def load_state_dict(self, state):
        """Goes to a place that state_dict() told; the batches since the start of the
        epoch are made again, and dropped.
        """
        self._settle()
        for iterator, start in zip(self.iters, state["start"]):
            iterator.load_state_dict(start)
        self._begin(state["start"])
        for _ in range(state["delivered"]):
            self.next()

    def iter_next(self):
        start = _plait.wait_begin()
        batches = [future.result() for future in self._pending]
        _plait.wait_end("PrefetchingIter.wait", start)
        ended = [batch is None for batch in batches]
        check(
            all(ended) or not any(ended), "Number of entry mismatches between iterators"
        )
        if ended[0]:
            return False
        first = batches[0]
        check(
            all(b.pad == first.pad for b in batches),
            "Number of entry mismatches between iterators",
        )
        self.current_batch = DataBatch(
            [x for b in batches for x in b.data],
            [x for b in batches for x in b.label or ()],
            first.pad,
            first.index,
            provide_data=self.provide_data,
            provide_label=self.provide_label,
        )
        self._fetch()
        self._delivered += 1
        return True

    def next(self):
        if not self.iter_next():
            raise StopIteration
        return self.current_batch

    def getdata(self):
        return self.current_batch.data

    def getlabel(self):
        return self.current_batch.label

    def getindex(self):
        return self.current_batch.index

    def getpad(self):
        return self.current_batch.pad
