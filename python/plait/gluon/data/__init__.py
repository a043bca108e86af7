"""Data sets, samplers, and the loader that makes batches of them."""

import importlib

from . import batchify, dataloader, dataset, sampler
from .dataloader import *  # noqa: F403
from .dataset import *  # noqa: F403
from .sampler import *  # noqa: F403

__all__ = dataloader.__all__ + dataset.__all__ + sampler.__all__
__all__ += ["vision", "batchify", "dataloader", "dataset", "sampler"]  # noqa: F405


def __getattr__(name):
    if name == "vision":
        return importlib.import_module(__name__ + ".vision")
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
