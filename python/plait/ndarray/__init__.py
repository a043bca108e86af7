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


class CachedOp:
    """A symbol called like an operator: op(*arrays) in the order of list_inputs()."""

    def __init__(self, sym, flags=(), thread_safe=False):
        from .. import _plait

        self._function = _plait.graph_function(sym.handle, sym.name or "graph")

    def __call__(self, *args, out=None):
        outputs = self._function(list(args))
        if out is not None:
            targets = out if isinstance(out, (list, tuple)) else [out]
            for target, value in zip(targets, outputs):
                target[:] = value
            return out
        return outputs[0] if len(outputs) == 1 else outputs
