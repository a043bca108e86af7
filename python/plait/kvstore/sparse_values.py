"""The row_sparse part of a store: in one process, and among ranks."""

import numpy as np

from .. import _plait
from ..error import MXNetValueError, check
from ..ndarray import array as array_of
from ..ndarray import sparse
from .base import total


def _paired(key, arrays, row_ids):
    """(array, numbers of rows, ascending) by array; one list may be for all."""
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
        rows = array.shape[0]
        if wanted.size and not 0 <= wanted[0] <= wanted[-1] < rows:
            raise MXNetValueError(
                "KVStore.row_sparse_pull: the rows of %r go from %d to %d; "
                "expected 0 to %d" % (key, wanted[0], wanted[-1], rows - 1)
            )
        yield array, array_of(wanted, dtype="int64")


class SparseValues:
    """Row_sparse arrays by key; what is pushed is summed and given to the updater."""

    def __init__(self):
        self._values = {}

    def __contains__(self, key):
        return key in self._values

    has_rows = __contains__

    def start(self, key, value):
        """Keeps a copy of a first value."""
        self._values[key] = value.copy()

    def push(self, key, arrays, updater, priority):
        """Sums arrays of any storage and updates, or replaces, the stored one."""
        self._values[key] = _pushed(key, self._values[key], arrays, updater)

    def push_to_dense(self, key, arrays, stored, updater, priority):
        """The same for a dense array, in place."""
        result = _pushed(key, stored, arrays, updater)
        if result is not stored:
            result.tostype("default").copyto(stored)
        return True

    def pushed_dense(self, keys):
        """Dense gradients of these keys go their way."""

    def pull(self, key, arrays, priority):
        """Copies everything to arrays of any storage."""
        for array in arrays:
            self._values[key].copyto(array)

    def rows(self, key, arrays, row_ids, priority):
        """Copies the rows `row_ids`, one list for each array or one for all."""
        for array, ids in _paired(key, arrays, row_ids):
            sparse.retain(self._values[key], ids).copyto(array)

    def set_updater(self, update, by_rows):
        """Updaters come with each push."""

    def set_staleness(self, bound):
        """Devices are in step."""


def _pushed(key, stored, arrays, updater):
    merged = arrays[0].copy() if len(arrays) == 1 else total(arrays)
    if updater is not None:
        updater(key, merged, stored)
        return stored
    if merged.stype == "row_sparse":
        return merged
    merged.copyto(stored)
    return stored


class SharedRows:
    """The same among ranks: each owns some rows of every key; see kvstore/row_store.h.

    A dense array whose first gradient is row_sparse is kept by rows from then on.
    """

    def __init__(self, kind):
        self._rows = _plait.RowStore(kind)
        self._dense = set()  # keys of the other way
        self._stored = {}  # the whole arrays of keys that began dense

    def __contains__(self, key):
        return self._rows.has(key)

    def has_rows(self, key):
        """Whether row_sparse_pull may ask for them."""
        return self._rows.has(key) and not self._rows.is_dense(key)

    def start(self, key, value):
        """Starts a key; collective."""
        self._rows.init(key, value)

    def push(self, key, arrays, updater, priority):
        """Sums over devices, then over ranks."""
        try:
            merged = arrays[0] if len(arrays) == 1 else total(arrays)
        except Exception as error:
            self._rows.refuse(key, str(error))
            raise
        stored = self._stored.get(key)  # others know nothing of other rows
        rule = getattr(updater, "optimizer", None)
        only_rows = (stored is None or updater is None) or (
            hasattr(rule, "_only_rows") and rule._only_rows(stored)
        )
        self._rows.push(key, merged, only_rows, priority)

    def push_to_dense(self, key, arrays, stored, updater, priority):
        """As for SparseValues; False where dense gradients came before."""
        if key in self._dense:
            return False
        self._rows.adopt(key, stored)
        self._stored[key] = stored
        self.push(key, arrays, updater, priority)
        return True

    def pushed_dense(self, keys):
        """Their parts are no whole rows."""
        self._dense.update(keys)

    def pull(self, key, arrays, priority):
        """Everything to arrays of any storage; of dense keys from the own array."""
        for array in arrays:
            self._rows.pull(key, array, priority)

    def rows(self, key, arrays, row_ids, priority):
        """Only these rows, from their owners."""
        for array, ids in _paired(key, arrays, row_ids):
            self._rows.pull_rows(key, ids, array, priority)

    def set_updater(self, update, by_rows):
        """The one of all keys."""
        self._rows.set_updater(update, by_rows)

    def set_staleness(self, bound):
        """Of pushes that owners apply at once; -1: none."""
        self._rows.set_staleness(bound)
