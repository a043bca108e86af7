"""plait.contrib.ndarray: the functions of plait.nd.contrib."""

from ..ndarray import contrib as _functions


def __getattr__(name):
    return getattr(_functions, name)


def __dir__():
    return dir(_functions)
