"""plait.kv: named arrays that devices push gradients to and pull weights from."""

import atexit

from .. import _plait
from .base import KVStoreBase, TestStore, create
from .kvstore import KVStore

__all__ = ["create", "KVStoreBase", "KVStore", "TestStore"]

# Other ranks learn that this program ends, and all part together.
atexit.register(_plait.world_close)
