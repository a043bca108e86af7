"""plait.nd.contrib: operators of MXNet's contrib namespace."""

import math

import numpy as np

from .. import _plait
from ..error import MXNetValueError
from ._core import device_of
from ._core import op as _op
from ._namespaces import install as _install
from .control_flow import cond, foreach, while_loop  # noqa: F401

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


def boolean_mask(data, index, axis=0, out=None):
    """The slices of data along its first axis where index is not zero.

    Waits for index: its values decide about the shape of the result.
    """
    if axis != 0 or index.ndim != 1 or index.shape[0] != data.shape[0]:
        raise MXNetValueError(
            "boolean_mask: index of shape %s and axis %r do not fit data %s; axis 0 "
            "and one number a slice were expected" % (index.shape, axis, data.shape)
        )
    chosen = np.flatnonzero(index.asnumpy()).astype(np.int64)
    rows = _plait.from_buffer(chosen, None, *device_of(data.context))
    return _op("take")(data, rows, axis=0, out=out)


def rand_zipfian(true_classes, num_sampled, range_max, ctx=None):
    """Draws classes by an approximate Zipf law: P(k) = log((k+2)/(k+1)) / log(n+1).

    Returns the drawn classes (int64, with replacement), and how often the true and the
    drawn classes are expected among them (float64). The classes of a vocabulary of
    range_max words are to be in descending order of frequency.
    """
    from .random import uniform

    log_range = math.log(range_max + 1)
    draws = uniform(0, log_range, shape=(num_sampled,), dtype="float64", ctx=ctx)
    sampled = (_op("exp")(draws) - 1).astype("int64") % range_max

    def expected(classes):
        k = classes.astype("float64")
        return _op("log")((k + 2) / (k + 1)) / log_range * num_sampled

    return sampled, expected(true_classes), expected(sampled)
