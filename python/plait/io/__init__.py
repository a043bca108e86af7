"""Data iterators: batches from arrays and from files."""

from . import io, mnist
from .io import *  # noqa: F403
from .io import __all__ as _all

__all__ = _all + ["io", "mnist"]


def __getattr__(name):
    if name in ("LibSVMIter",):
        from ..error import NotYetError

        raise NotYetError("io.%s comes with a later release" % name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
