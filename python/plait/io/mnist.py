"""MNIST's idx files, and MNISTIter over them."""

import gzip
import os
import struct

import numpy as np

from .. import ndarray as nd
from ..error import MXNetOSError, MXNetValueError
from .base import FileIter, flag

_KINDS = {
    0x08: np.uint8,
    0x09: np.int8,
    0x0B: ">i2",
    0x0C: ">i4",
    0x0D: ">f4",
    0x0E: ">f8",
}


def read_idx(filename):
    """The NumPy array in an idx file, packed by gzip or not."""
    if not os.path.exists(filename):
        raise MXNetOSError("read_idx: %s is not there" % filename)
    with open(filename, "rb") as f:
        packed = f.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(filename) if packed else open(filename, "rb") as f:
            data = f.read()
    except (OSError, EOFError) as e:
        raise MXNetOSError(
            "read_idx: %s cannot be unpacked: %s" % (filename, e)
        ) from None
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _KINDS or data[3] == 0:
        raise MXNetOSError(
            "read_idx: %s is no idx file; it begins with %s"
            % (filename, data[:4].hex())
        )
    ndim = data[3]
    if len(data) < 4 + 4 * ndim:
        raise MXNetOSError(
            "read_idx: %s ends after %d bytes, in its header" % (filename, len(data))
        )
    shape = struct.unpack_from(">%dI" % ndim, data, 4)
    dtype = np.dtype(_KINDS[data[2]])
    size = int(np.prod(shape, dtype=np.int64))
    if len(data) - 4 - 4 * ndim < size * dtype.itemsize:
        raise MXNetOSError(
            "read_idx: %s has %d bytes; its shape %s needs %d"
            % (filename, len(data), shape, 4 + 4 * ndim + size * dtype.itemsize)
        )
    return np.frombuffer(data, dtype, size, 4 + 4 * ndim).reshape(shape)


def find_mnist(root, part):
    """(images, labels): the files of 'train' or 't10k' in a folder, .gz or not."""
    found = []
    for name in ("%s-images-idx3-ubyte" % part, "%s-labels-idx1-ubyte" % part):
        path = os.path.join(os.path.expanduser(root), name)
        path = next(
            (
                p
                for p in (path, path + ".gz", path.replace("-idx", ".idx"))
                if os.path.exists(p)
            ),
            None,
        )
        if path is None:
            raise FileNotFoundError(
                "MNIST: %s(.gz) is not in %s, and Plait downloads nothing; put the "
                "four files "
                "of the data set there"
                % (name, os.path.abspath(os.path.expanduser(root)))
            )
        found.append(path)
    return tuple(found)


class MNISTIter(FileIter):
    """Batches of MNIST images as float32 in [0, 1): pixel / 256, and of float32 labels.

    data has shape (batch, 1, rows, columns), or (batch, rows * columns) with flat. The
    order is shuffled once, by `seed`. part_index of num_parts takes a share of the
    images. The rest that does not fill a batch is dropped.
    """

    def __init__(
        self,
        image="./train-images-idx3-ubyte",
        label="./train-labels-idx1-ubyte",
        batch_size=128,
        shuffle=True,
        flat=False,
        seed=0,
        silent=False,
        num_parts=1,
        part_index=0,
        data_name="data",
        label_name="softmax_label",
        **ignored,
    ):
        super().__init__(batch_size, data_name, label_name)
        images, labels = read_idx(image), read_idx(label)
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise MXNetValueError(
                "MNISTIter: %s has shape %s and %s %s; expected (n, rows, "
                "columns) and (n,)" % (image, images.shape, label, labels.shape)
            )
        parts, part = int(num_parts), int(part_index)
        if not 0 <= part < parts:
            raise MXNetValueError(
                "MNISTIter: part_index is %d; expected 0 to %d" % (part, parts - 1)
            )
        first, last = (int(len(images) / parts * k) for k in (part, part + 1))
        order = np.arange(first, last)
        if flag(shuffle):
            np.random.RandomState(int(seed)).shuffle(order)
        shape = (
            (last - first, -1) if flag(flat) else (last - first, 1) + images.shape[1:]
        )
        self._images = images[order].reshape(shape)
        self._labels = labels[order].astype(np.float32)
        self._position = 0
        if len(order) < self.batch_size:
            raise MXNetValueError(
                "MNISTIter: %d images do not fill a batch of %d"
                % (len(order), self.batch_size)
            )
        data, label, _ = self._batch()
        self._describe(data, label)
        self.reset()

    def reset(self):
        self._position = 0

    def _batch(self):
        begin = self._position
        end = begin + self.batch_size
        if end > len(self._images):
            return None
        self._position = end
        pixels = self._images[begin:end].astype(np.float32) / np.float32(256)
        return nd.array(pixels), nd.array(self._labels[begin:end]), 0
