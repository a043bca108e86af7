"""Attribute scopes: strings attached to the symbols made inside a `with
AttrScope(...)`.
"""

import collections
import threading
import warnings

from .base import ClassPropertyMeta, classproperty

__all__ = ["AttrScope"]


class _Current(threading.local):
    """The stack of scopes of one thread; made with an empty scope in every thread."""

    def __init__(self):
        self.stack = [AttrScope()]

    @property
    def value(self):
        """The scope in force."""
        return self.stack[-1]

    @value.setter
    def value(self, scope):
        self.stack[-1] = scope


class AttrScope(metaclass=ClassPropertyMeta):
    """Attributes (strings only) for the symbols made inside; inner scopes win."""

    def __init__(self, **kwargs):
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise ValueError(
                    "Attributes need to be string; %s is %r" % (key, value)
                )
        self._attr = kwargs

    def get(self, attr):
        """The attributes in force, overridden by the dict `attr` (or None)."""
        if not self._attr:
            return attr if attr else {}
        merged = dict(self._attr)
        merged.update(attr or {})
        return merged

    def __enter__(self):
        stack = self._current.stack
        self._attr = {**stack[-1]._attr, **self._attr}
        stack.append(self)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self._current.stack.pop()

    @classproperty
    def current(cls):
        """[deprecated] The scope in force in this thread."""
        warnings.warn(
            "AttrScope.current is deprecated; use AttrScope in a with statement",
            DeprecationWarning,
            stacklevel=3,
        )
        return AttrScope._current.value

    @current.setter
    def current(cls, scope):
        AttrScope._current.value = scope


AttrScope._current = _Current()
# How many subgraphs of control flow have a name.
AttrScope._subgraph_names = collections.defaultdict(int)
