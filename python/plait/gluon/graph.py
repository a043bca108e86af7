"""The seam between HybridBlock and traced graphs: all that a symbolic executor has to
fill in.

Until there is one, trace() gives nothing and a hybridized block runs imperatively,
which gives the same results.
"""

from .. import ndarray as nd
from ..error import NotYetError


def trace(block, flags):
    """A callable graph(x, *args) to run instead of block.hybrid_forward, or None.

    Called when a block is hybridized and again when its structure changes; `flags` are
    the options of hybridize(). Tracing itself waits for the first call, when shapes are
    known.
    """
    return None


def compose(block, x, args):
    """The symbol that `block` makes of symbol inputs."""
    raise ValueError(
        "%s: got %s; expected an NDArray among the inputs (symbols come with a "
        "later release)"
        % (block.name, ", ".join(type(a).__name__ for a in (x,) + tuple(args)))
    )


def export(block, path, epoch, remove_amp_cast):
    """Writes the traced graph and its parameters."""
    raise NotYetError(
        "export: writing %s-symbol.json needs a traced graph, which comes with "
        "symbols; use save_parameters" % path
    )


def first_array(x, args):
    """The first NDArray among nested inputs, or None."""
    for value in (x,) + tuple(args):
        if isinstance(value, nd.NDArray):
            return value
        if isinstance(value, (list, tuple)):
            found = first_array(None, value)
            if found is not None:
                return found
    return None
