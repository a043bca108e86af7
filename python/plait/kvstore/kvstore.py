"""KVStore: named arrays in this process, or shared by all ranks of a job."""

from .. import _plait
from .. import optimizer as opt
from ..error import MXNetTypeError, MXNetValueError, check
from ..ndarray import NDArray
from ..util import atomic_write
from .base import KVStoreBase, capability_of
from .sparse_values import SharedRows, SparseValues

# Rules that treat every element of a weight alike: ranks update parts of arrays. The
# others look at norms or rows, and get whole arrays.
_ELEMENTWISE = frozenset(
    "sgd nag adam adamw adamax nadam adagrad adadelta rmsprop ftrl ftml signum sgld "
    "dcasgd ccsgd test".split()
)
# Rules that treat every row alike: the owner of a row updates it.
_BY_ROWS = frozenset(["groupadagrad"])


def _grouped(updater):
    """update(keys, pushed, stored) of the C++ store for an updater of Python."""
    if isinstance(updater, opt.Updater):
        return updater

    def update(keys, pushed, stored):
        for key, recv, value in zip(keys, pushed, stored):
            updater(key, recv, value)

    return update


class KVStore(KVStoreBase):
    """Arrays by key, all of them int or all of them str.

    Every method takes one key, or a list of keys with a list of as many values. A value
    is an array, or a list with one array for each device. All work is asynchronous and
    ordered with whatever else uses the arrays; transfers between ranks of higher
    priority go first. Stores of kind 'dist_...' are made, and their keys initialized,
    by all ranks in one order.
    """

    def __init__(self, kind="local"):
        self._kind = kind
        shared = "async" if "async" in kind else "sync"
        self._store = _plait.Store(shared if "dist" in kind else "local")
        several = self._store.size > 1
        self._sparse = SharedRows(shared) if several else SparseValues()
        self._keys = set()
        self._key_type = None
        self._updater = None

    type = property(lambda self: self._kind)
    rank = property(lambda self: self._store.rank)
    num_workers = property(lambda self: self._store.size)

    # Keys and values.

    def _pairs(self, what, keys, values):
        """{key: list of arrays}, equal keys put together."""
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
        return grouped

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
        elif key not in self._keys:
            raise MXNetValueError(
                "KVStore.%s: the key %r is not initialized; call init() first"
                % (what, key)
            )

    # Transfers.

    def init(self, key, value):
        """Starts keys with copies of values; once for each key. Among ranks those of
        rank 0 count.
        """
        self._start("init", self._pairs("init", key, value))

    def _start(self, what, pairs):
        for key, arrays in pairs.items():
            check(
                len(arrays) == 1,
                "KVStore.%s: got %d values for the key %r; expected one",
                what,
                len(arrays),
                key,
            )
        sparse = [k for k, a in pairs.items() if a[0].stype != "default"]
        for key in sparse:
            if key in self._keys and self._store.size == 1:
                raise MXNetValueError(
                    "KVStore.%s: the key %r is initialized already" % (what, key)
                )
            self._sparse.start(key, pairs[key][0])
        dense = [k for k in pairs if k not in sparse]
        if dense:
            self._store.init(dense, [pairs[k][0] for k in dense])
        self._keys.update(pairs)

    def broadcast(self, key, value, out, priority=0):
        self._start("broadcast", self._pairs("broadcast", key, value))
        self.pull(key, out, priority)

    def push(self, key, value, priority=0):
        """Sums each value over devices (and ranks); the sum is given to the updater, or
        where there is none replaces the stored value.
        """
        self._push(self._pairs("push", key, value), priority)

    def _push(self, pairs, priority):
        dense = {}
        for key, arrays in pairs.items():
            sparse = any(array.stype != "default" for array in arrays)
            if key in self._sparse:
                self._sparse.push(key, arrays, self._updater, priority)
            elif not (sparse and self._push_sparse(key, arrays, priority)):
                dense[key] = (
                    [a.tostype("default") for a in arrays] if sparse else arrays
                )
        if dense:
            self._sparse.pushed_dense(dense)
            self._store.push(list(dense), list(dense.values()), priority)

    def _push_sparse(self, key, arrays, priority):
        """Row_sparse gradients of a dense array; whether that is possible."""
        stored = self._store.stored(key)
        return self._sparse.push_to_dense(key, arrays, stored, self._updater, priority)

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        """Copies stored values to `out`."""
        check(out is not None, "KVStore.pull: out is missing; it has no default")
        dense = {}
        for k, arrays in self._pairs("pull", key, out).items():
            if ignore_sparse:  # as MXNet: sparse arrays go through row_sparse_pull
                arrays = [a for a in arrays if a.stype == "default"]
            if k in self._sparse:
                self._sparse.pull(k, arrays, priority)
            elif all(a.stype == "default" for a in arrays):
                dense[k] = arrays
            else:
                stored = self._store.stored(k)
                for array in arrays:
                    stored.copyto(array)
        dense = {k: arrays for k, arrays in dense.items() if arrays}
        if dense:
            self._store.pull(list(dense), list(dense.values()), priority)

    def pushpull(self, key, value, out=None, priority=0):
        values = self._pairs("pushpull", key, value)
        outs = values if out is None else self._pairs("pushpull", key, out)
        sparse = [
            k
            for k, arrays in values.items()
            if k in self._sparse
            or any(a.stype != "default" for a in (*arrays, *outs.get(k, ())))
        ]
        for k in sparse:
            self._push({k: values[k]}, priority)
            self.pull(k, outs[k], priority, ignore_sparse=False)
        dense = [k for k in values if k not in sparse]
        if dense or not values:
            self._sparse.pushed_dense(dense)
            self._store.pushpull(
                dense, [values[k] for k in dense], [outs[k] for k in dense], priority
            )

    def row_sparse_pull(self, key, out=None, priority=0, row_ids=None):
        """Copies the rows `row_ids` of stored row_sparse values to `out`."""
        check(out is not None, "KVStore.row_sparse_pull: out is missing")
        check(row_ids is not None, "KVStore.row_sparse_pull: row_ids are missing")
        if isinstance(row_ids, NDArray) and isinstance(key, (list, tuple)):
            row_ids = [row_ids] * len(key)
        outs = self._pairs("row_sparse_pull", key, out)
        rows = self._pairs("row_sparse_pull", key, row_ids)
        for k, arrays in outs.items():
            for array in arrays:
                if array.stype != "row_sparse" or not self._sparse.has_rows(k):
                    raise MXNetValueError(
                        "KVStore.row_sparse_pull: the value of %r or its out is not "
                        "row_sparse; expected both to be" % (k,)
                    )
            self._sparse.rows(k, arrays, rows[k], priority)

    # What happens to values.

    def set_gradient_compression(self, compression_params):
        """Compresses gradients with error feedback: {'type': '2bit', 'threshold': t}
        or {'type': '1bit'}; 'bfloat16' and 'float16' only narrow them. What devices
        push in a 'device' store, and what ranks send in a 'dist' one.
        """
        if "device" not in self._kind and "dist" not in self._kind:
            raise MXNetValueError(
                "KVStore.set_gradient_compression: a store of type %r does not "
                "compress; use 'device' or 'dist_sync'" % self._kind
            )
        params = dict(compression_params)
        kind, threshold = params.pop("type", None), float(params.pop("threshold", 0.5))
        if params or not isinstance(kind, str):
            raise MXNetValueError(
                "KVStore.set_gradient_compression: got %s; expected a type and a "
                "threshold" % (compression_params,)
            )
        self._store.set_compression(kind, threshold)

    def set_optimizer(self, optimizer):
        """Updates stored values with this optimizer at each push. Among ranks each
        updates the part that it owns, with this very object: a new learning rate counts
        at once, if all ranks set it.
        """
        self._set_updater(opt.get_updater(optimizer))

    def _set_updater(self, updater):
        """Sets updater(key, merged value, stored value), called at each push."""
        self._updater = updater
        if updater is None:
            self._store.set_updater(None, False)
            self._sparse.set_updater(None, True)
            return
        rule = getattr(updater, "optimizer", None)
        name = type(rule).__name__.lower()
        elementwise = name in _ELEMENTWISE
        self._store.set_updater(_grouped(updater), elementwise)
        self._sparse.set_updater(_grouped(updater), elementwise or name in _BY_ROWS)

    def set_staleness(self, bound):
        """Of 'dist_async': a rank that has pushed a key more than `bound` times oftener
        than the slowest waits in its next pull of it until that has caught up, ends or
        waits for all ranks itself; None: never. Collective.
        """
        if bound is not None and int(bound) < 0:
            raise MXNetValueError(
                "KVStore.set_staleness: got %r; expected a number from 0, or None"
                % (bound,)
            )
        bound = -1 if bound is None else int(bound)
        self._sparse.set_staleness(bound)
        self._store.set_staleness(bound)  # ends when all ranks have come here

    def is_capable(self, capability):
        return capability_of(capability) == KVStoreBase.OPTIMIZER

    def _states_owner(self, what):
        check(
            isinstance(self._updater, opt.Updater),
            "KVStore.%s: set_optimizer() was not called; the store has no states",
            what,
        )
        return self._updater

    def _states_file(self, fname):
        """Each rank keeps the states of what it owns."""
        if self.num_workers == 1:
            return fname
        return "%s.%d-of-%d" % (fname, self.rank, self.num_workers)

    def save_optimizer_states(self, fname, dump_optimizer=False, format="plait"):
        """Writes the states to a file; among ranks to one for each, FNAME.R-of-N, which
        as many ranks load again.
        """
        updater = self._states_owner("save_optimizer_states")
        states = updater.get_states(dump_optimizer, format=format)
        atomic_write(self._states_file(fname), states)

    def load_optimizer_states(self, fname):
        updater = self._states_owner("load_optimizer_states")
        with open(self._states_file(fname), "rb") as f:
            updater.set_states(f.read())
        self._set_updater(updater)  # the optimizer may be another

    # Other ranks.

    def _barrier(self):
        """Waits until all ranks have come here."""
        self._store.barrier()

    def _send_command_to_servers(self, head, body):
        raise MXNetValueError(
            "KVStore: there are no server processes to send %r to; every rank serves "
            "the part of the arrays that it owns" % (head,)
        )
