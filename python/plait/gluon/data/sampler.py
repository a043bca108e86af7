"""Samplers: the order in which samples are taken."""

from itertools import islice

import numpy as np

__all__ = [
    "Sampler",
    "SequentialSampler",
    "RandomSampler",
    "FilterSampler",
    "BatchSampler",
]


class Sampler:
    """Base: an iterable of sample numbers, with a length."""

    def __iter__(self):
        raise NotImplementedError

    def __len__(self):
        raise NotImplementedError


class SequentialSampler(Sampler):
    """start, start + 1, ..."""

    def __init__(self, length, start=0):
        self._length = length
        self._start = start

    def __iter__(self):
        return iter(range(self._start, self._start + self._length))

    def __len__(self):
        return self._length


class RandomSampler(Sampler):
    """A new random order each time, by NumPy's global generator."""

    def __init__(self, length):
        self._length = length

    def __iter__(self):
        indices = np.arange(self._length)
        np.random.shuffle(indices)
        return iter(indices.tolist())

    def __len__(self):
        return self._length


class FilterSampler(Sampler):
    """The numbers of the samples for which fn(sample) is true."""

    def __init__(self, fn, dataset):
        self._fn = fn
        self._dataset = dataset
        self._indices = [i for i in range(len(dataset)) if fn(dataset[i])]

    def __iter__(self):
        return iter(self._indices)

    def __len__(self):
        return len(self._indices)


class BatchSampler(Sampler):
    """Lists of `batch_size` numbers of another sampler.

    last_batch: what becomes of the rest: 'keep' (a smaller batch), 'discard', or
    'rollover' (it begins the next epoch).
    """

    def __init__(self, sampler, batch_size, last_batch="keep"):
        self._sampler = sampler
        self._batch_size = batch_size
        self._last_batch = last_batch
        self._prev = []

    def _check(self):
        if self._last_batch not in ("keep", "discard", "rollover"):
            raise ValueError(
                "last_batch must be one of 'keep', 'discard', or 'rollover', but "
                "got %s" % self._last_batch
            )

    def __iter__(self):
        batch, self._prev = self._prev, []
        numbers = iter(self._sampler)
        while True:
            batch += islice(numbers, self._batch_size - len(batch))
            if len(batch) < self._batch_size:
                break
            yield batch
            batch = []
        if batch:
            self._check()
            if self._last_batch == "keep":
                yield batch
            elif self._last_batch == "rollover":
                self._prev = batch

    def __len__(self):
        self._check()
        if self._last_batch == "keep":
            return -(-len(self._sampler) // self._batch_size)
        kept = len(self._prev) if self._last_batch == "rollover" else 0
        return (kept + len(self._sampler)) // self._batch_size
