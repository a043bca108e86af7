"""Shapes of deferred parameters, found by running a block's hybrid_forward once.

Where a block's own parameters are not known yet, hybrid_forward is called with
stand-ins for them and with `Deferring` as F. When an operator receives a stand-in, the
operator's rule gives the shape, the parameter is made, and the operator runs with it.
So layers need no shape code of their own, and neither do users' blocks that pass
parameters straight to such operators.
"""

from .. import ndarray as nd
from ..base import _as_list
from ..error import check
from .utils import shape_is_known


class Deferred:
    """Stands for a parameter whose shape is not known yet."""

    def __init__(self, param, ctx):
        self._param, self._ctx = param, ctx

    def resolve(self, shape, op):
        """The parameter's array, made now with `shape` (None where `op`
        does not tell).
        """
        if shape is not None:
            self._param.shape = shape
        check(
            shape_is_known(self._param.shape),
            "%s: the shape %s of Parameter '%s' does not follow from this operator's "
            "inputs; "
            "give the parameter its full shape",
            op,
            self._param.shape,
            self._param.name,
        )
        self._param._finish_deferred_init()
        return self._param.data(self._ctx)

    def __getattr__(self, name):
        raise AttributeError(
            "Parameter '%s' has the incomplete shape %s, so that its .%s is not "
            "known; give the parameter its full shape"
            % (self._param.name, self._param.shape, name)
        )


class Deferring:
    """plait.nd (or a sub-module of it) whose operators accept stand-ins."""

    def __init__(self, module=nd):
        self._module = module

    def __getattr__(self, name):
        found = getattr(self._module, name)
        if isinstance(found, type(nd)):
            return Deferring(found)
        if not callable(found) or isinstance(found, type):
            return found

        def call(*args, **kwargs):
            stand_ins = [a for a in args if isinstance(a, Deferred)]
            stand_ins += [a for a in kwargs.values() if isinstance(a, Deferred)]
            if stand_ins:
                args, kwargs = _resolve(name, args, kwargs)
            return found(*args, **kwargs)

        return call


def _resolve(op, args, kwargs):
    """The arguments with every stand-in replaced."""
    names, rule = _RULES.get(op, ((), None))
    inputs = dict(zip(names, args))
    inputs.update((key, value) for key, value in kwargs.items() if key in names)
    shapes = {}
    data = inputs.get("data")
    if rule is not None and data is not None and not isinstance(data, Deferred):
        shapes = rule(data.shape, kwargs)

    def made(name, value):
        return (
            value.resolve(shapes.get(name), op)
            if isinstance(value, Deferred)
            else value
        )

    positional = list(names) + [None] * len(args)
    return (
        [made(name, value) for name, value in zip(positional, args)],
        {key: made(key, value) for key, value in kwargs.items()},
    )


def _fully_connected(x, k):
    units = k["num_hidden"]
    if k.get("flatten", True):
        width = 1
        for size in x[1:]:
            width *= size
    else:
        width = x[-1]
    return {"weight": (units, width), "bias": (units,)}


def _convolution(x, k):
    layout = k.get("layout") or "NCHW"
    filters, groups = k["num_filter"], k.get("num_group", 1)
    kernel = tuple(_as_list(k["kernel"]))
    channels = x[layout.index("C")] // groups
    last = layout[-1] == "C"
    weight = (filters,) + (kernel + (channels,) if last else (channels,) + kernel)
    return {"weight": weight, "bias": (filters,)}


def _deconvolution(x, k):
    layout = k.get("layout") or "NCHW"
    filters, groups = k["num_filter"], k.get("num_group", 1)
    kernel = tuple(_as_list(k["kernel"]))
    channels = x[layout.index("C")]
    last = layout[-1] == "C"
    each = filters // groups
    weight = (channels,) + (kernel + (each,) if last else (each,) + kernel)
    return {"weight": weight, "bias": (filters,)}


def _per_channel(default_axis):
    def rule(x, k):
        size = (x[k.get("axis", default_axis)],)
        return {name: size for name in ("gamma", "beta", "moving_mean", "moving_var")}

    return rule


_NORM = ("data", "gamma", "beta", "moving_mean", "moving_var")
_CONV = ("data", "weight", "bias")
# Operator -> names of its inputs, and the rule for the shapes of those after the first.
_RULES = {
    "FullyConnected": (_CONV, _fully_connected),
    "Convolution": (_CONV, _convolution),
    "Deconvolution": (_CONV, _deconvolution),
    "DeformableConvolution": (("data", "offset", "weight", "bias"), _convolution),
    "ModulatedDeformableConvolution": (
        ("data", "offset", "mask", "weight", "bias"),
        _convolution,
    ),
    "BatchNorm": (_NORM, _per_channel(1)),
    "BatchNormWithReLU": (_NORM, _per_channel(1)),
    "SyncBatchNorm": (_NORM, _per_channel(1)),
    "InstanceNorm": (_NORM[:3], _per_channel(1)),
    "LayerNorm": (_NORM[:3], _per_channel(-1)),
    "Embedding": (
        ("data", "weight"),
        lambda x, k: {"weight": (k["input_dim"], k["output_dim"])},
    ),
    "LeakyReLU": (("data", "gamma"), lambda x, k: {"gamma": (x[1],)}),
}
