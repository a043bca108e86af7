"""Functions of arrays that are not operators: numbers on either side, axes, ..."""

import numpy as np

from ..error import MXNetValueError
from ._core import NDArray, op
from .creation import array

__all__ = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "true_divide",
    "modulo",
    "power",
    "maximum",
    "minimum",
    "equal",
    "not_equal",
    "greater",
    "greater_equal",
    "lesser",
    "lesser_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "concatenate",
    "moveaxis",
    "onehot_encode",
    "histogram",
    "split_v2",
]


def _binary(array_op, scalar_op, reverse_op, function):
    arrays, scalar, reverse = op(array_op), op(scalar_op), op(reverse_op)

    def compute(lhs, rhs):
        if isinstance(lhs, NDArray):
            if isinstance(rhs, NDArray):
                return arrays(lhs, rhs)
            return scalar(lhs, scalar=rhs)
        if isinstance(rhs, NDArray):
            return reverse(rhs, scalar=lhs)
        return function(lhs, rhs)

    compute.__name__ = compute.__qualname__ = array_op[len("broadcast_") :]
    compute.__doc__ = "%s, where either side may be a number." % array_op
    return compute


add = _binary("broadcast_add", "_plus_scalar", "_plus_scalar", lambda x, y: x + y)
subtract = _binary(
    "broadcast_sub", "_minus_scalar", "_rminus_scalar", lambda x, y: x - y
)
multiply = _binary("broadcast_mul", "_mul_scalar", "_mul_scalar", lambda x, y: x * y)
modulo = _binary("broadcast_mod", "_mod_scalar", "_rmod_scalar", lambda x, y: x % y)
_power = _binary(
    "broadcast_power", "_power_scalar", "_rpower_scalar", lambda x, y: x**y
)


def divide(lhs, rhs):
    """lhs / rhs: arrays, broadcast, or numbers."""
    return lhs / rhs


true_divide = divide


def power(base, exp):
    """base to the power of exp: arrays, broadcast, or numbers."""
    return _power(base, exp)


maximum = _binary("broadcast_maximum", "_maximum_scalar", "_maximum_scalar", max)
minimum = _binary("broadcast_minimum", "_minimum_scalar", "_minimum_scalar", min)
equal = _binary(
    "broadcast_equal", "_equal_scalar", "_equal_scalar", lambda x, y: x == y
)
not_equal = _binary(
    "broadcast_not_equal", "_not_equal_scalar", "_not_equal_scalar", lambda x, y: x != y
)
greater = _binary(
    "broadcast_greater", "_greater_scalar", "_lesser_scalar", lambda x, y: x > y
)
greater_equal = _binary(
    "broadcast_greater_equal",
    "_greater_equal_scalar",
    "_lesser_equal_scalar",
    lambda x, y: x >= y,
)
lesser = _binary(
    "broadcast_lesser", "_lesser_scalar", "_greater_scalar", lambda x, y: x < y
)
lesser_equal = _binary(
    "broadcast_lesser_equal",
    "_lesser_equal_scalar",
    "_greater_equal_scalar",
    lambda x, y: x <= y,
)
logical_and = _binary(
    "broadcast_logical_and",
    "_logical_and_scalar",
    "_logical_and_scalar",
    lambda x, y: bool(x) and bool(y),
)
logical_or = _binary(
    "broadcast_logical_or",
    "_logical_or_scalar",
    "_logical_or_scalar",
    lambda x, y: bool(x) or bool(y),
)
logical_xor = _binary(
    "broadcast_logical_xor",
    "_logical_xor_scalar",
    "_logical_xor_scalar",
    lambda x, y: bool(x) != bool(y),
)


def concatenate(arrays, axis=0, always_copy=True):
    """Arrays one after the other along an axis."""
    arrays = list(arrays)
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    return op("Concat")(*arrays, dim=axis)


def moveaxis(tensor, source, destination):
    """Axes moved to new places, the others in their order."""

    def places(axes, what):
        axes = [axes] if isinstance(axes, (int, np.integer)) else list(axes)
        out = [a + tensor.ndim if a < 0 else a for a in axes]
        if len(set(out)) != len(out):
            raise MXNetValueError("moveaxis: repeated axis in %s %s" % (what, axes))
        for given, a in zip(axes, out):
            if not 0 <= a < tensor.ndim:
                raise MXNetValueError(
                    "moveaxis: %s %d is out of range for %d axes"
                    % (what, given, tensor.ndim)
                )
        return out

    source, destination = places(source, "source"), places(destination, "destination")
    if len(source) != len(destination):
        raise MXNetValueError(
            "`source` and `destination` arguments must have the same number of elements"
        )
    order = [n for n in range(tensor.ndim) if n not in source]
    for dest, src in sorted(zip(destination, source)):
        order.insert(dest, src)
    return op("transpose")(tensor, axes=tuple(order))


def onehot_encode(indices, out):
    """Writes one-hot rows of the indices into out."""
    return op("_onehot_encode")(indices, out, out=out)


def histogram(a, bins=10, range=None):
    """Counts of the values in bins, and the bins' edges."""
    if isinstance(bins, NDArray):
        return op("_histogram")(a, bins)
    if range is None:
        range = (float(a.min().asscalar()), float(a.max().asscalar()))
    edges = array(np.linspace(range[0], range[1], bins + 1), dtype=a.dtype)
    return op("_histogram")(a, edges)


def split_v2(ary, indices_or_sections, axis=0, squeeze_axis=False):
    """Parts of an array along an axis: equal ones, or cut at the given indices."""
    if isinstance(indices_or_sections, int):
        return op("_split_v2")(
            ary,
            indices=(),
            axis=axis,
            squeeze_axis=squeeze_axis,
            sections=indices_or_sections,
        )
    return op("_split_v2")(
        ary,
        indices=(0,) + tuple(indices_or_sections),
        axis=axis,
        squeeze_axis=squeeze_axis,
        sections=0,
    )
