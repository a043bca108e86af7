"""The array class of the extension, and dtype and device tables around it."""

import atexit
import os

import numpy as np

from .. import _plait, error
from ..context import Context, current_context

NDArray = _plait.NDArray
_Null = _plait._Null

for _kind, _cls in enumerate(
    (
        error.MXNetValueError,
        error.MXNetTypeError,
        error.MXNetIndexError,
        error.MXNetMemoryError,
        error.MXNetRuntimeError,
        error.MXNetNotImplementedError,
        error.MXNetOSError,
        error.RankLost,
    )
):
    _plait.register_error(_kind, _cls)

os.register_at_fork(before=_plait.before_fork, after_in_parent=_plait.after_fork)
atexit.register(_plait.shutdown)

# NumPy has no bfloat16; MXNet shows its bits in a structured dtype.
bfloat16 = np.dtype([("bfloat16", np.uint16)])

_NUMPY_TYPES = {
    name: getattr(np, name)
    for name in (
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
    )
}
_NUMPY_TYPES["bool"] = np.bool_
_NUMPY_TYPES["bfloat16"] = bfloat16

_contexts = {}


def numpy_type(name):
    """The NumPy type class of a dtype name."""
    return _NUMPY_TYPES[name]


def context_of(device):
    """The Context of a (type, id) pair; one object for each."""
    ctx = _contexts.get(device)
    if ctx is None:
        ctx = _contexts[device] = Context(Context.devtype2str[device[0]], device[1])
    return ctx


def device_of(ctx):
    """(type, id) of a Context, a device name, or None for the current one."""
    if ctx is None:
        ctx = current_context()
    elif isinstance(ctx, str):
        name, _, number = ctx.partition("(")
        ctx = Context(name, int(number.rstrip(")") or 0))
    if ctx.device_typeid == 2:
        raise error.MXNetValueError(
            "context: %s is asked for, but this build of Plait has no GPU support; "
            "cpu() was expected" % ctx
        )
    return ctx.device_typeid, ctx.device_id


def dtype_name(dtype):
    """The name of anything that stands for a dtype; None is the default."""
    return _plait.dtype_name(dtype)


def native(values):
    """A NumPy array in this machine's byte order; long doubles as doubles."""
    if values.dtype.kind == "f" and values.dtype.itemsize > 8:
        return values.astype(np.float64)
    if values.dtype.isnative or values.dtype.kind == "V":
        return values
    return values.astype(values.dtype.newbyteorder("="))


def number_of(value, what):
    """A float of anything that is a number; `what` is for the error's text."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise error.MXNetTypeError(
            "%s is %r; a number was expected" % (what, value)
        ) from None


def op(name):
    """The callable of an operator."""
    return _plait.op_function(name, name)
