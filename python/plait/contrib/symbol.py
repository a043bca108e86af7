"""plait.contrib.symbol: the functions of plait.sym.contrib."""

from ..symbol import contrib as _functions


def __getattr__(name):
    return getattr(_functions, name)


def __dir__():
    return dir(_functions)
