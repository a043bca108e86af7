"""NDArrayIter: batches from arrays in memory."""

from collections import OrderedDict

import numpy as np

from .. import _plait
from .. import ndarray as nd
from ..error import check
from .base import DataBatch, DataDesc, DataIter

try:
    import h5py
except ImportError:
    h5py = None


def _is_h5(x):
    return h5py is not None and isinstance(x, h5py.Dataset)


def _named(data, default_name, allow_empty):
    """A sorted list of (name, array) from one array, a list or a dict of them."""
    check(data is not None or allow_empty, "NDArrayIter: data is missing")
    if data is None:
        data = []
    if isinstance(data, (np.ndarray, nd.NDArray)) or _is_h5(data):
        data = [data]
    if isinstance(data, list):
        check(data or allow_empty, "NDArrayIter: the list of data is empty")
        names = (
            [default_name]
            if len(data) == 1
            else ["_%d_%s" % (i, default_name) for i in range(len(data))]
        )
        data = OrderedDict(zip(names, data))
    if not isinstance(data, dict):
        raise TypeError(
            "Input must be NDArray, numpy.ndarray, h5py.Dataset a list of them or "
            "dict with them as values, got %s" % type(data).__name__
        )
    return sorted((name, _array(name, value)) for name, value in data.items())


def _array(name, value):
    if isinstance(value, nd.NDArray) or _is_h5(value):
        return value
    try:
        return nd.array(value)
    except Exception as e:
        raise TypeError(
            "Invalid type '%s' for %s, should be NDArray, numpy.ndarray or "
            "h5py.Dataset" % (type(value), name)
        ) from e


class NDArrayIter(DataIter):
    """Batches of rows of arrays, in order or shuffled at every reset.

    data and label: an array, a list, or a dict by name. last_batch_handle: what becomes
    of the rows that do not fill a batch: 'pad' fills up from the start, 'discard' drops
    them, 'roll_over' keeps them for the next epoch. layout tells by its N which axis is
    cut.
    """

    def __init__(
        self,
        data,
        label=None,
        batch_size=1,
        shuffle=False,
        last_batch_handle="pad",
        data_name="data",
        label_name="softmax_label",
        layout="NCHW",
    ):
        super().__init__(batch_size)
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise ValueError(
                "NDArrayIter: last_batch_handle is %r; expected 'pad', 'discard' or "
                "'roll_over'" % (last_batch_handle,)
            )
        self.data = _named(data, data_name, False)
        self.label = _named(label, label_name, True)
        self.layout = layout
        self.shuffle = shuffle
        self.last_batch_handle = last_batch_handle
        sparse = any(
            getattr(x, "stype", None) == "csr" for _, x in self.data + self.label
        )
        if sparse and last_batch_handle != "discard":
            raise NotImplementedError(
                "`NDArrayIter` only supports ``CSRNDArray`` with "
                "`last_batch_handle` set to `discard`."
            )
        self.num_data = self.data[0][1].shape[self._axis(self.data[0][1])]
        self.num_source = len(self.data) + len(self.label)
        self.idx = np.arange(self.num_data)
        self._sources = {}  # shuffled copies of sparse arrays, by name
        self._kept = None  # rows of the last epoch that did not fill a batch
        self.hard_reset()

    def _axis(self, array):
        axis = self.layout.find("N") if self.layout else 0
        return axis if 0 <= axis < len(array.shape) else 0

    def _describe(self, named):
        result = []
        for name, array in named:
            shape = list(array.shape)
            shape[self._axis(array)] = self.batch_size
            result.append(DataDesc(name, tuple(shape), array.dtype, layout=self.layout))
        return result

    @property
    def provide_data(self):
        """Names and shapes of the data of a batch."""
        return self._describe(self.data)

    @property
    def provide_label(self):
        """Names and shapes of the labels of a batch."""
        return self._describe(self.label)

    def hard_reset(self):
        """Goes back to the start, and forgets rows that were kept for this epoch."""
        self._kept = None
        self.cursor = -self.batch_size
        self._shuffle()

    def reset(self):
        """Starts the next epoch."""
        self._shuffle()
        rolled = (
            self.last_batch_handle == "roll_over"
            and self._kept is not None
            and self.num_data - self.batch_size < self.cursor < self.num_data
        )
        if rolled:
            self.cursor = self.cursor - self.num_data - self.batch_size
        else:
            self.cursor = -self.batch_size

    def _shuffle(self):
        if not self.shuffle:
            return
        np.random.shuffle(self.idx)
        self._order_sparse()

    def _order_sparse(self):
        """Sparse arrays are shuffled as a whole."""
        if not self.shuffle:
            return
        for name, array in self.data + self.label:
            if getattr(array, "stype", None) == "csr":
                self._sources[name] = nd.sparse.array(array.asscipy()[self.idx])

    def state_dict(self):
        """Where the next batch is, and NumPy's generator, which shuffles the epochs to
        come; it can be pickled.
        """
        return {
            "cursor": self.cursor,
            "order": self.idx.copy(),
            "kept": None if self._kept is None else np.array(self._kept),
            "numpy": np.random.get_state(),
        }

    def load_state_dict(self, state):
        """Goes to a place that state_dict() of an iterator of the same arrays told."""
        check(
            len(state["order"]) == self.num_data,
            "NDArrayIter: a state of %d rows; the arrays have %d",
            len(state["order"]),
            self.num_data,
        )
        self.cursor = state["cursor"]
        self.idx = np.array(state["order"])
        self._kept = None if state["kept"] is None else np.array(state["kept"])
        self._order_sparse()
        np.random.set_state(state["numpy"])

    def iter_next(self):
        self.cursor += self.batch_size
        return self.cursor < self.num_data

    def next(self):
        if not self.iter_next():
            raise StopIteration
        rows = self._rows()
        if len(rows) < self.batch_size:
            self._kept = rows if self.last_batch_handle == "roll_over" else None
            raise StopIteration
        batch = DataBatch(
            data=self._take(self.data, rows),
            label=self._take(self.label, rows),
            pad=self.getpad(),
            index=None,
        )
        if self.cursor < 0:
            self._kept = None
        return batch

    def _rows(self):
        """The rows of the current batch, as numbers into the arrays."""
        check(self.cursor < self.num_data, "DataIter needs reset.")
        begin, end = self.cursor, self.cursor + self.batch_size
        if begin < 0:
            kept = self.idx[:0] if self._kept is None else self._kept
            return np.concatenate([kept, self.idx[: max(end, 0)]])
        if end > self.num_data and self.last_batch_handle == "pad":
            return self.idx[np.arange(begin, end) % self.num_data]
        return self.idx[begin:end]

    def _take(self, named, rows):
        contiguous = (
            len(rows) > 0 and not self.shuffle and bool((np.diff(rows) == 1).all())
        )
        return [self._take_one(name, array, rows, contiguous) for name, array in named]

    def _take_one(self, name, array, rows, contiguous):
        axis = self._axis(array)
        if getattr(array, "stype", None) == "csr":
            begin = self.cursor  # sources are shuffled as a whole
            return self._sources.get(name, array)[begin : begin + len(rows)]
        if _is_h5(array):
            unique, back = np.unique(rows, return_inverse=True)
            return nd.array(array[unique][back])  # h5py wants ascending numbers
        if axis == 0 and array.context.device_type != "gpu":
            return _plait.gather_rows(array, np.ascontiguousarray(rows, "int64"))
        if contiguous:
            return nd.slice_axis(
                array, axis=axis, begin=int(rows[0]), end=int(rows[-1]) + 1
            )
        where = nd.array(rows, dtype="int64", ctx=array.context)
        return nd.take(array, where, axis=axis)

    def getdata(self):
        return self._take(self.data, self._rows())

    def getlabel(self):
        return self._take(self.label, self._rows())

    def getpad(self):
        if self.last_batch_handle == "pad":
            return max(0, self.cursor + self.batch_size - self.num_data)
        if self.last_batch_handle == "roll_over" and -self.batch_size < self.cursor < 0:
            return -self.cursor
        return 0
