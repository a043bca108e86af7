"""Automatic names for symbols and blocks: NameManager and Prefix, a `with` stack per
thread.
"""

import threading
import warnings

from .base import ClassPropertyMeta, classproperty

__all__ = ["NameManager", "Prefix"]


class _Current(threading.local):
    """The stack of managers of one thread; made with a default manager in
    every thread.
    """

    def __init__(self):
        self.stack = [NameManager()]

    @property
    def value(self):
        """The manager in force."""
        return self.stack[-1]

    @value.setter
    def value(self, manager):
        self.stack[-1] = manager


class NameManager(metaclass=ClassPropertyMeta):
    """Numbers names by hint: conv0, conv1, ... Use in a `with` to start counting
    afresh.
    """

    def __init__(self):
        self._counter = {}

    def get(self, name, hint):
        """`name` when given, else the next name for `hint`."""
        if name:
            return name
        count = self._counter.get(hint, 0)
        self._counter[hint] = count + 1
        return "%s%d" % (hint, count)

    def __enter__(self):
        self._current.stack.append(self)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self._current.stack.pop()

    @classproperty
    def current(cls):
        """[deprecated] The manager in force in this thread."""
        warnings.warn(
            "NameManager.current is deprecated; use NameManager in a with statement",
            DeprecationWarning,
            stacklevel=3,
        )
        return NameManager._current.value

    @current.setter
    def current(cls, manager):
        NameManager._current.value = manager


class Prefix(NameManager):
    """A NameManager that puts a prefix before every name, given or automatic."""

    def __init__(self, prefix):
        super().__init__()
        self._prefix = prefix

    def get(self, name, hint):
        return self._prefix + super().get(name, hint)


NameManager._current = _Current()
