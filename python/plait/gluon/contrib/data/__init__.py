"""More samplers."""

from ....error import NotYetError
from . import sampler
from .sampler import IntervalSampler

__all__ = ["sampler", "IntervalSampler"]


def __getattr__(name):
    if name == "text":
        raise NotYetError("gluon.contrib.data.text comes with a later release")
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
