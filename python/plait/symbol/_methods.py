"""Symbol's operators (+, <, ...) and fluent methods, such as x.sum(axis=1)."""

from numbers import Number

import numpy as np

from ..base import NotImplementedForSymbol
from ..error import MXNetTypeError

# Python's name -> (function of two symbols, function of a symbol and a number).
_BINARY = {
    "__add__": ("_Plus", "_PlusScalar"),
    "__sub__": ("_Minus", "_MinusScalar"),
    "__mul__": ("_Mul", "_MulScalar"),
    "__truediv__": ("_Div", "_DivScalar"),
    "__mod__": ("_Mod", "_ModScalar"),
    "__pow__": ("_Power", "_PowerScalar"),
    "__eq__": ("_equal", "_equal_scalar"),
    "__ne__": ("_not_equal", "_not_equal_scalar"),
    "__gt__": ("_greater", "_greater_scalar"),
    "__ge__": ("_greater_equal", "_greater_equal_scalar"),
    "__lt__": ("_lesser", "_lesser_scalar"),
    "__le__": ("_lesser_equal", "_lesser_equal_scalar"),
}
_REVERSE = {
    "__radd__": "_PlusScalar",
    "__rsub__": "_RMinusScalar",
    "__rmul__": "_MulScalar",
    "__rtruediv__": "_RDivScalar",
    "__rmod__": "_RModScalar",
    "__rpow__": "_RPowerScalar",
}
_IN_PLACE = {
    "__iadd__": "+=",
    "__isub__": "-=",
    "__imul__": "*=",
    "__itruediv__": "/=",
}
# Methods that are operators with the symbol as first input.
_FLUENT = (
    "reshape reshape_like zeros_like ones_like broadcast_axes repeat pad swapaxes "
    "split slice slice_axis slice_like take one_hot pick sort topk argsort argmax "
    "argmax_channel argmin clip abs sign shape_array size_array broadcast_to "
    "broadcast_like tile transpose flip depth_to_space space_to_depth sum nansum "
    "prod nanprod mean max min norm round rint fix floor ceil trunc sin cos tan "
    "arcsin arccos arctan degrees radians sinh cosh tanh arcsinh arccosh "
    "arctanh exp expm1 log log10 log2 log1p sqrt rsqrt cbrt rcbrt square "
    "reciprocal relu sigmoid softmax log_softmax softmin"
).split()
# NDArray's methods that need values.
_VALUES_ONLY = (
    "wait_to_read asnumpy asscalar copy as_in_context detach backward".split()
)


def _is_number(value):
    return isinstance(value, (Number, np.generic))


def _number(value):
    return value.item() if isinstance(value, np.generic) else value


def _binary(cls, method, pair, op):
    symbols, scalar = op(pair[0]), op(pair[1])

    def compute(self, other):
        if isinstance(other, cls):
            return symbols(self, other)
        if _is_number(other):
            return scalar(self, scalar=_number(other))
        raise MXNetTypeError(
            "symbol %s: the other side is %s; a Symbol or a number was expected"
            % (method, type(other).__name__)
        )

    return compute


def _reverse(method, scalar, op):
    function = op(scalar)

    def compute(self, other):
        if _is_number(other):
            return function(self, scalar=_number(other))
        raise MXNetTypeError(
            "symbol %s: the other side is %s; a Symbol or a number was expected"
            % (method, type(other).__name__)
        )

    return compute


def _refuse(cls, name, alias):
    def refuse(self, *args, **kwargs):
        raise NotImplementedForSymbol(getattr(type(self), name), alias, *args)

    refuse.__name__ = name
    return refuse


def install(cls, op):
    """Adds the methods to the class Symbol; op(name) gives an operator's function."""
    for method, names in _BINARY.items():
        setattr(cls, method, _binary(cls, method, names, op))
    for method, name in _REVERSE.items():
        setattr(cls, method, _reverse(method, name, op))
    for method, text in _IN_PLACE.items():
        setattr(cls, method, _refuse(cls, method, text))
    for name in _FLUENT:
        setattr(cls, name, op(name))
    for name in _VALUES_ONLY:
        setattr(cls, name, _refuse(cls, name, None))
    cls.__neg__ = lambda self: self * -1.0
    cls.__abs__ = lambda self: self.abs()
    cls.astype = _astype
    cls.flatten = lambda self, inplace=False, **kwargs: op("flatten")(self, **kwargs)
    cls.expand_dims = lambda self, axis, inplace=False, **kwargs: op("expand_dims")(
        self, axis=axis, **kwargs
    )
    cls.squeeze = lambda self, axis=None, inplace=False, **kwargs: op("squeeze")(
        self, axis=axis, **kwargs
    )
    cls.diag = lambda self, k=0, **kwargs: op("diag")(self, k=k, **kwargs)
    cls.split_v2 = _split_v2


def _astype(self, dtype, *args, **kwargs):
    from ._op import op

    return op("cast")(self, *args, dtype=dtype, **kwargs)


def _split_v2(self, *args, **kwargs):
    from .functions import split_v2

    return split_v2(self, *args, **kwargs)
