"""Devices, under MXNet's name for them: Context, cpu(), gpu(), and the current one."""

import threading
import warnings

from .base import ClassPropertyMeta, classproperty
from .error import MXNetKeyError

__all__ = [
    "Context",
    "cpu",
    "gpu",
    "cpu_pinned",
    "num_gpus",
    "gpu_memory_info",
    "current_context",
    "set_current_context",
]

_TYPES = {"cpu": 1, "gpu": 2, "cpu_pinned": 3, "cpu_shared": 5}
_NAMES = {number: name for name, number in _TYPES.items()}


class _Stack(threading.local):
    """The contexts entered by `with` in this thread; the last one is current."""

    def __init__(self):
        self.items = [_CPU0]


class Context(metaclass=ClassPropertyMeta):
    """A device: kind and number. `with Context(...)` makes it the thread's
    current one.
    """

    __slots__ = ("device_typeid", "device_id")
    devtype2str = _NAMES
    devstr2type = _TYPES

    def __init__(self, device_type, device_id=0):
        if isinstance(device_type, Context):
            self.device_typeid = device_type.device_typeid
            self.device_id = device_type.device_id
            return
        if device_type not in _TYPES:
            raise MXNetKeyError(
                "Context: unknown device type %r; expected one of %s"
                % (device_type, ", ".join(_TYPES))
            )
        self.device_typeid = _TYPES[device_type]
        self.device_id = device_id

    @property
    def device_type(self):
        """The kind of device: "cpu", "gpu", "cpu_pinned" or "cpu_shared"."""
        return _NAMES[self.device_typeid]

    def __hash__(self):
        return self.device_typeid * 1000003 + self.device_id

    def __eq__(self, other):
        return self is other or (
            isinstance(other, Context)
            and self.device_typeid == other.device_typeid
            and self.device_id == other.device_id
        )

    def __repr__(self):
        return "%s(%d)" % (self.device_type, self.device_id)

    def __reduce__(self):
        return Context, (self.device_type, self.device_id)

    def __enter__(self):
        _stack.items.append(self)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        _stack.items.pop()

    def empty_cache(self):
        """Gives the device's pooled, unused memory back to the system."""
        from . import _plait

        _plait.empty_cache(self.device_type, self.device_id)

    @classproperty
    def default_ctx(cls):
        """[deprecated] The current context of this thread."""
        warnings.warn(
            "Context.default_ctx is deprecated; use current_context()",
            DeprecationWarning,
            stacklevel=3,
        )
        return current_context()

    @default_ctx.setter
    def default_ctx(cls, value):
        warnings.warn(
            "Context.default_ctx is deprecated; use test_utils.set_default_context()",
            DeprecationWarning,
            stacklevel=3,
        )
        set_current_context(value)


_CPU0 = Context("cpu", 0)
_stack = _Stack()


def current_context():
    """The context in which arrays are made when none is named."""
    return _stack.items[-1]


def set_current_context(context):
    """Replaces the current context of this thread, also inside a `with`."""
    _stack.items[-1] = context


def cpu(device_id=0):
    """The CPU. All cpu(i) share the machine's cores; the number only names copies."""
    return _CPU0 if device_id == 0 else Context("cpu", device_id)


def cpu_pinned(device_id=0):
    """CPU memory that a GPU can read directly."""
    return Context("cpu_pinned", device_id)


def gpu(device_id=0):
    """GPU number `device_id`."""
    return Context("gpu", device_id)


def num_gpus():
    """How many GPUs this process can use."""
    from . import _plait

    count = getattr(_plait, "num_gpus", None)
    return count() if count else 0


def gpu_memory_info(device_id=0):
    """(free, total) bytes of a GPU's memory."""
    from . import _plait

    info = getattr(_plait, "gpu_memory_info", None)
    if info is None:
        from .error import MXNetValueError

        raise MXNetValueError(
            "gpu_memory_info: there is no gpu(%d); this build has no GPU "
            "support" % device_id
        )
    return info(device_id)
