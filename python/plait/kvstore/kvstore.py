"""KVStore: the store inside one process; it sums over devices and keeps the result."""

import numpy as np

from .. import optimizer as opt
from ..error import MXNetTypeError, MXNetValueError, NotYetError, check
from ..ndarray import NDArray, sparse, zeros_like
from ..ndarray import array as array_of
from ..util import atomic_write
from .base import KVStoreBase, capability_of, total


class KVStore(KVStoreBase):
    """Arrays by key, all of them int or all of them str.

    Every method takes one key, or a list of keys with a list of as many values. A value
    is an array, or a list with one array for each device. Transfers follow the order of
    the engine, so priorities are accepted and not needed.
    """

    def __init__(self, kind="local"):
        self._kind = kind
        self._values = {}
        self._key_type = None
        self._updater = None
        self._threshold = None
        self._residuals = {}

    type = property(lambda self: self._kind)
    rank = property(lambda self: 0)
    num_workers = property(lambda self: 1)

    # Keys and values.

    def _pairs(self, what, keys, values):
        """[(key, list of arrays)], equal keys put together."""
        if isinstance(keys, (list, tuple)):
            if not isinstance(values, (list, tuple)) or len(keys) != len(values):
                raise MXNetValueError(
                    "KVStore.%s: got %d keys; expected a list of as many values"
                    % (what, len(keys))
                )
        else:
            keys, values = [keys], [values]
        grouped = {}
        for key, value in zip(keys, values):
            self._check_key(what, key)
            arrays = [value] if isinstance(value, NDArray) else list(value)
            for array in arrays:
                if not isinstance(array, NDArray):
                    raise MXNetTypeError(
                        "KVStore.%s: the value of %r holds a %s; expected NDArrays"
                        % (what, key, type(array).__name__)
                    )
            grouped.setdefault(key, []).extend(arrays)
        return list(grouped.items())

    def _check_key(self, what, key):
        kind = str if isinstance(key, str) else int
        if not isinstance(key, (int, str)) or isinstance(key, bool):
            raise MXNetTypeError(
                "KVStore.%s: the key %r is a %s; expected int or str"
                % (what, key, type(key).__name__)
            )
        if self._key_type not in (None, kind):
            raise MXNetTypeError(
                "KVStore.%s: the key %r is a %s, but the store began with %s keys"
                % (what, key, kind.__name__, self._key_type.__name__)
            )
        if what in ("init", "broadcast"):
            self._key_type = kind

    def _stored(self, what, key):
        try:
            return self._values[key]
        except KeyError:
            raise MXNetValueError(
                "KVStore.%s: the key %r is not initialized; call init() first"
                % (what, key)
            ) from None

    # Transfers.

    def init(self, key, value):
        """Starts keys with copies of values; once for each key."""
        for k, arrays in self._pairs("init", key, value):
            self._start("init", k, arrays)

    def _start(self, what, key, arrays):
        if key in self._values:
            raise MXNetValueError(
                "KVStore.%s: the key %r is initialized already" % (what, key)
            )
        check(
            len(arrays) == 1,
            "KVStore.%s: got %d values for the key %r; expected one",
            what,
            len(arrays),
            key,
        )
        self._values[key] = arrays[0].copy()

    def broadcast(self, key, value, out, priority=0):
        for k, arrays in self._pairs("broadcast", key, value):
            self._start("broadcast", k, arrays)
        self.pull(key, out)

    def push(self, key, value, priority=0):
        """Sums each value over devices; the sum is given to the updater, or where there
        is none replaces the stored value.
        """
        for k, arrays in self._pairs("push", key, value):
            stored = self._stored("push", k)
            for array in arrays:
                if array.shape != stored.shape:
                    raise MXNetValueError(
                        "KVStore.push: the value of %r has shape %s; expected %s"
                        % (k, array.shape, stored.shape)
                    )
            merged = self._merge(k, arrays)
            if self._updater is None:
                self._values[k] = merged.as_in_context(stored.context)
            else:
                self._updater(k, merged.as_in_context(stored.context), stored)

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        """Copies stored values to `out`."""
        check(out is not None, "KVStore.pull: out is missing; it has no default")
        for k, arrays in self._pairs("pull", key, out):
            stored = self._stored("pull", k)
            for array in arrays:
                if ignore_sparse and array.stype != "default":
                    continue  # as MXNet: sparse arrays go through row_sparse_pull
                stored.copyto(array)

    def pushpull(self, key, value, out=None, priority=0):
        out = value if out is None else out
        if self._updater is not None:
            self.push(key, value)
            self.pull(key, out)
            return
        targets = dict(self._pairs("pushpull", key, out))
        pairs = self._pairs("pushpull", key, value)
        # All sums first: keys may share arrays.
        for k, merged in [(k, self._merge(k, arrays)) for k, arrays in pairs]:
            for target in targets[k]:
                merged.copyto(target)

    def row_sparse_pull(self, key, out=None, priority=0, row_ids=None):
        """Copies the rows `row_ids` of stored row_sparse values to `out`."""
        check(out is not None, "KVStore.row_sparse_pull: out is missing")
        check(row_ids is not None, "KVStore.row_sparse_pull: row_ids are missing")
        rows = dict(self._pairs("row_sparse_pull", key, row_ids))
        for k, arrays in self._pairs("row_sparse_pull", key, out):
            stored, wanted = self._stored("row_sparse_pull", k), rows[k]
            wanted = wanted * len(arrays) if len(wanted) == 1 else wanted
            for array, ids in zip(arrays, wanted):
                if array.stype != "row_sparse":
                    raise MXNetValueError(
                        "KVStore.row_sparse_pull: out of %r has storage %r; expected "
                        "row_sparse" % (k, array.stype)
                    )
                ids = np.unique(ids.asnumpy()).astype("int64")
                kept = sparse.retain(stored, array_of(ids, dtype="int64"))
                kept.copyto(array)

    # What happens to values.

    def _merge(self, key, arrays):
        if self._threshold is not None and len(arrays) > 1:
            arrays = [self._compressed(key, k, array) for k, array in enumerate(arrays)]
        return arrays[0].copy() if len(arrays) == 1 else total(arrays)

    def _compressed(self, key, device, gradient):
        """What 2-bit compression leaves of a gradient: +t, -t or 0; the rest is kept
        for the next push.
        """
        residual = self._residuals.get((key, device))
        if residual is None:
            residual = self._residuals[key, device] = zeros_like(gradient)
        residual += gradient
        limit = self._threshold
        sent = limit * ((residual >= limit) - (residual <= -limit))
        residual -= sent
        return sent

    def set_gradient_compression(self, compression_params):
        """Compresses what is pushed to {'type': '2bit', 'threshold': t} with error
        feedback; for stores of type 'device'.
        """
        if "device" not in self._kind:
            raise MXNetValueError(
                "KVStore.set_gradient_compression: a store of type %r does not "
                "compress; use 'device'" % self._kind
            )
        params = dict(compression_params)
        kind, threshold = params.pop("type", None), float(params.pop("threshold", 0.5))
        if kind != "2bit" or params or threshold <= 0:
            raise MXNetValueError(
                "KVStore.set_gradient_compression: got %s; expected type '2bit' and a "
                "threshold above 0" % (compression_params,)
            )
        self._threshold = threshold

    def set_optimizer(self, optimizer):
        self._set_updater(opt.get_updater(optimizer))

    def _set_updater(self, updater):
        """Sets updater(key, merged value, stored value), called at each push."""
        self._updater = updater

    def is_capable(self, capability):
        return capability_of(capability) == KVStoreBase.OPTIMIZER

    def _states_owner(self, what):
        check(
            isinstance(self._updater, opt.Updater),
            "KVStore.%s: set_optimizer() was not called; the store has no states",
            what,
        )
        return self._updater

    def save_optimizer_states(self, fname, dump_optimizer=False, format="plait"):
        updater = self._states_owner("save_optimizer_states")
        atomic_write(fname, updater.get_states(dump_optimizer, format=format))

    def load_optimizer_states(self, fname):
        updater = self._states_owner("load_optimizer_states")
        with open(fname, "rb") as f:
            updater.set_states(f.read())

    # Other processes: there are none.

    def _barrier(self):
        """Waits for the other processes."""

    def _send_command_to_servers(self, head, body):
        raise NotYetError(
            "KVStore: servers come with a later release; a store of type %r has none"
            % self._kind
        )
