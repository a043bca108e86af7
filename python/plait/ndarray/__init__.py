"""plait.nd: imperative arrays, and every operator as a function.

Operator functions are C objects made from the registry; their documentation is there
too.
Names map as in MXNet: _contrib_X is nd.contrib.X, _linalg_X is nd.linalg.X, and so on.
"""

from . import _internal, contrib, image, linalg, op, random, sparse, utils  # noqa: F401
from ._core import NDArray, _Null  # noqa: F401
from ._namespaces import install as _install
from .utils import load, load_frombuffer, save  # noqa: F401

_install({"": globals()})

from .ndarray import *  # noqa: E402, F401, F403


def Custom(*data, **kwargs):
    """Calls an operator written in Python; see plait.operator."""
    from ..operator import Custom as call

    return call(*data, **kwargs)
