"""Switches for NumPy shape and array semantics, and a few helpers around them."""

import contextlib
import functools
import inspect
import os
import threading

import numpy as _np

__all__ = [
    "get_gpu_count",
    "get_gpu_memory",
    "set_np_shape",
    "is_np_shape",
    "np_shape",
    "use_np_shape",
    "set_module",
    "np_array",
    "is_np_array",
    "use_np_array",
    "use_np",
    "set_np_default_dtype",
    "is_np_default_dtype",
    "np_default_dtype",
    "use_np_default_dtype",
    "np_ufunc_legal_option",
    "wrap_np_unary_func",
    "wrap_np_binary_func",
    "set_np",
    "reset_np",
    "get_cuda_compute_capability",
    "getenv",
    "setenv",
]


class _State(threading.local):
    """The two switches of a thread; both off in a new thread."""

    shape = False
    array = False


_state = _State()
_core_shape_switch = None  # set by the core's Python side when it has such a switch


def set_np_shape(active):
    """Turns NumPy shape semantics on or off in this thread; returns the state before.

    On: () is a scalar and 0 a size. Off (MXNet 1.x): 0 means unknown.
    """
    if not active and _state.array:
        raise ValueError(
            "set_np_shape: NumPy array semantics needs NumPy shape semantics; "
            "call npx.reset_np() to turn off both"
        )
    before, _state.shape = _state.shape, bool(active)
    if _core_shape_switch is not None:
        _core_shape_switch(_state.shape)
    return before


def is_np_shape():
    """True where NumPy shape semantics is on in this thread."""
    return _state.shape


def is_np_array():
    """True where NumPy array semantics is on in this thread."""
    return _state.array


class _NumpyShapeScope:
    """`with` form of set_np_shape; None leaves the switch as it is."""

    def __init__(self, is_np_shape):
        self._active = is_np_shape

    def __enter__(self):
        self._before = _state.shape
        if self._active is not None:
            set_np_shape(self._active)

    def __exit__(self, exc_type, exc_value, traceback):
        if self._active is not None and self._before != _state.shape:
            set_np_shape(self._before)


class _NumpyArrayScope:
    """`with` form of the array switch."""

    def __init__(self, is_np_array):
        self._is_np_array = is_np_array

    def __enter__(self):
        self._before, _state.array = _state.array, self._is_np_array
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        _state.array = self._before


def np_shape(active=True):
    """Scope with NumPy shape semantics on or off."""
    return _NumpyShapeScope(active)


def np_array(active=True):
    """Scope with NumPy array semantics on or off."""
    return _NumpyArrayScope(active)


def _scoped(scope, what, func):
    """`func` run inside scope(): a function wrapped, a class with every
    method wrapped.
    """
    if inspect.isclass(func):
        is_method = lambda m: inspect.isfunction(m) or isinstance(m, property)  # noqa: E731
        for name, method in inspect.getmembers(func, is_method):
            if isinstance(method, property):
                wrap = lambda f: f and _scoped(scope, what, f)  # noqa: E731
                setattr(
                    func,
                    name,
                    property(
                        wrap(method.fget),
                        wrap(method.fset),
                        wrap(method.fdel),
                        method.__doc__,
                    ),
                )
            elif not isinstance(inspect.getattr_static(func, name), staticmethod):
                setattr(func, name, _scoped(scope, what, method))
        return func
    if not callable(func):
        raise TypeError(
            "%s can only decorate classes and callable objects, got a %s"
            % (what, type(func).__name__)
        )

    @functools.wraps(func)
    def inside(*args, **kwargs):
        with scope(True):
            return func(*args, **kwargs)

    return inside


def use_np_shape(func):
    """Decorates a function or class so that it runs with NumPy shape semantics."""
    return _scoped(np_shape, "use_np_shape", func)


def use_np_array(func):
    """Decorates a function or class so that it runs with NumPy array semantics."""
    return _scoped(np_array, "use_np_array", func)


def use_np(func):
    """Decorates a function or class so that it runs with both NumPy semantics."""
    return use_np_shape(use_np_array(func))


def set_np(shape=True, array=True):
    """Turns both switches on or off; array semantics needs shape semantics."""
    if array and not shape:
        raise ValueError("set_np: NumPy array semantics needs NumPy shape semantics")
    _state.array = array
    set_np_shape(shape)


def reset_np():
    """Turns both switches off."""
    set_np(shape=False, array=False)


def set_np_default_dtype(is_np_default_dtype=True):
    """Chooses, for the whole process, what dtype numbers have that come without one.

    Off, as MXNet 1.x: float32, also for NumPy arrays of float64; and the quotient of
    whole numbers is whole. On, as NumPy: float64; NumPy arrays keep their dtype; x / y
    of whole numbers is float64. Layers keep the dtype that they have (float32). Returns
    the state before.
    """
    from . import _plait

    before = _plait.default_dtype() == "float64"
    _plait.set_default_dtype("float64" if is_np_default_dtype else "float32")
    return before


def is_np_default_dtype():
    """True where numbers without a dtype are float64, as in NumPy."""
    from . import _plait

    return _plait.default_dtype() == "float64"


@contextlib.contextmanager
def np_default_dtype(active=True):
    """Scope of set_np_default_dtype()."""
    before = set_np_default_dtype(active)
    try:
        yield
    finally:
        set_np_default_dtype(before)


def use_np_default_dtype(func):
    """Decorates a function or class so that it runs with NumPy's default dtype."""
    return _scoped(np_default_dtype, "use_np_default_dtype", func)


def set_module(module):
    """Decorator that sets a function's __module__, where `module` is not None."""

    def decorate(func):
        if module is not None:
            func.__module__ = module
        return func

    return decorate


_UFUNC_DEFAULTS = {
    "where": True,
    "casting": "same_kind",
    "order": "K",
    "dtype": None,
    "subok": True,
}
_UFUNC_DTYPES = ("int8", "uint8", "int32", "int64", "float16", "float32", "float64")


def np_ufunc_legal_option(key, value):
    """Whether NumPy itself would accept this keyword of a ufunc with this value."""
    if key == "where":
        return True
    if key == "casting":
        return value in ("no", "equiv", "safe", "same_kind", "unsafe")
    if key == "order":
        return isinstance(value, str)
    if key == "dtype":
        return value in _UFUNC_DTYPES or value in [
            getattr(_np, d) for d in _UFUNC_DTYPES
        ]
    return key == "subok" and isinstance(value, bool)


def _check_ufunc_options(func, options):
    for key, value in options.items():
        if key not in _UFUNC_DEFAULTS:
            raise TypeError(
                "%s is an invalid keyword to function '%s'" % (key, func.__name__)
            )
        if value != _UFUNC_DEFAULTS[key]:
            error = (
                NotImplementedError if np_ufunc_legal_option(key, value) else TypeError
            )
            raise error(
                "%s=%s is not supported by function '%s'" % (key, value, func.__name__)
            )


def wrap_np_unary_func(func):
    """Lets a one-argument function accept a ufunc's keywords at their defaults."""

    @functools.wraps(func)
    def wrapped(x, out=None, **options):
        _check_ufunc_options(func, options)
        return func(x, out=out)

    return wrapped


def wrap_np_binary_func(func):
    """Lets a two-argument function accept a ufunc's keywords at their defaults."""

    @functools.wraps(func)
    def wrapped(x1, x2, out=None, **options):
        _check_ufunc_options(func, options)
        return func(x1, x2, out=out)

    return wrapped


def get_gpu_count():
    """How many GPUs this process can use."""
    from .context import num_gpus

    return num_gpus()


def get_gpu_memory(gpu_dev_id):
    """(free, total) bytes of a GPU's memory."""
    from .context import gpu_memory_info

    return gpu_memory_info(gpu_dev_id)


def get_cuda_compute_capability(ctx):
    """The compute capability of a GPU as one number, e.g. 90."""
    if ctx.device_type != "gpu":
        raise ValueError(
            "get_cuda_compute_capability: got %s; expected a gpu context" % ctx
        )
    from . import _plait

    query = getattr(_plait, "cuda_compute_capability", None)
    if query is None:
        raise OSError("get_cuda_compute_capability: this build has no GPU support")
    return query(ctx.device_id)


def getenv(name):
    """The value of an environment variable as the process sees it, or None."""
    return os.environ.get(name)


def setenv(name, value):
    """Sets an environment variable for the whole process; None removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def atomic_write(filename, data):
    """Writes bytes beside `filename` and renames, so that no half-written
    file is left.
    """
    aside = "%s.%d.tmp" % (filename, os.getpid())
    try:
        with open(aside, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(aside, filename)
    except BaseException:
        if os.path.exists(aside):
            os.remove(aside)
        raise
