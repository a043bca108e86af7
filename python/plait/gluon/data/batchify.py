"""Functions that make a batch of a list of samples."""

import numpy as np

from ... import ndarray as nd
from .chance import of_sample


def default_batchify_fn(data):
    """Stacks samples: NDArrays, tuples field by field, anything else by NumPy, dtype
    kept.
    """
    first = data[0]
    if isinstance(first, nd.NDArray):
        return nd.stack(*data)
    if isinstance(first, tuple):
        return [default_batchify_fn(column) for column in zip(*data)]
    data = np.asarray(data)
    return nd.array(data, dtype=data.dtype)


# Workers hand batches over by shared memory whichever function made them.
default_mp_batchify_fn = default_batchify_fn


class AsNDArray:
    """A NumPy array of a worker, to arrive as an NDArray."""

    __slots__ = ("array",)

    def __init__(self, array):
        self.array = array


def numpy_batchify(data):
    """default_batchify_fn in a worker, where making an NDArray would only
    add a copy.
    """
    first = data[0]
    if isinstance(first, tuple):
        return [numpy_batchify(column) for column in zip(*data)]
    if isinstance(first, nd.NDArray):
        return AsNDArray(np.stack([x.asnumpy() for x in data]))
    return AsNDArray(np.asarray(data))


class BatchMaker:
    """Makes the batches of a data set.

    At once where it can describe where its samples come from and batchify is the
    default, else of samples one by one. Both ways give the same.
    """

    def __init__(self, dataset, batchify):
        self._dataset, self._batchify = dataset, batchify
        self._source = None
        if batchify is default_batchify_fn or batchify is numpy_batchify:
            describe = getattr(dataset, "_source", None)
            self._source = None if describe is None else describe()

    def __call__(self, indices, place):
        """place: a chance.Place, for what is random in the samples."""
        if self._source is not None:
            batch = self._source.batch(indices, place)
            if batch is not None:
                return batch
        samples = []
        for number, index in enumerate(indices):
            with of_sample(place, number):
                samples.append(self._dataset[index])
        return self._batchify(samples)
