"""Gluon: networks as blocks, losses, the trainer and data loading."""

import importlib

from .. import ndarray as nd
from . import (
    block,
    layer_names,  # noqa: F401
    loss,
    nn,
    parameter,
    trainer,
    utils,
)
from .block import Block, HybridBlock
from .parameter import Constant, DeferredInitializationError, Parameter, ParameterDict
from .trainer import Trainer

__all__ = [
    "Block",
    "HybridBlock",
    "SymbolBlock",
    "Constant",
    "DeferredInitializationError",
    "Parameter",
    "ParameterDict",
    "Trainer",
    "block",
    "contrib",
    "data",
    "loss",
    "model_zoo",
    "nn",
    "parameter",
    "rnn",
    "trainer",
    "utils",
]

_LAZY = ("contrib", "data", "model_zoo", "rnn")


def __getattr__(name):
    if name in _LAZY:
        return importlib.import_module("%s.%s" % (__name__, name))
    if name == "SymbolBlock":  # symbols are imported when they are needed
        from .symbol_block import SymbolBlock

        return SymbolBlock
    if name == "tensor_types":
        from ..symbol import Symbol

        return (Symbol, nd.NDArray)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
