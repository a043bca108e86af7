"""Functions of symbols and numbers: maximum(x, 0), zeros(shape), split_v2, ..."""

from numbers import Number

from ..error import MXNetTypeError
from ..ndarray._core import dtype_name
from ._op import op
from .symbol import Symbol

__all__ = [
    "pow", "power", "maximum", "minimum", "hypot", "eye", "zeros", "ones", "full",
    "arange", "linspace", "histogram", "split_v2", "add", "subtract", "multiply",
    "divide", "modulo", "equal", "not_equal", "greater", "greater_equal", "lesser",
    "lesser_equal", "logical_and", "logical_or", "logical_xor", "true_divide",
]  # fmt: skip


def _binary(name, symbols, scalar, reverse, numbers):
    def compute(left, right):
        if isinstance(left, Symbol):
            if isinstance(right, Symbol):
                return op(symbols)(left, right)
            if isinstance(right, Number):
                return op(scalar)(left, scalar=right)
        elif isinstance(left, Number):
            if isinstance(right, Symbol):
                return op(reverse)(right, scalar=left)
            if isinstance(right, Number):
                return numbers(left, right)
        raise MXNetTypeError(
            "%s: got %s and %s; symbols or numbers were expected"
            % (name, type(left).__name__, type(right).__name__)
        )

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = (
        "%s of symbols of equal shape, or of a symbol and a number." % name
    )
    return compute


_power = _binary("power", "_Power", "_PowerScalar", "_RPowerScalar", lambda x, y: x**y)


def power(base, exp):
    """base to the power of exp: symbols of equal shape, or a symbol and a number."""
    return _power(base, exp)


pow = power
maximum = _binary("maximum", "_Maximum", "_MaximumScalar", "_MaximumScalar", max)
minimum = _binary("minimum", "_Minimum", "_MinimumScalar", "_MinimumScalar", min)
hypot = _binary(
    "hypot", "_Hypot", "_HypotScalar", "_HypotScalar",
    lambda x, y: (x * x + y * y) ** 0.5,
)  # fmt: skip


def _broadcast(name, operator):
    def compute(lhs, rhs, **kwargs):
        return op(operator)(lhs, rhs, **kwargs)

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = "%s of two symbols." % operator
    return compute


add = _broadcast("add", "broadcast_add")
subtract = _broadcast("subtract", "broadcast_sub")
multiply = _broadcast("multiply", "broadcast_mul")
divide = true_divide = _broadcast("divide", "broadcast_div")
modulo = _broadcast("modulo", "broadcast_mod")
equal = _broadcast("equal", "broadcast_equal")
not_equal = _broadcast("not_equal", "broadcast_not_equal")
greater = _broadcast("greater", "broadcast_greater")
greater_equal = _broadcast("greater_equal", "broadcast_greater_equal")
lesser = _broadcast("lesser", "broadcast_lesser")
lesser_equal = _broadcast("lesser_equal", "broadcast_lesser_equal")
logical_and = _broadcast("logical_and", "broadcast_logical_and")
logical_or = _broadcast("logical_or", "broadcast_logical_or")
logical_xor = _broadcast("logical_xor", "broadcast_logical_xor")


def eye(N, M=0, k=0, dtype=None, **kwargs):
    """Ones on the k-th diagonal of an (N, M) matrix, M = N by default."""
    return op("_eye")(N=N, M=M, k=k, dtype=dtype_name(dtype), **kwargs)


def zeros(shape, dtype=None, **kwargs):
    """Zeros of a shape."""
    return op("_zeros")(shape=shape, dtype=dtype_name(dtype), **kwargs)


def ones(shape, dtype=None, **kwargs):
    """Ones of a shape."""
    return op("_ones")(shape=shape, dtype=dtype_name(dtype), **kwargs)


def full(shape, val, dtype=None, **kwargs):
    """A shape filled with one number."""
    return op("_full")(shape=shape, dtype=dtype_name(dtype), value=float(val), **kwargs)


def arange(
    start, stop=None, step=1.0, repeat=1, infer_range=False, name=None, dtype=None
):
    """Numbers from start (0 when only one is given) to stop, each repeated;
    infer_range: as many as the shape that the graph asks for."""
    if stop is None and not infer_range:
        start, stop = 0, start
    return op("_arange")(
        start=start, stop=stop, step=step, repeat=repeat, infer_range=infer_range,
        name=name, dtype=dtype_name(dtype),
    )  # fmt: skip


def linspace(start, stop, num, endpoint=True, name=None, dtype=None):
    """`num` numbers at equal distances from start to stop."""
    return op("_linspace")(
        start=start, stop=stop, num=num, endpoint=endpoint, name=name,
        dtype=dtype_name(dtype),
    )  # fmt: skip


def histogram(a, bins=10, range=None, **kwargs):
    """Counts of the values in bins, and the bins' edges."""
    if isinstance(bins, Symbol):
        return op("_histogram")(data=a, bins=bins, **kwargs)
    if range is None:
        raise MXNetTypeError(
            "histogram: range is missing; it is needed with a number of bins"
        )
    return op("_histogram")(data=a, bin_cnt=bins, range=range, **kwargs)


def split_v2(ary, indices_or_sections, axis=0, squeeze_axis=False):
    """Parts along an axis: equal ones, or cut at the given indices."""
    if isinstance(indices_or_sections, int):
        indices, sections = (), indices_or_sections
    elif isinstance(indices_or_sections, (tuple, list)):
        indices, sections = (0,) + tuple(indices_or_sections), 0
    else:
        raise ValueError("indices_or_sections must either int or tuple of ints")
    return op("_split_v2")(
        ary, indices=indices, axis=axis, squeeze_axis=squeeze_axis, sections=sections
    )
