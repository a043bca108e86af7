"""Operators as functions of symbols, made from the registry."""

import numpy as np

from .. import _plait
from ..attribute import AttrScope
from ..context import Context
from ..error import MXNetTypeError
from ..name import NameManager
from ..ndarray._core import _Null, dtype_name

_IGNORED = frozenset(("out", "ctx"))


def text_of(value):
    """A parameter as MXNet's graph files write it: Python's str() of plain values."""
    if isinstance(value, str):
        return value
    if isinstance(value, (tuple, list)):
        return str(type(value)(_plain(v) for v in value))
    if isinstance(value, (type, np.dtype)):
        return dtype_name(value)
    return str(_plain(value))


def _plain(value):
    if isinstance(value, (tuple, list)):
        return type(value)(_plain(v) for v in value)
    return value.item() if isinstance(value, np.generic) else value


def attribute_text(value):
    """An attribute as graph files hold it; initializers say how to make them again."""
    if isinstance(value, str):
        return value
    return value.dumps() if hasattr(value, "dumps") else str(value)


class SymbolOp:
    """A function that makes a node. Symbols are inputs, by position or name; what else
    is given are parameters; inputs that are not given become variables named after the
    node."""

    __slots__ = (
        "op", "__name__", "hint", "inputs", "params", "variable", "known", "open",
    )  # fmt: skip

    def __init__(self, op, name):
        self.op = op
        self.__name__ = name
        self.hint = name.lower()

    def __getattr__(self, name):
        """Asks the registry when the function is first called: there are very many."""
        if name not in SymbolOp.__slots__:
            raise AttributeError(name)
        signature = _plait.symbol_signature(self.op)
        self.inputs = signature["inputs"]
        self.params = signature["params"]
        self.variable = signature["variable"]
        self.known = frozenset(self.params)
        self.open = signature["open"]
        return object.__getattribute__(self, name)

    @property
    def __doc__(self):
        return _plait.op_function(self.op, self.__name__).__doc__

    def __repr__(self):
        return "<symbol operator %s>" % self.__name__

    def __reduce__(self):
        return SymbolOp, (self.op, self.__name__)

    def __get__(self, instance, owner=None):
        return self if instance is None else _Method(self, instance)

    def __call__(self, *args, name=None, attr=None, **kwargs):
        from .symbol import Symbol

        inputs, named, attrs = [], {}, {}
        skipped = False  # an input that is not given: those after it go by name
        for i, value in enumerate(args):
            if isinstance(value, Symbol):
                if skipped and i < len(self.inputs):
                    named[self.inputs[i]] = value.handle
                else:
                    inputs.append(value.handle)
            elif value is None or value is _Null:
                skipped = not self.variable
            else:
                attrs[self._param_at(i, value)] = text_of(value)
        for key, value in kwargs.items():
            if value is _Null or key in _IGNORED:
                continue
            elif isinstance(value, Symbol):
                named[key] = value.handle
            elif value is None and key not in self.known and not self.open:
                continue  # an input that is not given
            elif key == "dtype" and not isinstance(value, str) and value is not None:
                attrs[key] = dtype_name(value)
            else:
                attrs[key] = text_of(value)
        for key, value in AttrScope._current.value.get(attr).items():
            attrs[key] = attribute_text(value)
        name = NameManager._current.value.get(name, self.hint)
        if self.variable and named:
            named = self._in_order(named)
            inputs, named = inputs + named, {}
        return Symbol(_plait.symbol_make(self.op, name, attrs, inputs, named, []))

    def _param_at(self, i, value):
        """The name of positional argument i, which is no symbol."""
        place = i if self.variable else i - len(self.inputs)
        if 0 <= place < len(self.params) and not isinstance(value, (Context,)):
            return self.params[place]
        raise MXNetTypeError(
            "%s: argument %d is %s; a Symbol was expected"
            % (self.__name__, i, type(value).__name__)
        )

    @staticmethod
    def _in_order(named):
        """arg0, arg1, ...: by their numbers; others as they were given."""

        def number(key):
            digits = key.lstrip("abcdefghijklmnopqrstuvwxyz_")
            return int(digits) if digits.isdigit() else 0

        return [named[key] for key in sorted(named, key=number)]


class _Method:
    """A SymbolOp with its first input."""

    __slots__ = ("function", "symbol")

    def __init__(self, function, symbol):
        self.function, self.symbol = function, symbol

    def __call__(self, *args, **kwargs):
        return self.function(self.symbol, *args, **kwargs)

    @property
    def __doc__(self):
        return self.function.__doc__


_made = {}


def op(name):
    """The function of an operator, by its registered name or an alias."""
    function = _made.get(name)
    if function is None:
        function = _made[name] = SymbolOp(name, name)
    return function


def install(namespaces):
    """Adds the functions of all operators to namespaces[submodule], where given."""
    from ..ndarray._namespaces import place_of

    for name in _plait.op_names():
        module, function = place_of(name)
        namespace = namespaces.get(module)
        if namespace is not None and function not in namespace:
            namespace[function] = SymbolOp(name, function)
