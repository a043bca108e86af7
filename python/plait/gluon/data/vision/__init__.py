"""Image data sets, and transforms of images."""

from . import datasets, transforms
from .datasets import *  # noqa: F403
from .datasets import __all__ as _all

__all__ = ["datasets", "transforms"] + _all
