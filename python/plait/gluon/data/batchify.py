"""Functions that make a batch of a list of samples."""

import numpy as np

from ... import ndarray as nd
from ...error import MXNetError, MXNetValueError, check
from .chance import of_sample

__all__ = [
    "Append",
    "AsList",
    "Group",
    "Pad",
    "Stack",
    "default_batchify_fn",
    "default_mp_batchify_fn",
]


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


def _numpy(x):
    return x.asnumpy() if isinstance(x, nd.NDArray) else np.asarray(x)


class Stack:
    """Arrays or numbers of equal shapes, along a new first axis."""

    def __call__(self, data):
        arrays = [_numpy(x) for x in data]
        shapes = {x.shape for x in arrays}
        if len(shapes) > 1:
            raise MXNetValueError(
                "Stack: samples have the shapes %s; equal ones were expected, or see "
                "Pad" % ", ".join(map(str, sorted(shapes)))
            )
        stacked = np.stack(arrays)
        return nd.array(stacked, dtype=stacked.dtype)


class Pad:
    """Arrays of different shapes, stacked; `val` fills each up to the largest size on
    every axis, or to the next multiple of round_to.
    """

    def __init__(self, val=0, dtype=None, round_to=None):
        check(
            round_to is None or round_to > 0,
            "Pad: round_to is %s; more than 0 was expected",
            round_to,
        )
        self._val, self._dtype, self._round_to = val, dtype, round_to

    def __call__(self, data):
        arrays = [_numpy(x) for x in data]
        if len({x.ndim for x in arrays}) > 1:
            raise MXNetValueError(
                "Pad: samples have %s axes; equally many were expected"
                % " and ".join(str(n) for n in sorted({x.ndim for x in arrays}))
            )
        size = np.max([x.shape for x in arrays], axis=0).astype(int)
        if self._round_to is not None:
            size = -(-size // self._round_to) * self._round_to
        dtype = arrays[0].dtype if self._dtype is None else self._dtype
        out = np.full((len(arrays), *size), self._val, dtype)
        for row, x in zip(out, arrays):
            row[tuple(slice(n) for n in x.shape)] = x
        return nd.array(out, dtype=out.dtype)


class Append:
    """A list of the samples as arrays; expand: with a new axis batch_axis."""

    def __init__(self, expand=True, batch_axis=0):
        self._expand, self._axis = expand, batch_axis

    def __call__(self, data):
        arrays = [_numpy(x) for x in data]
        if self._expand:
            arrays = [np.expand_dims(x, self._axis) for x in arrays]
        return [nd.array(x, dtype=x.dtype) for x in arrays]


class Group:
    """A function for each field of the samples; gives a tuple."""

    def __init__(self, fn, *args):
        if isinstance(fn, (list, tuple)):
            check(not args, "Group: functions beside a list of functions")
            self._functions = list(fn)
        else:
            self._functions = [fn, *args]
        for one in self._functions:
            check(callable(one), "Group: %r is no function", one)

    def __call__(self, data):
        check(
            all(len(sample) == len(self._functions) for sample in data),
            "Group: %d functions, and samples of %s fields",
            len(self._functions),
            sorted({len(sample) for sample in data}),
        )
        return tuple(f(list(column)) for f, column in zip(self._functions, zip(*data)))


class AsList:
    """The samples as they are: for texts and the like."""

    def __call__(self, data):
        return list(data)


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


class Partial:
    """A batch of which samples are missing, and why; None: all of them are."""

    __slots__ = ("batch", "errors")

    def __init__(self, batch, errors):
        self.batch, self.errors = batch, errors


class BatchMaker:
    """Makes the batches of a data set.

    At once where it can describe where its samples come from and batchify is the
    default, else of samples one by one. Both ways give the same. With `skip` a sample
    that cannot be read is left out, and the batch is a Partial.
    """

    def __init__(self, dataset, batchify, skip=False):
        self._dataset, self._batchify, self._skip = dataset, batchify, skip
        self._source = None
        if batchify is default_batchify_fn or batchify is numpy_batchify:
            describe = getattr(dataset, "_source", None)
            self._source = None if describe is None else describe()

    def __call__(self, indices, place):
        """place: a chance.Place, for what is random in the samples."""
        if self._source is not None:
            batch = self._at_once(indices, place)
            if batch is not None:
                return batch
        samples, errors = [], []
        for number, index in enumerate(indices):
            with of_sample(place, number):
                try:
                    samples.append(self._dataset[index])
                except (MXNetError, OSError) as error:
                    if not self._skip:
                        raise
                    errors.append("sample %s: %s" % (index, error))
        if errors:
            return Partial(self._batchify(samples) if samples else None, errors)
        return self._batchify(samples)

    def _at_once(self, indices, place):
        try:
            return self._source.batch(indices, place)
        except (MXNetError, OSError):
            if not self._skip:
                raise
            return None  # one by one, to find those that are broken


def as_in_context(batch, ctx):
    """A batch, an array or lists of them, on another device."""
    if isinstance(batch, nd.NDArray):
        return batch.as_in_context(ctx)
    if isinstance(batch, (list, tuple)):
        return [as_in_context(part, ctx) for part in batch]
    return batch
