"""Where a Trainer sums gradients of several devices: inside the process, or in a given
store.
"""

from .. import ndarray as nd
from ..error import NotYetError


class LocalSum:
    """Sums the arrays of one key over devices, in place; the updates stay with the
    caller.
    """

    def __init__(self, kind):
        self.type = kind

    def is_capable(self, capability):
        """It keeps no optimizer."""
        return False

    def set_gradient_compression(self, params):
        """Compression comes with the key-value store."""
        raise NotYetError(
            "Trainer: gradient compression comes with the key-value store, in a "
            "later release"
        )

    def broadcast(self, key, value, out, priority=0):
        """Copies a value to all devices."""
        for array in out:
            if array is not value:
                value.copyto(array)

    def pushpull(self, key, value, out=None, priority=0):
        """Replaces each array by the sum of all."""
        where = value[0].context
        total = nd.add_n(*[array.as_in_context(where) for array in value])
        for array in value if out is None else out:
            total.copyto(array)

    def push(self, key, value, priority=0):
        """The first half of pushpull, for sparse gradients."""
        where = value[0].context
        total = value[0].as_in_context(where)
        for array in value[1:]:
            total = total + array.as_in_context(where)
        self._pushed = total

    def pull(self, key, out, priority=0, ignore_sparse=True):
        """The second half of pushpull."""
        for array in out:
            self._pushed.copyto(array)


def make_store(kvstore, devices, sparse_weights):
    """(store or None, whether updates run in it) for a Trainer's kvstore argument."""
    if kvstore is None or (
        isinstance(kvstore, str)
        and devices <= 1
        and not sparse_weights
        and "dist" not in kvstore
    ):
        return None, False
    if not isinstance(kvstore, str):
        return kvstore, kvstore.is_capable("optimizer")
    if sparse_weights or "dist" in kvstore:
        raise NotYetError(
            "Trainer: kvstore=%r and row_sparse parameters need the key-value "
            "store, which comes with a later release" % (kvstore,)
        )
    return LocalSum(kvstore), False
