"""Containers, dense layers, dropout, embeddings and functions as layers."""

import warnings

from ... import ndarray as nd
from ..block import Block, HybridBlock
from ..utils import _indent
from .activations import Activation
from .norm_layers import (
    BatchNorm,
    BatchNormReLU,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    _BatchNorm,  # noqa: F401  (subclassed by users)
)

__all__ = [
    "Sequential",
    "HybridSequential",
    "Dense",
    "Dropout",
    "Embedding",
    "BatchNorm",
    "BatchNormReLU",
    "InstanceNorm",
    "LayerNorm",
    "GroupNorm",
    "Flatten",
    "Lambda",
    "HybridLambda",
]


class _Stack:
    """What Sequential and HybridSequential share: a list of children."""

    def add(self, *blocks):
        """Puts blocks at the end."""
        for block in blocks:
            self.register_child(block)

    def __repr__(self):
        return "%s(\n%s\n)" % (
            type(self).__name__,
            "\n".join(
                "  (%s): %s" % (key, _indent(repr(block), 2))
                for key, block in self._children.items()
            ),
        )

    def __getitem__(self, key):
        layers = list(self._children.values())[key]
        if not isinstance(layers, list):
            return layers
        net = type(self)(prefix=self._prefix)
        with net.name_scope():
            net.add(*layers)
        return net

    def __len__(self):
        return len(self._children)


class Sequential(_Stack, Block):
    """Runs blocks one after the other."""

    def forward(self, x):
        for block in self._children.values():
            x = block(x)
        return x

    def hybridize(self, active=True, **kwargs):
        if self._children and all(
            isinstance(c, HybridBlock) for c in self._children.values()
        ):
            warnings.warn(
                "All children of this Sequential layer '%s' are HybridBlocks. Consider "
                "using HybridSequential for the best performance." % self.prefix,
                stacklevel=2,
            )
        super().hybridize(active, **kwargs)


class HybridSequential(_Stack, HybridBlock):
    """Runs hybrid blocks one after the other."""

    def hybrid_forward(self, F, x):
        for block in self._children.values():
            x = block(x)
        return x


class Dense(HybridBlock):
    """activation(x W^T + b), over all axes but the first (flatten) or over the last
    one.

    weight has shape (units, in_units); in_units=0 is found from the first input.
    """

    def __init__(
        self,
        units,
        activation=None,
        use_bias=True,
        flatten=True,
        dtype="float32",
        weight_initializer=None,
        bias_initializer="zeros",
        in_units=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._units = units
        self._in_units = in_units
        self._flatten = flatten
        with self.name_scope():
            self.weight = self.params.get(
                "weight",
                shape=(units, in_units),
                dtype=dtype,
                init=weight_initializer,
                allow_deferred_init=True,
            )
            self.bias = None
            if use_bias:
                self.bias = self.params.get(
                    "bias",
                    shape=(units,),
                    dtype=dtype,
                    init=bias_initializer,
                    allow_deferred_init=True,
                )
            self.act = None
            if activation is not None:
                self.act = Activation(activation, prefix=activation + "_")

    def hybrid_forward(self, F, x, weight, bias=None):
        y = F.FullyConnected(
            x,
            weight,
            bias,
            no_bias=bias is None,
            num_hidden=self._units,
            flatten=self._flatten,
            name="fwd",
        )
        return y if self.act is None else self.act(y)

    def __repr__(self):
        units, width = self.weight.shape
        return "%s(%s -> %d, %s)" % (
            type(self).__name__,
            width or None,
            units,
            self.act or "linear",
        )


class Dropout(HybridBlock):
    """Sets elements to zero with probability `rate` in training, and scales up the
    others.

    `axes` share one mask each.
    """

    def __init__(self, rate, axes=(), **kwargs):
        super().__init__(**kwargs)
        self._rate = rate
        self._axes = axes

    def hybrid_forward(self, F, x):
        if self._rate > 0:
            return F.Dropout(
                x, p=self._rate, axes=self._axes, name="fwd", cudnn_off=False
            )
        return F.identity(x)

    def __repr__(self):
        return "%s(p = %s, axes=%s)" % (type(self).__name__, self._rate, self._axes)


class Embedding(HybridBlock):
    """Rows of a (input_dim, output_dim) table by index; sparse_grad makes its gradient
    sparse.
    """

    def __init__(
        self,
        input_dim,
        output_dim,
        dtype="float32",
        weight_initializer=None,
        sparse_grad=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._kwargs = {
            "input_dim": input_dim,
            "output_dim": output_dim,
            "dtype": dtype,
            "sparse_grad": sparse_grad,
        }
        self.weight = self.params.get(
            "weight",
            shape=(input_dim, output_dim),
            dtype=dtype,
            init=weight_initializer,
            allow_deferred_init=True,
            grad_stype="row_sparse" if sparse_grad else "default",
        )

    def hybrid_forward(self, F, x, weight):
        return F.Embedding(x, weight, name="fwd", **self._kwargs)

    def __repr__(self):
        return "%s(%d -> %d, %s)" % (
            type(self).__name__,
            self._kwargs["input_dim"],
            self._kwargs["output_dim"],
            self._kwargs["dtype"],
        )


class Flatten(HybridBlock):
    """(N, a, b, ...) to (N, a*b*...)."""

    def hybrid_forward(self, F, x):
        return F.flatten(x)

    def __repr__(self):
        return type(self).__name__


class Lambda(Block):
    """A function of arrays as a block; a string names a function of plait.nd."""

    def __init__(self, function, prefix=None):
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            assert hasattr(nd, function), (
                "Function name %s is not found in ndarray." % function
            )
            function = getattr(nd, function)
        elif not callable(function):
            raise ValueError(
                "Unrecognized function in lambda: %s of type %s"
                % (function, type(function))
            )
        self._func_impl = function

    def forward(self, *args):
        return self._func_impl(*args)

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, self._func_impl.__name__)


class HybridLambda(HybridBlock):
    """A function f(F, x, ...) as a block; a string names a function of F."""

    def __init__(self, function, prefix=None):
        super().__init__(prefix=prefix)
        if isinstance(function, str):
            assert hasattr(nd, function), (
                "Function name %s is not found in symbol/ndarray." % function
            )
            self._func_name = function
            self._func = lambda F, *args: getattr(F, function)(*args)
        elif callable(function):
            self._func_name = function.__name__
            self._func = function
        else:
            raise ValueError(
                "Unrecognized function in lambda: %s of type %s"
                % (function, type(function))
            )

    def hybrid_forward(self, F, x, *args):
        return self._func(F, x, *args)

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, self._func_name)
