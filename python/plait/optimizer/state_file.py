"""Optimizer states as bytes: a safetensors file, whose metadata tells how values nest.

Nothing in it can run code. MXNet's own files are pickles; they are read through a list
of allowed names, so that a hostile one is refused before it does anything.

Layout: u64 length of the JSON header, header, raw arrays. The header's "__metadata__"
has "format": "plait-optimizer-1", "states" and, where wanted, "optimizer": JSON texts
in which arrays are named by their number.
"""

import json
import struct

import numpy as np

from .. import ndarray as nd
from ..base import dtype_name
from ..error import MXNetValueError
from ..lr_scheduler import LRScheduler
from .base import Optimizer

_FORMAT = "plait-optimizer-1"
_DTYPES = {
    "float32": "F32",
    "float64": "F64",
    "float16": "F16",
    "bfloat16": "BF16",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "bool": "BOOL",
}
_NAMES = {short: name for name, short in _DTYPES.items()}


def _bad(text, *args):
    return MXNetValueError("optimizer states: " + text % args)


class _Writer:
    """Turns nested values into JSON, and collects the arrays."""

    def __init__(self):
        self.arrays = []

    def encode(self, value):
        """A JSON value; everything but plain scalars is tagged as [kind, content]."""
        if value is None or isinstance(value, (bool, str, int, float)):
            return value
        if isinstance(value, (np.bool_, np.integer, np.floating)):
            return value.item()
        if isinstance(value, (nd.NDArray, np.ndarray)):
            self.arrays.append(value)
            kind = "array" if isinstance(value, nd.NDArray) else "numpy"
            return [kind, len(self.arrays) - 1]
        if isinstance(value, (tuple, list, set)):
            return [type(value).__name__, [self.encode(v) for v in value]]
        if isinstance(value, dict):
            return [
                "dict",
                [[self.encode(k), self.encode(v)] for k, v in value.items()],
            ]
        if isinstance(value, type):
            return ["dtype", dtype_name(value)]
        if isinstance(value, (Optimizer, LRScheduler)):
            kind = "optimizer" if isinstance(value, Optimizer) else "scheduler"
            state = dict(value.__dict__)
            state.pop("param_dict", None)
            return [kind, type(value).__name__, self.encode(state)]
        raise _bad(
            "a %s cannot be saved (%r); only numbers, texts, arrays, lists, dicts and "
            "schedulers can",
            type(value).__name__,
            value,
        )


def dumps(states, optimizer=None):
    """The states, and the optimizer when given, as bytes."""
    writer = _Writer()
    metadata = {"format": _FORMAT, "states": json.dumps(writer.encode(states))}
    if optimizer is not None:
        metadata["optimizer"] = json.dumps(writer.encode(optimizer))
    header, blobs, offset = {"__metadata__": metadata}, [], 0
    for number, array in enumerate(writer.arrays):
        dense = array.asnumpy() if isinstance(array, nd.NDArray) else array
        blob = np.ascontiguousarray(dense).tobytes()
        header[str(number)] = {
            "dtype": _DTYPES[dtype_name(array.dtype)],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        if getattr(array, "stype", "default") != "default":
            metadata["stype:%d" % number] = array.stype
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # arrays start aligned
    return b"".join([struct.pack("<Q", len(text)), text] + blobs)


class _Reader:
    """Turns JSON back into values."""

    def __init__(self, data):
        self.data = memoryview(data)
        if len(data) < 8:
            raise _bad("the file has only %d bytes", len(data))
        (length,) = struct.unpack_from("<Q", data)
        if length > len(data) - 8:
            raise _bad("the header is cut off: %d bytes of %d", len(data) - 8, length)
        try:
            self.header = json.loads(bytes(self.data[8 : 8 + length]))
            self.metadata = self.header["__metadata__"]
            kind = self.metadata.get("format")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
            raise _bad("the header is damaged: %s", e) from None
        if kind != _FORMAT:
            raise _bad("the format is %r; expected %r", kind, _FORMAT)
        self.begin = 8 + length

    def array(self, number):
        """The NumPy array of that number, its place in the file checked."""
        try:
            entry = self.header[str(number)]
            dtype, shape = _NAMES[entry["dtype"]], tuple(entry["shape"])
            first, last = entry["data_offsets"]
            dtype = np.dtype([("bfloat16", "<u2")] if dtype == "bfloat16" else dtype)
            size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        except (KeyError, ValueError, TypeError) as e:
            raise _bad("the entry of array %s is damaged: %s", number, e) from None
        if not (
            0 <= first <= last <= len(self.data) - self.begin and last - first == size
        ):
            raise _bad("array %s of shape %s lies outside the file", number, shape)
        raw = self.data[self.begin + first : self.begin + last]
        return np.frombuffer(raw, dtype=dtype).reshape(shape)

    def decode(self, value):
        """The inverse of _Writer.encode."""
        if not isinstance(value, list):
            return value
        try:
            return self._tagged(*value)
        except (TypeError, KeyError) as e:
            raise _bad("the structure is damaged: %s", e) from None

    def _tagged(self, kind, content, state=None):
        if kind == "array":
            array = self.array(content)
            array = nd.array(array, dtype=array.dtype)
            return array.tostype(self.metadata.get("stype:%d" % content, "default"))
        if kind == "numpy":
            return self.array(content).copy()
        if kind in ("tuple", "list", "set"):
            return {"tuple": tuple, "list": list, "set": set}[kind](
                map(self.decode, content)
            )
        if kind == "dict":
            return {self.decode(k): self.decode(v) for k, v in content}
        if kind == "dtype":
            return np.dtype(content).type
        if kind == "optimizer":
            return revive(find_optimizer(content), self.decode(state))
        if kind == "scheduler":
            return revive(find_scheduler(content), self.decode(state))
        raise _bad("unknown kind %r", kind)


def find_optimizer(name):
    """The registered optimizer class of that name."""
    klass = Optimizer.opt_registry.get(name.lower())
    if klass is None:
        raise _bad("they belong to the optimizer %s, which is not registered", name)
    return klass


def find_scheduler(name):
    """The scheduler class of that name, Plait's or one that the program defined."""
    pending = [LRScheduler]
    while pending:
        klass = pending.pop()
        if klass.__name__ == name:
            return klass
        pending += klass.__subclasses__()
    raise _bad("they use the scheduler %s, which this program does not define", name)


def revive(klass, state):
    """An object of klass with that state."""
    thing = klass.__new__(klass)
    if hasattr(thing, "__setstate__"):
        thing.__setstate__(state)
    else:
        thing.__dict__.update(state)
    return thing


def loads(data):
    """(states, optimizer or None) from what dumps() gave, or from an MXNet pickle."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise _bad("got %s; expected bytes", type(data).__name__)
    data = bytes(data)
    if data[8:9] != b"{":
        from .mxnet_pickle import loads as loads_pickle

        return loads_pickle(data)
    reader = _Reader(data)
    try:
        states = reader.decode(json.loads(reader.metadata["states"]))
        optimizer = reader.metadata.get("optimizer")
        optimizer = optimizer and reader.decode(json.loads(optimizer))
    except (ValueError, KeyError, RecursionError) as e:
        if isinstance(e, MXNetValueError):
            raise
        raise _bad("the structure is damaged: %s", e) from None
    if not isinstance(states, dict):
        raise _bad("got a %s; expected a dict", type(states).__name__)
    return states, optimizer
