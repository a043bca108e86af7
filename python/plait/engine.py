"""Control of the engine's bulking: several small operations merged into one."""

__all__ = ["set_bulk_size", "bulk"]


def set_bulk_size(size):
    """Sets this thread's limit on operations merged into one; returns the limit before.

    Plait merges pointwise operations by itself; the limit only bounds that.
    """
    from . import _plait

    return _plait.set_bulk_size(int(size))


class _BulkScope:
    """`with` form of set_bulk_size."""

    def __init__(self, size):
        self._size = size

    def __enter__(self):
        self._before = set_bulk_size(self._size)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        set_bulk_size(self._before)


def bulk(size):
    """Scope with a bulk size: ``with mx.engine.bulk(10): ...``."""
    return _BulkScope(size)
