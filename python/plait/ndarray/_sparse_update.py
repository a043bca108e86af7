"""Updates of weights by row_sparse gradients.

A lazy update touches only the rows of the gradient: those rows of weight and states are
gathered, updated by the ordinary rule, and put back.
"""

import numpy as np

from .. import _plait
from ._core import NDArray, op

_take = op("take")
_put = op("_contrib_index_copy")


def is_sparse(x):
    """Whether x is a sparse array."""
    return isinstance(x, NDArray) and type(x) is not NDArray and x.stype != "default"


class Opened:
    """Weights and states as dense arrays to work on; close() gives sparse ones back
    what they have become.
    """

    def __init__(self):
        self._changed = []

    def dense(self, x):
        """x, or the dense array that stands for it."""
        if not is_sparse(x):
            return x
        if x.stype == "row_sparse":
            rows = _plait.writable_rows(x)
            if rows is not None:  # all are there: they are the dense array
                return rows
        full = x.tostype("default")
        self._changed.append((x, full))
        return full

    def close(self):
        """Stores the results; a row_sparse array then has all its rows."""
        for x, full in self._changed:
            if x.stype == "row_sparse":
                rows = np.arange(x.shape[0], dtype=np.int64)
                rows = _plait.from_buffer(rows, None, *x._device)
                _plait.set_sparse_parts(x, full, rows)
            else:
                _plait.assign_sparse(full, x)


def _nested(state, function):
    """The arrays of a state (one, None, or tuples of them) through a function."""
    if isinstance(state, (tuple, list)):
        return type(state)(_nested(s, function) for s in state)
    return function(state) if isinstance(state, NDArray) else state


def _arrays(state):
    if isinstance(state, (tuple, list)):
        return [a for s in state for a in _arrays(s)]
    return [state] if isinstance(state, NDArray) else []


def update(step, weight, grad, state, lazy):
    """Calls step(weight, grad, state), which changes weight and state in place, with
    dense arrays: of the gradient's rows when `lazy`, else of all.
    """
    opened = Opened()
    weight = opened.dense(weight)
    state = _nested(state, opened.dense)
    if lazy and is_sparse(grad) and grad.stype == "row_sparse":
        rows, indices = _plait.sparse_parts(grad)
        if indices.size:
            full = [weight] + _arrays(state)
            part = _take(weight, indices)
            parts = _nested(state, lambda s: _take(s, indices))
            step(part, rows, parts)
            for whole, some in zip(full, [part] + _arrays(parts)):
                _put(whole, indices, some, out=whole)
    else:
        step(weight, grad.tostype("default"), state)
    opened.close()


# Operators with a lazy form, and whether it is without a sparse weight too.
LAZY_OPERATORS = {
    "sgd_update": True,
    "sgd_mom_update": True,
    "mp_sgd_update": True,
    "mp_sgd_mom_update": True,
    "adam_update": True,
    "ftrl_update": False,
    "_sparse_adagrad_update": True,
    "_contrib_group_adagrad_update": True,
}


def call(name, arrays, params, out):
    """An update operator with a sparse argument; None when that is not for here."""
    if name not in LAZY_OPERATORS or len(arrays) < 2 or out is None:
        return None
    weight, grad, *states = arrays
    if not (out is weight or _plait.same_array(out, weight)):
        return None
    lazy = LAZY_OPERATORS[name] or is_sparse(weight)
    lazy = lazy and bool(params.get("lazy_update", True))

    def step(w, g, s):
        op(name)(w, g, *s, **params, out=w)

    update(step, weight, grad, states, lazy)
    return out
