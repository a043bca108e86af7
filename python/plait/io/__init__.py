"""Data iterators: batches from arrays and from files."""

from . import io, mnist
from .io import *  # noqa: F403
from .io import __all__ as _all

__all__ = _all + ["io", "mnist"]
