"""plait.nd.contrib: operators of MXNet's contrib namespace."""

from ._core import op as _op
from ._namespaces import install as _install

_install({"contrib": globals()})


def isnan(data):
    """1 where an element is NaN, else 0."""
    return data != data


def isinf(data):
    """1 where an element is infinite, else 0."""
    return _op("abs")(data) == float("inf")


def isfinite(data):
    """1 where an element is neither NaN nor infinite, else 0."""
    return _op("abs")(data) < float("inf")
