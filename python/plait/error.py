"""Exception classes: each derives from MXNetError and from the built-in class that fits
it.
"""


class MXNetError(RuntimeError):
    """Base of every error that the core raises."""


class MXNetValueError(MXNetError, ValueError):
    """A value, shape or name is not acceptable."""


class MXNetTypeError(MXNetError, TypeError):
    """An argument has the wrong type or dtype."""


class MXNetIndexError(MXNetError, IndexError):
    """An index or an axis is out of range."""


class MXNetMemoryError(MXNetError, MemoryError):
    """An allocation failed, or the memory limit was reached."""


class MXNetRuntimeError(MXNetError):
    """An operation failed while it ran."""


class MXNetNotImplementedError(MXNetError, NotImplementedError):
    """The operation exists, but not for these arguments or on this device."""


class MXNetOSError(MXNetError, OSError):
    """A file could not be read or written."""


class RankLost(MXNetOSError):
    """A rank of the job is lost, or has ended by an error; the text names it."""


class MXNetKeyError(MXNetError, KeyError):
    """A name that stands for nothing."""

    __str__ = Exception.__str__  # KeyError's puts quotes around the text


class MXNetAttributeError(MXNetError, AttributeError):
    """A name that Plait does not have, or does not have yet."""


class NotYetError(MXNetError, NotImplementedError, ImportError):
    """A part of MXNet's surface that this release does not contain.

    Not an AttributeError: ``from plait.symbol import Symbol`` must show this error's
    text.
    """


class InternalError(MXNetError):
    """A broken invariant inside the library: a bug of Plait's, not of the caller."""


_BUILTIN_KINDS = {
    "ValueError": MXNetValueError,
    "TypeError": MXNetTypeError,
    "IndexError": MXNetIndexError,
    "MemoryError": MXNetMemoryError,
    "NotImplementedError": MXNetNotImplementedError,
    "OSError": MXNetOSError,
    "AttributeError": MXNetAttributeError,
    "InternalError": InternalError,
}
_kinds = dict(_BUILTIN_KINDS)


def register_error(func_name=None, cls=None):
    """Registers an exception class under a kind name; usable plainly or as a decorator.

    ``register_error(cls)``, ``register_error("Name", cls)`` and
    ``@register_error("Name")`` are all accepted.
    """
    if func_name is not None and not isinstance(func_name, str):
        _kinds[func_name.__name__] = func_name
        return func_name
    if cls is not None:
        _kinds[func_name] = cls
        return cls

    def decorate(klass):
        _kinds[func_name or klass.__name__] = klass
        return klass

    return decorate


register = register_error


def error_class(kind):
    """The exception class for a kind name; MXNetError where the name is unknown."""
    return _kinds.get(kind, MXNetError)


class CheckError(MXNetError, AssertionError, ValueError):
    """A failed check of arguments where MXNet's Python code used ``assert``."""


def check(condition, text, *args):
    """Raises CheckError with ``text % args`` unless the condition holds."""
    if not condition:
        raise CheckError(text % args if args else text)
