"""Batches between processes through shared memory, without names that could be left
behind.

A worker owns segments: files that exist only as descriptors (memfd, or an unlinked
file), sent once over the pipe and used again and again. A batch is pickled into a
segment with its arrays out of band; over the pipe goes only where things are. The
parent copies the arrays out, and gives the segment back with the next task.
"""

import mmap
import os
import pickle
import tempfile
from multiprocessing import reduction

import numpy as np

from ... import ndarray as nd
from .batchify import AsNDArray

_ALIGN = 64


def _make_file(size):
    """A descriptor of `size` bytes of memory that several processes can map."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("plait-data")
    else:
        with tempfile.TemporaryFile() as f:
            number = os.dup(f.fileno())
    try:
        os.ftruncate(number, size)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(number, 0, size)  # an error now, not a bus error later
    except OSError as e:
        os.close(number)
        raise MemoryError(
            "DataLoader: %d bytes of shared memory for a batch are not there: %s"
            % (size, e)
        ) from None
    return number


def _to_ndarray(buffer, dtype, shape):
    array = np.frombuffer(buffer, dtype).reshape(shape)
    return nd.array(array, dtype=array.dtype)


def _to_numpy(buffer, dtype, shape):
    return np.frombuffer(buffer, dtype).reshape(shape).copy()


class _Pickler(pickle.Pickler):
    """Takes arrays out of band, as they are."""

    def reducer_override(self, value):
        if isinstance(value, (nd.NDArray, AsNDArray)):
            rebuild = _to_ndarray
            array = value.array if isinstance(value, AsNDArray) else value.asnumpy()
        elif type(value) is np.ndarray:
            rebuild, array = _to_numpy, value
        else:
            return NotImplemented
        if array.dtype.hasobject:
            return NotImplemented
        array = np.ascontiguousarray(array)
        raw = array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)
        return rebuild, (
            pickle.PickleBuffer(raw),
            array.dtype,
            value.shape if not isinstance(value, AsNDArray) else array.shape,
        )


class _List:
    """A file object that keeps the pickle as a list of pieces."""

    def __init__(self):
        self.pieces = []

    def write(self, piece):
        """Adds a piece."""
        self.pieces.append(bytes(piece))


class Outbox:
    """A worker's segments."""

    def __init__(self, pipe):
        self._pipe = pipe
        self._segments = {}  # number -> mmap
        self._free = []
        self._new = None  # descriptor of a segment that the parent does not have yet

    def release(self, numbers):
        """Segments that the parent has read."""
        self._free += numbers

    def pack(self, batch):
        """Writes a batch into a segment; gives (segment, size if new, places)."""
        out, buffers = _List(), []
        _Pickler(out, 5, buffer_callback=buffers.append).dump(batch)
        parts = [b"".join(out.pieces)] + [buffer.raw() for buffer in buffers]
        places, end = [], 0
        for part in parts:
            places.append((end, len(part)))
            end += -(-len(part) // _ALIGN) * _ALIGN
        number, size = self._segment(max(end, 1))
        memory = self._segments[number]
        for part, (begin, length) in zip(parts, places):
            memory[begin : begin + length] = part
        return number, size, places

    def _segment(self, size):
        """The number of a free segment that is large enough, and its size when it is
        new.
        """
        for number in self._free:
            if len(self._segments[number]) >= size:
                self._free.remove(number)
                return number, None
        size = -(-size * 5 // 4 // mmap.PAGESIZE) * mmap.PAGESIZE
        self._new = _make_file(size)
        if self._free:  # too small: the new one takes its number
            number = self._free.pop()
            self._segments.pop(number).close()
        else:
            number = len(self._segments)
        self._segments[number] = mmap.mmap(self._new, size)
        return number, size

    def send_new_segment(self):
        """Sends the descriptor that the last pack() announced."""
        if self._new is not None:
            reduction.send_handle(self._pipe, self._new, None)
            os.close(self._new)
            self._new = None


class Inbox:
    """The parent's maps of a worker's segments."""

    def __init__(self, pipe):
        self._pipe = pipe
        self._segments = {}
        self._free = []

    def take_free(self):
        """The segments that were read since the last call."""
        free, self._free = self._free, []
        return free

    def open(self, content):
        """The batch that pack() wrote."""
        number, size, places = content
        if size is not None:
            handle = reduction.recv_handle(self._pipe)
            try:
                self._segments[number] = mmap.mmap(handle, size)
            finally:
                os.close(handle)
        memory = memoryview(self._segments[number])
        parts = [memory[begin : begin + length] for begin, length in places]
        try:
            return pickle.loads(parts[0], buffers=parts[1:])
        finally:
            for part in parts:
                part.release()
            memory.release()
            self._free.append(number)

    def close(self):
        """Forgets the segments."""
        self._segments.clear()
