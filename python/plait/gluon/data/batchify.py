"""Functions that make a batch of a list of samples."""

import numpy as np

from ... import ndarray as nd


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


def make_batch(dataset, indices, batchify):
    """The batch of these samples; at once where the data set can and batchify is
    default.
    """
    if batchify is default_batchify_fn or batchify is numpy_batchify:
        gather = getattr(dataset, "_batch", None)
        batch = gather(indices) if gather is not None else None
        if batch is not None:
            return batch
    return batchify([dataset[i] for i in indices])
