"""MXNet's libraries of operators, loaded at run time: Plait cannot run them."""

import os

from .error import MXNetNotImplementedError, MXNetValueError

__all__ = ["load"]


def load(path, verbose=True):
    """Says why a library of MXNet's extension interface (lib_api.h) cannot be loaded.

    Such a library is machine code for MXNet's own operator and graph structures. Write
    operators with plait.operator.CustomOp or autograd.Function instead.
    """
    if not os.path.isfile(path):
        raise MXNetValueError(
            "library.load: %s is no file; a library was expected" % (path,)
        )
    raise MXNetNotImplementedError(
        "library.load: %s is built for the structures of MXNet's lib_api.h, which "
        "Plait does not have; write operators with plait.operator.CustomOp or "
        "autograd.Function" % (path,)
    )
