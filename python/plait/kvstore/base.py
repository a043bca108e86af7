"""KVStoreBase: what a store can do; the register of stores, and create()."""

import warnings

from ..error import MXNetTypeError, MXNetValueError, NotYetError
from ..ndarray import NDArray, add_n

__all__ = ["create", "KVStoreBase"]


def total(arrays):
    """The sum of arrays that may lie on several devices, on the device of the first."""
    where = arrays[0].context
    return add_n(*[array.as_in_context(where) for array in arrays])


class KVStoreBase:
    """Interface of stores; register a subclass to make create() know it by name."""

    OPTIMIZER = "optimizer"
    kv_registry = {}

    def broadcast(self, key, value, out, priority=0):
        """Starts `key` with a value, and copies it to the arrays `out`."""
        raise NotImplementedError()

    def pushpull(self, key, value, out=None, priority=0):
        """Sums `value` over devices (and processes); the result goes to `out`,
        by default to `value` itself.
        """
        raise NotImplementedError()

    def set_optimizer(self, optimizer):
        """Lets the store update its values with this optimizer at each push."""
        raise NotImplementedError()

    def is_capable(self, capability):
        """Whether the store has a capability; the only one asked for is OPTIMIZER."""
        raise NotImplementedError()

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Writes the states of set_optimizer()'s optimizer to a file."""
        raise NotImplementedError()

    def load_optimizer_states(self, fname):
        """Reads them back."""
        raise NotImplementedError()

    @property
    def type(self):
        """The name that create() knows the store by."""
        raise NotImplementedError()

    @property
    def rank(self):
        """The number of this process."""
        raise NotImplementedError()

    @property
    def num_workers(self):
        """How many processes share the store."""
        raise NotImplementedError()

    @staticmethod
    def register(klass):
        """Decorator: makes a class available to create() by its name in lower case."""
        if not isinstance(klass, type):
            raise MXNetTypeError("register: got %r; expected a class" % (klass,))
        name = klass.__name__.lower()
        previous = KVStoreBase.kv_registry.get(name)
        if previous is not None:
            warnings.warn(
                "KVStoreBase.register: %s.%s takes the place of %s.%s"
                % (
                    klass.__module__,
                    klass.__name__,
                    previous.__module__,
                    previous.__name__,
                ),
                stacklevel=2,
            )
        KVStoreBase.kv_registry[name] = klass
        return klass


def capability_of(capability):
    """The name of a capability in lower case; an unknown one is an error."""
    if str(capability).lower() != KVStoreBase.OPTIMIZER:
        raise MXNetValueError(
            "is_capable: unknown capability %r; expected %r"
            % (capability, KVStoreBase.OPTIMIZER)
        )
    return KVStoreBase.OPTIMIZER


@KVStoreBase.register
class TestStore(KVStoreBase):
    """The smallest store: it sums over devices and keeps nothing."""

    __test__ = False  # not a test case, whatever pytest thinks of its name

    def broadcast(self, key, value, out, priority=0):
        for array in out if isinstance(out, (list, tuple)) else [out]:
            array[:] = value

    def pushpull(self, key, value, out=None, priority=0):
        if isinstance(value, NDArray):
            value = [value]
        merged = total(value)
        out = value if out is None else out
        self.broadcast(key, merged, out)

    @staticmethod
    def is_capable(capability):
        return capability_of(capability) != KVStoreBase.OPTIMIZER

    type = property(lambda self: "teststore")
    rank = property(lambda self: 0)
    num_workers = property(lambda self: 1)


_LOCAL = (
    "local",
    "local_update_cpu",
    "local_allreduce_cpu",
    "device",
    "local_allreduce_device",
)

_SHARED = (
    "dist",
    "dist_sync",
    "dist_device_sync",
    "dist_sync_device",
    "dist_async",
    "dist_device_async",
    "dist_async_device",
)
_ABSENT = {
    "nccl": "joins GPUs, and this build has none; 'device' sums over CPU devices, "
    "'dist_sync' over processes",
    "p3": "is not needed: 'dist_sync' cuts large arrays and sends by priority",
    "horovod": "needs Horovod's plug-in, registered with KVStoreBase.register; "
    "'dist_sync' does the same over MPI",
    "byteps": "needs BytePS' plug-in, registered with KVStoreBase.register; "
    "'dist_sync' does the same over MPI",
}


def create(name="local"):
    """A store by name: 'local' and 'device' inside this process, 'dist_sync',
    'dist_device_sync' and 'dist_async' among all ranks of the job, or the name of a
    registered class.
    """
    if not isinstance(name, str):
        raise MXNetTypeError(
            "kvstore.create: got %s; expected a name" % type(name).__name__
        )
    name = name.lower()
    if name in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[name]()
    if name in _LOCAL or name in _SHARED:
        from .kvstore import KVStore

        return KVStore(name)
    if name in _ABSENT:
        raise NotYetError("kvstore.create: %r %s" % (name, _ABSENT[name]))
    raise MXNetValueError(
        "kvstore.create: unknown type %r; expected one of %s"
        % (name, ", ".join((*_LOCAL, *_SHARED, *sorted(KVStoreBase.kv_registry))))
    )
