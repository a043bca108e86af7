"""Parameters of blocks, alone and by name."""

from ._parameter import (
    Constant,
    DeferredInitializationError,
    Parameter,
)
from .parameter_dict import ParameterDict

__all__ = [
    "DeferredInitializationError",
    "Parameter",
    "Constant",
    "ParameterDict",
]
