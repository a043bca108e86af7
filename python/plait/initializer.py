"""Initializers: rules that fill new parameters, by kind of parameter and by name."""

import json
import logging
import re
import warnings
from math import sqrt

import numpy as np

from . import _plait as _core
from . import ndarray as nd
from . import registry
from .error import check
from .ndarray._sparse_update import Opened

__all__ = [
    "InitDesc",
    "Initializer",
    "register",
    "alias",
    "create",
    "Load",
    "Mixed",
    "Zero",
    "One",
    "Constant",
    "Uniform",
    "Normal",
    "Orthogonal",
    "Xavier",
    "MSRAPrelu",
    "Bilinear",
    "LSTMBias",
    "FusedRNN",
]


class InitDesc(str):
    """A parameter's name with its attributes and the initializer of the whole model."""

    def __new__(cls, name, attrs=None, global_init=None):
        desc = super().__new__(cls, name)
        desc.attrs = attrs or {}
        desc.global_init = global_init
        return desc


class Initializer:
    """Base. Called with (InitDesc, array), it fills the array by the kind of parameter.

    The attribute '__init__' of the description goes first; else the name's ending
    decides. Subclasses implement _init_weight. The distributions of Plait's own are in
    the core, which takes their attributes at each call.
    """

    _kind = None  # the core's name; None: a subclass brings its own _init_weight

    def __init__(self, **kwargs):
        self._kwargs = kwargs
        self._verbose = False
        self._print_func = None

    def set_verbosity(self, verbose=False, print_func=None):
        """Logs print_func(array) for each parameter; by default its norm by
        sqrt(size).
        """

        def scaled_norm(x):
            return str((nd.norm(x) / sqrt(x.size)).asscalar())

        self._verbose = verbose
        self._print_func = print_func or scaled_norm
        return self

    def _verbose_print(self, desc, init, arr):
        if self._verbose and self._print_func:
            logging.info("Initialized %s as %s: %s", desc, init, self._print_func(arr))

    def dumps(self):
        """The initializer as JSON: [name, arguments]."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, desc, arr):
        if arr.stype != "default":  # drawn as a dense array, which has all rows
            opened = Opened()
            self(desc, opened.dense(arr))
            opened.close()
            return
        if not isinstance(desc, InitDesc):
            self._legacy_init(desc, arr)
            return
        if desc.global_init is None:
            desc.global_init = self
        init = desc.attrs.get("__init__", "")
        if init:
            create(init)._init_weight(desc, arr)
            self._verbose_print(desc, init, arr)
            return
        found = _core.parameter_kind(desc, False)
        if found is None:
            self._init_default(desc, arr)
            return
        ending, kind = found
        getattr(self, "_init_" + kind)(desc, arr)
        self._verbose_print(desc, ending, arr)

    def _legacy_init(self, name, arr):
        """The rules for plain strings as names, of old MXNet."""
        warnings.warn(
            "Calling initializer with init(str, NDArray) has been deprecated. Please "
            "use init(mx.init.InitDesc(...), NDArray) instead.",
            DeprecationWarning,
            stacklevel=3,
        )
        if not isinstance(name, str):
            raise TypeError("name must be string, got %s" % type(name).__name__)
        if not isinstance(arr, nd.NDArray):
            raise TypeError("arr must be NDArray, got %s" % type(arr).__name__)
        if name.startswith("upsampling"):
            self._init_bilinear(name, arr)
        elif name.startswith("stn_loc") and name.endswith("weight"):
            self._init_zero(name, arr)
        elif name.startswith("stn_loc") and name.endswith("bias"):
            self._init_loc_bias(name, arr)
        else:
            _, kind = _core.parameter_kind(name, True) or (None, "default")
            getattr(self, "_init_" + kind)(name, arr)

    def _init_bilinear(self, name, arr):
        _core.init_weight("bilinear", self, name or "", arr)

    def _init_loc_bias(self, _, arr):
        check(
            arr.shape[0] == 6,
            "the bias of an affine transformation has 6 values, not %s",
            arr.shape,
        )
        arr[:] = np.array([1.0, 0, 0, 0, 1.0, 0])

    def _init_zero(self, _, arr):
        _core.fill_parameter("zero", arr)

    def _init_one(self, _, arr):
        _core.fill_parameter("one", arr)

    def _init_bias(self, _, arr):
        _core.fill_parameter("bias", arr)

    def _init_gamma(self, _, arr):
        _core.fill_parameter("gamma", arr)

    def _init_beta(self, _, arr):
        _core.fill_parameter("beta", arr)

    def _init_quantized_bias(self, _, arr):
        _core.fill_parameter("quantized_bias", arr)

    def _init_quantized_weight(self, _, arr):
        _core.fill_parameter("quantized_weight", arr)

    def _init_weight(self, name, arr):
        if self._kind is None:
            raise NotImplementedError(
                "%s: _init_weight is not implemented" % type(self).__name__
            )
        _core.init_weight(self._kind, self, name or "", arr)

    def _init_default(self, name, _):
        raise ValueError(
            "Unknown initialization pattern for %s. Default initialization is now "
            'limited to "weight", "bias", "gamma" (1.0), and "beta" (0.0). Give the '
            "parameter an initializer of its own." % name
        )

    def __eq__(self, other):
        if not isinstance(other, Initializer):
            return NotImplemented
        return type(self) is type(other) and self._kwargs == other._kwargs

    __hash__ = object.__hash__


_register = registry.get_register_func(Initializer, "initializer")
alias = registry.get_alias_func(Initializer, "initializer")
create = registry.get_create_func(Initializer, "initializer")


def register(klass):
    """Registers an initializer class under its lower-case name."""
    return _register(klass)


class Load:
    """Copies parameters by name from a file or dict; the others go to default_init."""

    def __init__(self, param, default_init=None, verbose=False):
        if isinstance(param, str):
            param = nd.load(param)
        check(
            isinstance(param, dict),
            "Load: expected a dict of arrays, got %s",
            type(param).__name__,
        )
        self.param = {
            name[4:] if name.startswith(("arg:", "aux:")) else name: arr
            for name, arr in param.items()
        }
        self.default_init = default_init
        self.verbose = verbose

    def __call__(self, name, arr):
        source = self.param.get(name)
        if source is None:
            check(
                self.default_init is not None,
                "Cannot Initialize %s. Not found in loaded "
                "param and no default Initializer is provided.",
                name,
            )
            self.default_init(name, arr)
        else:
            check(
                arr.shape == source.shape,
                "Parameter %s cannot be initialized from loading. "
                "Shape mismatch, target %s vs loaded %s",
                name,
                arr.shape,
                source.shape,
            )
            arr[:] = source
        if self.verbose:
            logging.info(
                "Initialized %s by %s", name, "default" if source is None else "loading"
            )


class Mixed:
    """The initializer of the first pattern (a regular expression) that the name
    matches.
    """

    def __init__(self, patterns, initializers):
        check(
            len(patterns) == len(initializers),
            "Mixed: %d patterns for %d initializers",
            len(patterns),
            len(initializers),
        )
        self.map = [(re.compile(p), init) for p, init in zip(patterns, initializers)]

    def __call__(self, name, arr):
        for pattern, init in self.map:
            if pattern.match(name):
                init(name, arr)
                return
        raise ValueError(
            'Parameter name %s did not match any pattern. Consider adding a ".*" '
            "pattern at the end with default Initializer." % name
        )


@register
@alias("zeros")
class Zero(Initializer):
    """All zeros."""

    _kind = "zero"

    def __init__(self):
        super().__init__()


@register
@alias("ones")
class One(Initializer):
    """All ones."""

    _kind = "one"

    def __init__(self):
        super().__init__()


@register
class Constant(Initializer):
    """A number, or an array of the parameter's shape."""

    def __init__(self, value):
        super().__init__(value=value)
        self.value = value

    def _init_weight(self, _, arr):
        arr[:] = self.value

    def dumps(self):
        value = self._kwargs["value"]
        if not np.isscalar(value):
            value = (
                value.asnumpy() if isinstance(value, nd.NDArray) else np.asarray(value)
            )
            self._kwargs["value"] = value.tolist()
        return super().dumps()


@register
class Uniform(Initializer):
    """Uniform in [-scale, scale]."""

    _kind = "uniform"

    def __init__(self, scale=0.07):
        super().__init__(scale=scale)
        self.scale = scale


@register
class Normal(Initializer):
    """Normal with mean 0 and standard deviation sigma."""

    _kind = "normal"

    def __init__(self, sigma=0.01):
        super().__init__(sigma=sigma)
        self.sigma = sigma


@register
class Orthogonal(Initializer):
    """A random matrix with orthogonal rows or columns, times scale.

    The numbers of the random matrix are 'uniform' in [-1, 1] or 'normal', by rand_type.
    """

    _kind = "orthogonal"

    def __init__(self, scale=1.414, rand_type="uniform"):
        super().__init__(scale=scale, rand_type=rand_type)
        self.scale = scale
        self.rand_type = rand_type


@register
class Xavier(Initializer):
    """Scaled by fan: sqrt(magnitude / factor), factor the input, output or mean fan.

    rnd_type 'uniform' draws in [-scale, scale], 'gaussian' with that standard
    deviation.
    """

    _kind = "xavier"

    def __init__(self, rnd_type="uniform", factor_type="avg", magnitude=3):
        super().__init__(
            rnd_type=rnd_type, factor_type=factor_type, magnitude=magnitude
        )
        self.rnd_type = rnd_type
        self.factor_type = factor_type
        self.magnitude = float(magnitude)


@register
class MSRAPrelu(Xavier):
    """He's rule for layers followed by PReLU with this initial slope."""

    def __init__(self, factor_type="avg", slope=0.25):
        super().__init__("gaussian", factor_type, _core.msra_magnitude(slope))
        self._kwargs = {"factor_type": factor_type, "slope": slope}


@register
class Bilinear(Initializer):
    """Weights of an upsampling convolution that interpolates bilinearly."""

    _kind = "bilinear"

    def __init__(self):
        super().__init__()


@register
class LSTMBias(Initializer):
    """Zero, but forget_bias for the forget gate, the second quarter."""

    _kind = "lstmbias"

    def __init__(self, forget_bias=1.0):
        super().__init__(forget_bias=forget_bias)
        self.forget_bias = forget_bias


@register
class FusedRNN(Initializer):
    """For the one flat parameter of a recurrent operator: each piece by its
    own rule.
    """

    def __init__(
        self, init, num_hidden, num_layers, mode, bidirectional=False, forget_bias=1.0
    ):
        if isinstance(init, str):
            init = create(init)
        super().__init__(
            init=None if init is None else init.dumps(),
            num_hidden=num_hidden,
            num_layers=num_layers,
            mode=mode,
            bidirectional=bidirectional,
            forget_bias=forget_bias,
        )
        self._init = init
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode = mode
        self._bidirectional = bidirectional
        self._forget_bias = forget_bias

    def _init_weight(self, desc, arr):
        values = np.empty(arr.shape, dtype="float32")
        pieces = _core.rnn_pieces(
            self._mode,
            self._num_hidden,
            self._num_layers,
            self._bidirectional,
            arr.size,
        )
        for name, begin, shape in pieces:
            piece = nd.zeros(shape)
            if self._mode == "lstm" and name.endswith("_f_bias"):
                piece[:] = self._forget_bias
            else:
                (self._init or desc.global_init)(
                    InitDesc(name, global_init=desc.global_init), piece
                )
            size = int(np.prod(shape))
            values[begin : begin + size] = piece.asnumpy().ravel()
        arr[:] = values
