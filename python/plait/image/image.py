"""All of mx.image under one module, as MXNet has it."""

from . import augment, functions, iterator
from .augment import *  # noqa: F403
from .functions import *  # noqa: F403
from .functions import _get_interp_method  # noqa: F401
from .iterator import *  # noqa: F403

__all__ = [*functions.__all__, *augment.__all__, *iterator.__all__]
