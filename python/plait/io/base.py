"""DataDesc, DataBatch, and the bases of iterators."""

from collections import namedtuple

from ..base import mx_real_t
from ..error import MXNetValueError


class DataDesc(namedtuple("DataDesc", ["name", "shape"])):
    """Name and shape of an array of a batch, with dtype and layout as attributes."""

    def __new__(cls, name, shape, dtype=mx_real_t, layout="NCHW"):
        desc = super().__new__(cls, name, shape)
        desc.dtype = dtype
        desc.layout = layout
        return desc

    def __repr__(self):
        return "DataDesc[%s,%s,%s,%s]" % (
            self.name,
            self.shape,
            self.dtype,
            self.layout,
        )

    @staticmethod
    def get_batch_axis(layout):
        """The axis named N; 0 without a layout, -1 where there is none."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes, types):
        """DataDescs from (name, shape) pairs and (name, dtype) pairs or None."""
        if types is None:
            return [DataDesc(*pair[:2]) for pair in shapes]
        types = dict(types)
        return [DataDesc(pair[0], pair[1], types[pair[0]]) for pair in shapes]


class DataBatch:
    """Lists of data and label arrays; `pad` of the rows at the end are only filling."""

    def __init__(
        self,
        data,
        label=None,
        pad=None,
        index=None,
        bucket_key=None,
        provide_data=None,
        provide_label=None,
    ):
        for what, value in (("Data", data), ("Label", label)):
            assert value is None or isinstance(value, (list, tuple)), (
                "%s must be list of NDArrays" % what
            )
        self.data = data
        self.label = label
        self.pad = pad
        self.index = index
        self.bucket_key = bucket_key
        self.provide_data = provide_data
        self.provide_label = provide_label

    def __str__(self):
        return "%s: data shapes: %s label shapes: %s" % (
            type(self).__name__,
            [d.shape for d in self.data],
            [x.shape for x in self.label] if self.label else None,
        )


class DataIter:
    """Base. Subclasses implement iter_next(), getdata(), getlabel(),
    getpad(), reset().
    """

    def __init__(self, batch_size=0):
        self.batch_size = batch_size

    def __iter__(self):
        return self

    def reset(self):
        """Goes back to the first batch."""

    def next(self):
        """The next batch, or StopIteration."""
        if not self.iter_next():
            raise StopIteration
        return DataBatch(
            data=self.getdata(),
            label=self.getlabel(),
            pad=self.getpad(),
            index=self.getindex(),
        )

    def __next__(self):
        return self.next()

    def iter_next(self):
        """Moves to the next batch; False at the end."""

    def getdata(self):
        """The data of the current batch."""

    def getlabel(self):
        """The labels of the current batch."""

    def getindex(self):
        """The sample numbers of the current batch, or None."""
        return None

    def getpad(self):
        """How many rows of the current batch are filling."""


class ResizeIter(DataIter):
    """Another iterator with an epoch of `size` batches, starting it over as often as
    needed.
    """

    def __init__(self, data_iter, size, reset_internal=True):
        super().__init__(data_iter.batch_size)
        self.data_iter = data_iter
        self.size = size
        self.reset_internal = reset_internal
        self.cur = 0
        self.current_batch = None
        self.provide_data = data_iter.provide_data
        self.provide_label = data_iter.provide_label
        if hasattr(data_iter, "default_bucket_key"):
            self.default_bucket_key = data_iter.default_bucket_key

    def reset(self):
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def state_dict(self):
        """Where the next batch is, if the other iterator can tell."""
        return {"cur": self.cur, "inner": self.data_iter.state_dict()}

    def load_state_dict(self, state):
        """Goes to a place that state_dict() told."""
        self.cur = state["cur"]
        self.data_iter.load_state_dict(state["inner"])

    def iter_next(self):
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True

    def getdata(self):
        return self.current_batch.data

    def getlabel(self):
        return self.current_batch.label

    def getindex(self):
        return self.current_batch.index

    def getpad(self):
        return self.current_batch.pad


class FileIter(DataIter):
    """Base of iterators over files: one data and one label array, keyword arguments
    only.

    Arguments come as strings too, and unknown ones are ignored, as MXNet's C++
    iterators do. Subclasses implement _batch(), which gives (data, label, pad) or None
    at the end.
    """

    def __init__(self, batch_size, data_name="data", label_name="softmax_label"):
        super().__init__(int(batch_size))
        if self.batch_size < 1:
            raise MXNetValueError(
                "%s: batch_size is %s; expected at least 1"
                % (type(self).__name__, batch_size)
            )
        self._names = data_name, label_name
        self._current = None

    def _describe(self, data, label):
        """Sets provide_data and provide_label from the shapes of a batch."""
        self.provide_data = [DataDesc(self._names[0], data.shape, data.dtype)]
        self.provide_label = [DataDesc(self._names[1], label.shape, label.dtype)]

    def _batch(self):
        raise NotImplementedError

    def state_dict(self):
        """Where the next batch begins; for load_state_dict() of an iterator with the
        same arguments.
        """
        return {"position": self._position, "begin": getattr(self, "_begin", 0)}

    def load_state_dict(self, state):
        """Goes to a place that state_dict() told."""
        self._position, self._begin = state["position"], state["begin"]

    def next(self):
        if not self.iter_next():
            raise StopIteration
        data, label, pad = self._current
        return DataBatch(data=[data], label=[label], pad=pad, index=None)

    def iter_next(self):
        self._current = self._batch()
        return self._current is not None

    def getdata(self):
        return self._current[0]

    def getlabel(self):
        return self._current[1]

    def getpad(self):
        return self._current[2]


def required(kind, **arguments):
    """Raises unless every argument is given."""
    missing = [name for name, value in arguments.items() if value is None]
    if missing:
        raise MXNetValueError(
            "%s: %s is missing; it has no default" % (kind, " and ".join(missing))
        )


def flag(value):
    """A truth value from a bool, a number, or a text such as "True" or "1"."""
    if isinstance(value, str):
        return value.lower() in ("1", "true")
    return bool(value)


def shape_of(value):
    """A tuple of sizes from a number, a sequence, or a text such as "(1, 28, 28)"."""
    if isinstance(value, str):
        value = [part for part in value.strip("()[] ").split(",") if part.strip()]
    elif not hasattr(value, "__iter__"):
        value = (value,)
    return tuple(int(size) for size in value)
