"""plait.kv: named arrays that devices push gradients to and pull weights from."""

from .base import KVStoreBase, TestStore, create
from .kvstore import KVStore

__all__ = ["create", "KVStoreBase", "KVStore", "TestStore"]
