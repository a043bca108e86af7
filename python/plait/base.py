"""Small things that every module needs: error classes, type tuples, dtype names, data
folder.
"""

import ctypes
import os

import numpy as np

from .error import MXNetError, NotYetError, register_error  # noqa: F401

__all__ = ["MXNetError"]

string_types = (str,)
numeric_types = (float, int, np.generic)
integer_types = (int, np.integer)
mx_real_t = np.float32
py_str = lambda x: x.decode("utf-8") if isinstance(x, bytes) else x  # noqa: E731

NDArrayHandle = ctypes.c_void_p  # for code that casts; no function here gives one


def c_str(text):
    """The UTF-8 bytes of `text`."""
    return text.encode("utf-8")


class _NotForArray(MXNetError):
    """A dense array's method that another kind of array does not have."""

    _kind = ""

    def __init__(self, function, alias, *args):
        super().__init__()
        self.function = function.__name__
        self.alias = alias
        self.args = [str(type(a)) for a in args]

    def __str__(self):
        text = f"Function {self.function}"
        if self.alias:
            text += f' (namely operator "{self.alias}")'
        if self.args:
            text += " with arguments ({})".format(", ".join(self.args))
        return (
            f"{text} is not supported for {self._kind} and only available in NDArray."
        )


class NotImplementedForSymbol(_NotForArray):
    """An NDArray method that has no meaning for a Symbol."""

    _kind = "Symbol"


class NotSupportedForSparseNDArray(_NotForArray):
    """A dense-only NDArray method called on a sparse array."""

    _kind = "SparseNDArray"


class classproperty:
    """A property of a class rather than of its instances."""

    def __init__(self, fget, fset=None):
        self.fget, self.fset = fget, fset

    def __get__(self, instance, owner=None):
        return self.fget(owner if owner is not None else type(instance))

    def setter(self, fset):
        """The same property with a setter; it works where the metaclass honours it."""
        return type(self)(self.fget, fset)


class ClassPropertyMeta(type):
    """Metaclass under which assignment to a classproperty calls its setter."""

    def __setattr__(cls, name, value):
        for klass in cls.__mro__:
            prop = klass.__dict__.get(name)
            if isinstance(prop, classproperty) and prop.fset is not None:
                return prop.fset(cls, value)
        return super().__setattr__(name, value)


def data_dir_default():
    """The folder for models and data sets when MXNET_HOME is not set."""
    if os.name == "nt":
        return os.path.join(os.environ.get("APPDATA", ""), "mxnet")
    return os.path.join(os.path.expanduser("~"), ".mxnet")


def data_dir():
    """The folder for models and data sets: $MXNET_HOME, or ~/.mxnet."""
    return os.environ.get("MXNET_HOME") or data_dir_default()


def _as_list(obj):
    """`obj` itself when it is a list or tuple, else a list of it alone."""
    return obj if isinstance(obj, (list, tuple)) else [obj]


def dtype_name(dtype):
    """The name of a dtype given as str, NumPy type or dtype; bfloat16 by name too."""
    if isinstance(dtype, str):
        return dtype
    dtype = np.dtype(dtype)
    if dtype.names == ("bfloat16",):
        return "bfloat16"
    return dtype.name
