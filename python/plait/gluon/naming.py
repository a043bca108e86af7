"""Names of blocks and parameters: prefixes counted by the enclosing name scope."""

import threading

from ..name import NameManager, Prefix
from .parameter import ParameterDict


class _Current(threading.local):
    """The innermost name scope of a thread, or None."""

    value = None


class BlockScope:
    """`with block.name_scope():` children made inside get the block's prefix.

    The counters live in the block, so that a second `with` goes on counting. The scope
    is made for each `with`; a block never holds one, as that would be a reference
    cycle.
    """

    _current = _Current()

    def __init__(self, block):
        self._block = block

    @staticmethod
    def create(prefix, params, hint):
        """(prefix, ParameterDict) for a new block; prefix None means: count
        by `hint`.
        """
        scope = BlockScope._current.value
        block = scope._block if scope is not None else None
        if prefix is None:
            if block is None:
                prefix = NameManager._current.value.get(None, hint) + "_"
            else:
                count = block._name_counts.get(hint, 0)
                block._name_counts[hint] = count + 1
                prefix = "%s%d_" % (hint, count)
        if params is not None:
            params = ParameterDict(params.prefix, params)
        elif block is None:
            params = ParameterDict(prefix)
        else:
            params = ParameterDict(block.params.prefix + prefix, block.params._shared)
        return (prefix if block is None else block.prefix + prefix), params

    def __enter__(self):
        if not self._block._empty_prefix:
            self._outer = BlockScope._current.value
            BlockScope._current.value = self
            self._names = Prefix(self._block.prefix)
            self._names.__enter__()
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        if not self._block._empty_prefix:
            self._names.__exit__(exc_type, exc_value, traceback)
            BlockScope._current.value = self._outer
