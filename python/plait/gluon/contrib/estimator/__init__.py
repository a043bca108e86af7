"""A ready-made training loop with events."""

from . import batch_processor, estimator, event_handler
from .batch_processor import BatchProcessor
from .estimator import Estimator
from .event_handler import *  # noqa: F403
from .event_handler import __all__ as _handlers

__all__ = [
    "BatchProcessor",
    "Estimator",
    "batch_processor",
    "estimator",
    "event_handler",
] + _handlers
