"""SparseValues: the row_sparse part of a store, in one process."""

import numpy as np

from ..error import MXNetValueError, check
from ..ndarray import array as array_of
from ..ndarray import sparse
from .base import total


class SparseValues:
    """Row_sparse arrays by key; what is pushed is summed and given to the updater."""

    def __init__(self):
        self.values = {}

    def start(self, key, value):
        """Keeps a copy of a first value."""
        self.values[key] = value.copy()

    def push(self, key, arrays, updater):
        """Sums arrays of any storage and updates, or replaces, the stored one."""
        stored = self.values[key]
        merged = arrays[0].copy() if len(arrays) == 1 else total(arrays)
        if updater is not None:
            updater(key, merged, stored)
        elif merged.stype == "row_sparse":
            self.values[key] = merged
        else:
            merged.copyto(stored)

    def rows(self, key, arrays, row_ids):
        """Copies the rows `row_ids`, one list for each array or one for all."""
        stored = self.values[key]
        if len(row_ids) == 1:
            row_ids = row_ids * len(arrays)
        check(
            len(row_ids) == len(arrays),
            "KVStore.row_sparse_pull: got %d row_ids for %d arrays of the key %r",
            len(row_ids),
            len(arrays),
            key,
        )
        for array, ids in zip(arrays, row_ids):
            wanted = np.unique(ids.asnumpy()).astype("int64")
            if wanted.size and not 0 <= wanted[0] <= wanted[-1] < stored.shape[0]:
                raise MXNetValueError(
                    "KVStore.row_sparse_pull: the rows of %r go from %d to %d; "
                    "expected 0 to %d"
                    % (key, wanted[0], wanted[-1], stored.shape[0] - 1)
                )
            kept = sparse.retain(stored, array_of(wanted, dtype="int64"))
            kept.copyto(array)
