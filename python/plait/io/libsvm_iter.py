"""LibSVMIter: batches of csr rows from LibSVM files."""

import os

from .. import _plait
from .. import ndarray as nd
from ..error import MXNetValueError
from ..ndarray import sparse
from .base import FileIter, required, shape_of


def _files(path):
    """The file itself, or all files of a directory in the order of their names."""
    if not os.path.isdir(path):
        return [path]
    names = sorted(os.path.join(path, name) for name in os.listdir(path))
    return [name for name in names if os.path.isfile(name)]


def _read(path, columns, part, parts):
    """(csr array, labels) of the rows of one part."""
    read = [_plait.read_libsvm(f, columns, part, parts) for f in _files(path)]
    if not any(labels.size for _, labels in read):
        raise MXNetValueError(
            "LibSVMIter: %s has no rows in part %d of %d; at least one was expected"
            % (path, part, parts)
        )
    read = [pair for pair in read if pair[1].size]
    if len(read) == 1:
        return read[0]
    return tuple(nd.concat(*arrays, dim=0) for arrays in zip(*read))


class _Rows:
    """Slices of a csr array whose indices are at hand as numbers."""

    def __init__(self, csr):
        self.data, self.indices, indptr = _plait.sparse_parts(csr)
        self.bounds, self.columns = indptr.asnumpy(), csr.shape[1]

    def __getitem__(self, rows):
        bounds = self.bounds[rows.start : rows.stop + 1]
        first, last = int(bounds[0]), int(bounds[-1])
        return _plait.make_sparse(
            (len(bounds) - 1, self.columns),
            1,
            0,
            self.data[first:last],
            self.indices[first:last],
            _plait.from_buffer(bounds - first, None, 1, 0),
        )


class LibSVMIter(FileIter):
    """Batches of rows as csr arrays (batch, data_shape[0]).

    Lines are `label column:value column:value ...`, columns from 0 and ascending. The
    labels are those of the lines, an array (batch,); or, with label_libsvm, the rows of
    that file as csr arrays. data_libsvm may be a directory. part_index of num_parts
    reads that part of the lines.

    The last batch is filled with rows from the start (`pad` of them), after which the
    next epoch begins.
    """

    def __init__(
        self,
        data_libsvm=None,
        data_shape=None,
        label_libsvm="NULL",
        label_shape=(1,),
        batch_size=None,
        num_parts=1,
        part_index=0,
        round_batch=True,
        data_name="data",
        label_name="softmax_label",
        **ignored,
    ):
        required(
            "LibSVMIter",
            data_libsvm=data_libsvm,
            data_shape=data_shape,
            batch_size=batch_size,
        )
        super().__init__(batch_size, data_name, label_name)
        shape, label_shape = shape_of(data_shape), shape_of(label_shape)
        separate = label_libsvm not in (None, "NULL")
        if (
            len(shape) != 1
            or len(label_shape) != 1
            or separate == (label_shape == (1,))
        ):
            raise MXNetValueError(
                "LibSVMIter: data_shape is %s and label_shape %s; one axis each, and a "
                "label of more than one element with label_libsvm only, were expected"
                % (shape, label_shape)
            )
        part = int(part_index), int(num_parts)
        csr, labels = _read(data_libsvm, shape[0], *part)
        self._count = csr.shape[0]
        self._data, self._label = _Rows(csr), labels
        if separate:
            csr, _ = _read(label_libsvm, label_shape[0], *part)
            if csr.shape[0] != self._count:
                raise MXNetValueError(
                    "LibSVMIter: %s has %d rows and %s %d; expected as many"
                    % (data_libsvm, self._count, label_libsvm, csr.shape[0])
                )
            self._label = _Rows(csr)
        self._begin = self._position = 0
        self._describe(*self._rows(0)[:2])

    def reset(self):
        self._position = max(0, self._position - self._count) % self._count

    def _rows(self, first):
        pad = max(0, first + self.batch_size - self._count)
        pieces, wanted = [], self.batch_size
        while wanted > 0:
            last = min(self._count, first + wanted)
            pieces.append(slice(first, last))
            wanted, first = wanted - (last - first), 0
        return _taken(self._data, pieces), _taken(self._label, pieces), pad

    def _batch(self):
        if self._position >= self._count:
            return None
        first, self._position = self._position, self._position + self.batch_size
        return self._rows(first)


def _taken(rows, pieces):
    parts = [rows[piece] for piece in pieces]
    if len(parts) == 1:
        return parts[0]
    return (sparse if isinstance(rows, _Rows) else nd).concat(*parts, dim=0)
