"""plait.sym.contrib: operators as functions of symbols."""

import math

from ._op import install as _install
from ._op import op as _op
from .control_flow import cond, foreach, while_loop  # noqa: F401

_install({"contrib": globals()})


def rand_zipfian(true_classes, num_sampled, range_max):
    """Draws classes by an approximate Zipf law: P(k) = log((k+2)/(k+1)) / log(n+1).

    Returns the drawn classes (int64, with replacement), and how often the true and the
    drawn classes are expected among them (float64). The classes of a vocabulary of
    range_max words are to be in descending order of frequency.
    """
    from .random import uniform

    log_range = math.log(range_max + 1)
    draws = uniform(0, log_range, shape=(num_sampled,), dtype="float64")
    sampled = (_op("exp")(draws) - 1).astype("int64") % range_max

    def expected(classes):
        k = classes.astype("float64")
        return _op("log")((k + 2.0) / (k + 1.0)) / log_range * num_sampled

    return sampled, expected(true_classes), expected(sampled)
