"""Data sets: samples by number, and views of them."""

import os

from ... import ndarray as nd
from ...error import check

__all__ = ["Dataset", "SimpleDataset", "ArrayDataset", "RecordFileDataset"]


class Dataset:
    """Base. Subclasses implement __getitem__(number) and __len__()."""

    def __getitem__(self, idx):
        raise NotImplementedError(
            "%s: __getitem__ is not implemented" % type(self).__name__
        )

    def __len__(self):
        raise NotImplementedError(
            "%s: __len__ is not implemented" % type(self).__name__
        )

    def _source(self):
        """A sources.Source that makes batches of these samples at once, or None."""
        return None

    def filter(self, fn):
        """The samples for which fn(sample) is true."""
        from .sampler import FilterSampler

        return _SampledDataset(self, FilterSampler(fn, self))

    def shard(self, num_shards, index):
        """Part `index` of `num_shards` nearly equal parts in a row."""
        check(
            num_shards > 0,
            "Number of shards must be greater than 0, got %s",
            num_shards,
        )
        check(
            0 <= index < num_shards,
            "Shard index of out bound: %d out of %d",
            index,
            num_shards,
        )
        from .sampler import SequentialSampler

        each, more = divmod(len(self), num_shards)
        begin = each * index + min(index, more)
        return _SampledDataset(self, SequentialSampler(each + (index < more), begin))

    def take(self, count):
        """The first `count` samples; None takes all."""
        from .sampler import SequentialSampler

        count = len(self) if count is None else min(count, len(self))
        return _SampledDataset(self, SequentialSampler(count))

    def sample(self, sampler):
        """The samples that a sampler chooses."""
        from .sampler import Sampler

        if not isinstance(sampler, Sampler):
            raise TypeError(
                "Invalid sampler type: %s. Expected gluon.data.Sampler instead."
                % type(sampler)
            )
        return _SampledDataset(self, sampler)

    def transform(self, fn, lazy=True):
        """fn of each sample (tuples are unpacked), when it is taken or (lazy=False)
        now.
        """
        transformed = _LazyTransformDataset(self, fn)
        return transformed if lazy else SimpleDataset([x for x in transformed])

    def transform_first(self, fn, lazy=True):
        """fn of the first element of each sample."""
        return self.transform(_TransformFirstClosure(fn), lazy)

    def __iter__(self):
        return (self[i] for i in range(len(self)))


class SimpleDataset(Dataset):
    """Samples of a list or anything like it."""

    def __init__(self, data):
        self._data = data

    def __len__(self):
        return len(self._data)

    def __getitem__(self, idx):
        return self._data[idx]


class _LazyTransformDataset(Dataset):
    """Samples transformed when they are taken."""

    def __init__(self, data, fn):
        self._data = data
        self._fn = fn

    def __len__(self):
        return len(self._data)

    def __getitem__(self, idx):
        item = self._data[idx]
        return self._fn(*item) if isinstance(item, tuple) else self._fn(item)

    def _source(self):
        source = _source_of(self._data)
        if source is None or type(self._fn) is not _TransformFirstClosure:
            return None
        return source.transformed(self._fn._fn)


class _TransformFirstClosure:
    """A function of the first argument; a class, so that it can be pickled."""

    def __init__(self, fn):
        self._fn = fn

    def __call__(self, x, *args):
        return (self._fn(x),) + args if args else self._fn(x)


class _SampledDataset(Dataset):
    """The samples that a sampler chose, once."""

    def __init__(self, dataset, sampler):
        self._dataset = dataset
        self._indices = list(sampler)

    def __len__(self):
        return len(self._indices)

    def __getitem__(self, idx):
        return self._dataset[self._indices[idx]]

    def _source(self):
        source = _source_of(self._dataset)
        return None if source is None else source.at(self._indices)


def _source_of(dataset):
    make = getattr(dataset, "_source", None)
    return None if make is None else make()


class ArrayDataset(Dataset):
    """Rows of one or several arrays or lists; several give tuples."""

    def __init__(self, *args):
        check(args, "Needs at least 1 arrays")
        self._length = len(args[0])
        self._data = []
        for i, data in enumerate(args):
            check(
                len(data) == self._length,
                "All arrays must have the same length; array[0] has "
                "length %d while array[%d] has %d.",
                self._length,
                i,
                len(data),
            )
            if isinstance(data, nd.NDArray) and len(data.shape) == 1:
                data = data.asnumpy()  # numbers are cheaper to take from NumPy
            self._data.append(data)

    def __getitem__(self, idx):
        if len(self._data) == 1:
            return self._data[0][idx]
        return tuple(data[idx] for data in self._data)

    def __len__(self):
        return self._length

    def _source(self):
        if type(self).__getitem__ is not ArrayDataset.__getitem__:
            return None
        from .sources import ArraySource

        return ArraySource(self._data, len(self._data) == 1)


class RecordFileDataset(Dataset):
    """Raw records of a .rec file with its .idx file."""

    def __init__(self, filename):
        from ... import recordio

        self.idx_file = os.path.splitext(filename)[0] + ".idx"
        self.filename = filename
        self._record = recordio.MXIndexedRecordIO(self.idx_file, self.filename, "r")

    def __getitem__(self, idx):
        return self._record.read_idx(self._record.keys[idx])

    def __len__(self):
        return len(self._record.keys)


class _DownloadedDataset(Dataset):
    """Base of data sets whose files are in a folder: _get_data() sets _data
    and _label.
    """

    def __init__(self, root, transform):
        self._transform = transform
        self._data = None
        self._label = None
        self._root = os.path.expanduser(root)
        self._get_data()

    def __getitem__(self, idx):
        if self._transform is not None:
            return self._transform(self._data[idx], self._label[idx])
        return self._data[idx], self._label[idx]

    def __len__(self):
        return len(self._label)

    def _source(self):
        if (
            self._transform is not None
            or type(self).__getitem__ is not _DownloadedDataset.__getitem__
        ):
            return None
        from .sources import ArraySource

        return ArraySource([self._data, self._label], False)

    def _get_data(self):
        raise NotImplementedError
