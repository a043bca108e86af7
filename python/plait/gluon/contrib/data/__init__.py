"""More samplers and data sets of text."""

import importlib

from . import sampler
from .sampler import IntervalSampler

__all__ = ["sampler", "IntervalSampler", "text", "WikiText2", "WikiText103"]


def __getattr__(name):
    if name in ("text", "WikiText2", "WikiText103"):
        module = importlib.import_module(__name__ + ".text")
        return module if name == "text" else getattr(module, name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
