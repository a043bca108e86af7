"""Images: decoding, resizing, cropping, augmenting, and iterators over them."""

from . import detection, image
from . import detection as det
from .detection import *  # noqa: F403
from .image import *  # noqa: F403

__all__ = [*image.__all__, *detection.__all__, "det", "detection", "image"]
