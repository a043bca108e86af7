"""CSVIter: batches of numbers from comma-separated files."""

import numpy as np

from .. import ndarray as nd
from ..error import MXNetOSError, MXNetValueError
from .base import FileIter, flag, required, shape_of


def _integer(text):
    """An integer with C's prefixes: 0x for hexadecimal, a leading 0 for octal."""
    text = text.strip()
    if (
        text.lstrip("+-").isdigit()
        and text.lstrip("+-")[0] == "0"
        and text.lstrip("+-") != "0"
    ):
        return int(text, 8)
    return int(text, 0)


def _read(filename, width, dtype):
    """All rows of a file as an array (rows, width)."""
    parse = float if dtype.kind == "f" else _integer
    rows = []
    try:
        with open(filename, encoding="utf-8-sig") as f:
            for number, line in enumerate(f, 1):
                fields = [field for field in line.split(",") if field.strip()]
                if not fields:
                    continue
                if len(fields) != width:
                    raise MXNetValueError(
                        "CSVIter: line %d of %s has %d values; expected %d"
                        % (number, filename, len(fields), width)
                    )
                try:
                    rows.append([parse(field) for field in fields])
                except ValueError as e:
                    raise MXNetValueError(
                        "CSVIter: line %d of %s: %s" % (number, filename, e)
                    ) from None
    except (OSError, UnicodeDecodeError) as e:
        raise MXNetOSError("CSVIter: %s cannot be read: %s" % (filename, e)) from None
    if not rows:
        raise MXNetValueError("CSVIter: %s has no rows" % filename)
    return np.array(rows, dtype=dtype)


class CSVIter(FileIter):
    """Batches of rows, each reshaped to data_shape; labels from a second file, or
    zeros.

    round_batch fills the last batch with rows from the start; the next epoch then
    begins after them. Without it the last batch is filled with zeros. `pad` tells how
    many rows are filling.
    """

    def __init__(
        self,
        data_csv=None,
        data_shape=None,
        label_csv="NULL",
        label_shape=(1,),
        batch_size=None,
        round_batch=True,
        dtype="float32",
        data_name="data",
        label_name="softmax_label",
        **ignored,
    ):
        required(
            "CSVIter", data_csv=data_csv, data_shape=data_shape, batch_size=batch_size
        )
        super().__init__(batch_size, data_name, label_name)
        shape, label_shape = shape_of(data_shape), shape_of(label_shape)
        kind = np.dtype(dtype or "float32")
        if kind.name not in ("float32", "int32", "int64"):
            raise MXNetValueError(
                "CSVIter: dtype is %s; expected float32, int32 or int64" % kind
            )
        data = _read(data_csv, int(np.prod(shape)), kind)
        self._data = data.reshape((len(data),) + shape)
        if label_csv in (None, "NULL"):
            labels = np.zeros((len(data),) + label_shape, kind)
        else:
            labels = _read(label_csv, int(np.prod(label_shape)), kind)
            labels = labels.reshape((len(labels),) + label_shape)
        if len(labels) != len(data):
            raise MXNetValueError(
                "CSVIter: %s has %d rows and %s %d; expected as many"
                % (data_csv, len(data), label_csv, len(labels))
            )
        # MXNet hands a (batch, 1) label over as (batch,).
        self._label = labels[:, 0] if label_shape == (1,) else labels
        self._round = flag(round_batch)
        self._begin = self._position = 0
        first, label, _ = self._rows(np.zeros(self.batch_size, dtype=np.int64))
        self._describe(first, label)

    def reset(self):
        overshoot = self._position - len(self._data)
        self._begin = (
            overshoot % len(self._data) if self._round and overshoot > 0 else 0
        )
        self._position = self._begin

    def _rows(self, rows, pad=0):
        data, label = self._data[rows], self._label[rows]
        if pad and not self._round:
            data[len(rows) - pad :] = 0
            label[len(rows) - pad :] = 0
        return (
            nd.array(data, dtype=data.dtype),
            nd.array(label, dtype=label.dtype),
            pad,
        )

    def _batch(self):
        count = len(self._data)
        if self._position >= count:
            return None
        rows = np.arange(self._position, self._position + self.batch_size)
        self._position += self.batch_size
        return self._rows(rows % count, max(0, self._position - count))
