"""plait.kv: named arrays that devices push gradients to and pull weights from."""

import atexit
import sys

from .. import _plait
from .base import KVStoreBase, TestStore, create
from .kvstore import KVStore

__all__ = ["create", "KVStoreBase", "KVStore", "TestStore"]

# Other ranks learn that this program ends, and all part together.
atexit.register(_plait.world_close)


def _tell_the_others(before):
    """An excepthook: ranks that wait for this one learn at once why it ends."""

    def hook(kind, value, trace):
        text = " ".join(str(value).split())[:300]
        _plait.world_fail("ended by %s: %s" % (kind.__name__, text))
        before(kind, value, trace)

    return hook


if _plait.world_started():
    sys.excepthook = _tell_the_others(sys.excepthook)
