"""Where a Trainer sums gradients of several devices: a store, named or given."""

import os

from .. import kvstore as kvs


def make_store(kvstore, devices, sparse_weights):
    """(store or None, whether updates run in it) for a Trainer's kvstore argument.

    One device needs none. $MXNET_UPDATE_ON_KVSTORE=0 keeps updates outside, but for
    dist_async, where they always run in it.
    """
    if kvstore is None:
        return None, False
    store = kvstore
    if isinstance(kvstore, str):
        if devices <= 1 and not sparse_weights and "dist" not in kvstore:
            return None, False
        store = kvs.create(kvstore)
    if isinstance(store, kvs.KVStore) and "async" in store.type:
        return store, True
    on_store = os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1") not in ("", "0")
    return store, on_store and store.is_capable(kvs.KVStoreBase.OPTIMIZER)
