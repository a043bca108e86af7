"""MXNet's pickled optimizer states: read through an allow-list, and written."""

import io
import pickle
import struct

from .. import _plait
from .. import ndarray as nd
from ..error import MXNetValueError

# Plain containers and NumPy's own way to rebuild arrays; nothing that calls out.
_ALLOWED = {
    ("builtins", "set"),
    ("builtins", "frozenset"),
    ("builtins", "complex"),
    ("builtins", "bytearray"),
    ("builtins", "slice"),
    ("__builtin__", "bytearray"),
    ("__builtin__", "set"),
    ("__builtin__", "object"),
    ("collections", "OrderedDict"),
    ("collections", "defaultdict"),
    ("builtins", "dict"),
    ("builtins", "int"),
    ("builtins", "float"),
    ("builtins", "list"),
    ("builtins", "object"),
    ("_codecs", "encode"),
    ("copyreg", "_reconstructor"),
    ("copy_reg", "_reconstructor"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy.core.multiarray", "scalar"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
}
_SCALARS = {
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool_",
}
_ARRAYS = {"NDArray", "RowSparseNDArray", "CSRNDArray", "ndarray"}


class _Stored:
    """An array of the pickle: the bytes of its record, until it is loaded."""

    def __init__(self, handle=None, writable=True):
        self.record = None

    def __setstate__(self, state):
        self.record = state.get("handle")

    def load(self):
        """The NDArray; the record is wrapped into a file with one unnamed array."""
        if self.record is None:
            return None
        record = bytes(self.record)
        return nd.load_frombuffer(
            struct.pack("<QQQ", 0x112, 0, 1) + record + struct.pack("<Q", 0)
        )[0]


class _Unpickler(pickle.Unpickler):
    """Knows MXNet's classes by Plait's, and refuses whatever else is not harmless."""

    def find_class(self, module, name):
        from .state_file import find_optimizer, find_scheduler

        package = module.split(".")[0]
        if package in ("mxnet", "plait"):
            if (
                name in _ARRAYS
                and "ndarray" in module
                or module.endswith(".numpy.multiarray")
            ):
                return _Stored
            if ".optimizer" in module or module.endswith(".contrib"):
                return find_optimizer(name)
            if module.endswith(".lr_scheduler"):
                return find_scheduler(name)
        if (module, name) in _ALLOWED or (module == "numpy" and name in _SCALARS):
            return super().find_class(module, name)
        raise MXNetValueError(
            "optimizer states: the pickle wants %s.%s, which is not allowed; "
            "only MXNet's own arrays, optimizers and schedulers are" % (module, name)
        )


def _loaded(value):
    """The value with every stored array loaded."""
    if isinstance(value, _Stored):
        return value.load()
    if isinstance(value, (list, tuple)):
        return type(value)(_loaded(v) for v in value)
    if isinstance(value, dict):
        return {k: _loaded(v) for k, v in value.items()}
    return value


def loads(data):
    """(states, optimizer or None) from a pickle of MXNet's."""
    try:
        content = _Unpickler(io.BytesIO(data)).load()
    except MXNetValueError:
        raise
    except Exception as e:  # a damaged pickle can raise anything
        raise MXNetValueError(
            "optimizer states: neither Plait's format nor a pickle of MXNet's: "
            "%s: %s" % (type(e).__name__, e)
        ) from None
    optimizer = None
    if isinstance(content, tuple) and len(content) == 2:
        content, optimizer = content
    if not isinstance(content, dict):
        raise MXNetValueError(
            "optimizer states: got a %s; expected a dict" % type(content).__name__
        )
    if optimizer is not None:
        for name, value in list(vars(optimizer).items()):
            setattr(optimizer, name, _loaded(value))
        optimizer.idx2name = dict(getattr(optimizer, "idx2name", {}))
    return _loaded(content), optimizer


class _Pickler(pickle._Pickler):
    """Writes arrays as MXNet's NDArray does: its class, no argument, and a record.

    Python's own pickler, because only its dispatch table lets a class be named that
    this process does not have.
    """

    dispatch = dict(pickle._Pickler.dispatch)

    def save_array(self, array):
        self.write(pickle.GLOBAL + b"mxnet.ndarray.ndarray\nNDArray\n")
        self.save((None,))
        self.write(pickle.REDUCE)
        self.memoize(array)
        # A bytearray: MXNet wants a buffer that it could write to.
        self.save({"handle": bytearray(_plait.dump_array(array))})
        self.write(pickle.BUILD)

    dispatch[nd.NDArray] = save_array


def dumps(states):
    """The states as a pickle that MXNet's Updater.set_states() loads."""
    out = io.BytesIO()
    _Pickler(out, protocol=3).dump(states)
    return out.getvalue()
