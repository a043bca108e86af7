"""Optimizers: rules that update weights from gradients, and their state."""

from . import contrib, optimizer
from .optimizer import *  # noqa: F403
from .optimizer import __all__ as _all
from .updater import Updater, get_updater

__all__ = _all + ["Updater", "get_updater", "contrib", "optimizer"]
