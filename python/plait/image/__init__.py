"""Images: decoding, resizing, cropping, augmenting, and iterators over them."""

from . import image
from .image import *  # noqa: F403
from .image import __all__ as _all

__all__ = [*_all, "image"]
