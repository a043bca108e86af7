"""Where samples come from and what is done to them, for batches made at once.

A data set of Plait's own with transforms of Plait's own describes itself by a Source,
and the batch comes from few calls of C++ instead of many of Python. What a Source gives
is what the default batchify makes of the samples one by one, bit for bit. None means:
this cannot be done at once; take the samples one by one, which also finds what is
wrong.
"""

import numpy as np

from ... import _plait
from ... import ndarray as nd
from ..nn import HybridSequential, Sequential


def leaves(transform):
    """The transforms that a composition runs, in order; None: it is more than that."""
    from .vision import transforms

    if transform._forward_hooks or transform._forward_pre_hooks:
        return None
    if type(transform) not in (transforms.Compose, Sequential, HybridSequential):
        return [transform]
    found = []
    for child in transform._children.values():
        inside = leaves(child)
        if inside is None:
            return None
        found += inside
    return found


class Pipeline:
    """Transforms of images that C++ can do: steps on bytes, then floats or a cast."""

    def __init__(self, flag=1):
        self.flag = flag
        self.steps = []
        self.to_tensor = False
        self.normalise = None  # (mean, std)
        self.cast = None
        self._maker = None

    def then(self, transform):
        """With one more transform, or None."""
        from .vision import transforms as T

        made = Pipeline(self.flag)
        made.__dict__.update(self.__dict__, steps=list(self.steps), _maker=None)
        kind = type(transform)
        if kind is T.Cast:
            # Bytes that are floats for ToTensor to make floats of: no difference.
            made.cast = np.dtype(nd.empty((0,), dtype=transform._dtype).dtype)
            known = ("float16", "float32", "float64")
            if not self.to_tensor:
                known += ("uint8", "int32")
            return made if self.cast is None and made.cast.name in known else None
        if kind is T.ToTensor and not self.to_tensor:
            if self.cast is not None and self.cast.name not in ("float32", "uint8"):
                return None
            made.to_tensor, made.cast = True, None
            return made
        if kind is T.Normalize and self.to_tensor:
            if self.normalise is not None or self.cast is not None:
                return None
            values = [np.ravel(v).tolist() for v in (transform._mean, transform._std)]
            made.normalise = values
            return made
        step = getattr(transform, "_step", None)
        if step is None or self.to_tensor or self.cast is not None:
            return None
        if kind not in T.STEPS:
            return None
        step = step()
        if step is None:
            return None
        made.steps.append(step)
        return made

    def maker(self):
        """The C++ object, made when it is needed: it cannot travel to a process."""
        if self._maker is None:
            mean, std = self.normalise or ([], [])
            dtype = self.cast or np.dtype("float32" if self.to_tensor else "uint8")
            self._maker = _plait.SampleMaker(
                self.flag, self.steps, self.to_tensor, mean, std, dtype
            )
        return self._maker

    def __getstate__(self):
        return {**self.__dict__, "_maker": None}


class Source:
    """Samples by number. Subclasses have `size` and implement _take()."""

    size = 0
    pipeline = None  # of the first field, when that is an image
    chosen = None  # numbers of samples that a view chose

    def transformed(self, transform):
        """This with a transform of the first field, or None."""
        if self.pipeline is None or not hasattr(transform, "_forward_hooks"):
            return None
        steps = leaves(transform)
        pipeline = self.pipeline
        for step in steps if steps is not None else (None,):
            pipeline = pipeline and pipeline.then(step)
        if pipeline is None:
            return None
        return self._copy(pipeline=pipeline)

    def at(self, numbers):
        """The samples that a view chose, as a source."""
        numbers = np.asarray(numbers)
        if numbers.dtype.kind not in "iu" or not self._within(numbers):
            return None
        chosen = numbers if self.chosen is None else self.chosen[numbers]
        return self._copy(chosen=chosen, size=len(numbers))

    def _copy(self, **changes):
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **changes)
        return made

    def _within(self, numbers):
        return not len(numbers) or (numbers.min() >= 0 and numbers.max() < self.size)

    def batch(self, numbers, place):
        """The batch of these samples, or None."""
        numbers = np.asarray(numbers)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not len(numbers):
            return None
        if not self._within(numbers):
            return None
        if self.chosen is not None:
            numbers = self.chosen[numbers]
        return self._take(numbers, place)

    def _take(self, numbers, place):
        raise NotImplementedError


def rows(data, numbers):
    """Rows of an array as an NDArray of its dtype, or None for other containers."""
    if isinstance(data, nd.NDArray) and data.stype == "default":
        if data.context.device_type != "gpu":
            return _plait.gather_rows(data, np.ascontiguousarray(numbers, "int64"))
        return nd.take(data, nd.array(numbers, dtype="int64", ctx=data.context))
    if isinstance(data, np.ndarray):
        taken = data[numbers]
        return nd.array(taken, dtype=taken.dtype)
    if type(data) in (list, tuple):
        taken = [data[i] for i in numbers]
        if all(type(x) in (int, float, bool) for x in taken):
            taken = np.asarray(taken)
            return nd.array(taken, dtype=taken.dtype)
    return None


class ArraySource(Source):
    """Rows of arrays; several give lists."""

    def __init__(self, columns, single):
        self._columns = columns
        self._single = single
        self.size = len(columns[0])
        first = columns[0]
        # Transforms take NDArrays, not NumPy's arrays.
        if (
            isinstance(first, nd.NDArray)
            and first.stype == "default"
            and len(first.shape) == 4
            and first.dtype == np.uint8
            and first.size
        ):
            self.pipeline = Pipeline()

    def _take(self, numbers, place):
        columns = [rows(column, numbers) for column in self._columns[1:]]
        if any(column is None for column in columns):
            return None
        first = self._columns[0]
        work = self.pipeline
        if work is not None and (work.steps or work.to_tensor or work.cast):
            taken = work.maker().rows(
                first, numbers.tolist(), place.seed, place.epoch, place.first
            )
        else:
            taken = rows(first, numbers)
        if taken is None:
            return None
        return taken if self._single else [taken, *columns]


class RecordSource(Source):
    """Images of a record file with their labels."""

    def __init__(self, path, offsets, flag):
        self._path = path
        self._offsets = np.asarray(offsets, "uint64")
        self.size = len(offsets)
        self.pipeline = Pipeline(flag)

    def _take(self, numbers, place):
        images, labels, width = self.pipeline.maker().records(
            self._path,
            self._offsets[numbers].tolist(),
            place.seed,
            place.epoch,
            place.first,
        )
        if images is None:
            return None
        if width:
            labels = np.array(labels, "float32").reshape(-1, width)
        else:
            labels = np.asarray(labels)
        return [images, nd.array(labels, dtype=labels.dtype)]


class FileSource(Source):
    """Image files with a label each."""

    def __init__(self, items, flag):
        self._items = items
        self.size = len(items)
        self.pipeline = Pipeline(flag)

    def _take(self, numbers, place):
        items = [self._items[i] for i in numbers]
        images = self.pipeline.maker().files(
            [path for path, _ in items], place.seed, place.epoch, place.first
        )
        if images is None:
            return None
        labels = np.asarray([label for _, label in items])
        return [images, nd.array(labels, dtype=labels.dtype)]
