"""Layers: dense, convolution, pooling, normalisation, activations and containers."""

from ..block import Block, HybridBlock
from . import activations, attention_layers, basic_layers, conv_layers
from .activations import ELU, GELU, SELU, Activation, LeakyReLU, PReLU, Swish
from .attention_layers import MultiHeadAttention
from .basic_layers import *  # noqa: F403
from .basic_layers import __all__ as _basic
from .conv_layers import *  # noqa: F403
from .conv_layers import __all__ as _conv

__all__ = (
    [
        "activations",
        "attention_layers",
        "basic_layers",
        "conv_layers",
        "Block",
        "HybridBlock",
    ]
    + activations.__all__
    + attention_layers.__all__
    + _basic
    + _conv
)


def __getattr__(name):
    if name == "SymbolBlock":
        from ..symbol_block import SymbolBlock

        return SymbolBlock
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
