"""Optimizer states cut at the ranges that ranks own, and put together again.

A state is an array, None, a number, or a list or tuple of them. Of a weight of n
elements the arrays with n elements follow its ranges; any others go with the first.
"""

import numpy as np

from .error import MXNetValueError
from .ndarray import NDArray
from .ndarray import array as array_of


def _map(state, function):
    if isinstance(state, NDArray):
        return function(state)
    if isinstance(state, (list, tuple)):
        return type(state)(_map(part, function) for part in state)
    return state


def cut(state, size, first, last):
    """The part of a whole weight's state that goes with elements [first, last)."""

    def part(array):
        if array.size != size or array.stype != "default":
            return array
        return array.reshape((-1,))[first:last]

    return _map(state, part)


def join(parts, size, shape):
    """The whole state of a weight, from [(first, last, state), ...] of all ranks; its
    arrays have the weight's shape.
    """
    parts = sorted((p for p in parts if p[1] > p[0]), key=lambda p: p[0])
    ends = [0] + [last for _, last, _ in parts]
    if [first for first, _, _ in parts] != ends[:-1] or ends[-1] != size:
        raise MXNetValueError(
            "checkpoint: the parts of a state cover %s of %d elements"
            % ([p[:2] for p in parts], size)
        )
    return _join([(last - first, state) for first, last, state in parts], size, shape)


def _join(parts, size, shape):
    head = parts[0][1]
    if isinstance(head, (list, tuple)):
        if any(type(s) is not type(head) or len(s) != len(head) for _, s in parts):
            raise MXNetValueError("checkpoint: the ranks' states have different forms")
        return type(head)(
            _join([(n, s[k]) for n, s in parts], size, shape) for k in range(len(head))
        )
    if not isinstance(head, NDArray) or head.stype != "default":
        return head
    if all(isinstance(s, NDArray) and s.size == n for n, s in parts):
        flat = [s.reshape((-1,)).asnumpy() for _, s in parts]
        whole = flat[0] if len(flat) == 1 else np.concatenate(flat)
        return array_of(whole.reshape(shape), dtype=head.dtype)
    return head
