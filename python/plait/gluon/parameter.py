"""Parameters of blocks, alone and by name."""

from ._parameter import (
    Constant,
    DeferredInitializationError,
    Parameter,
    tensor_types,
)
from .parameter_dict import ParameterDict

__all__ = [
    "DeferredInitializationError",
    "Parameter",
    "Constant",
    "ParameterDict",
    "tensor_types",
]
