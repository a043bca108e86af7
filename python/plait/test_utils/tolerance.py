"""Default dtype, device and tolerances of the test helpers."""

import numbers

import numpy as np

from ..context import current_context, set_current_context

__all__ = [
    "default_context",
    "set_default_context",
    "default_dtype",
    "default_rtols",
    "default_atols",
    "default_numeric_eps",
    "effective_dtype",
    "get_tolerance",
    "get_tols",
    "get_atol",
    "get_rtol",
    "get_etol",
]

_EXACT = {
    np.dtype(t): 0
    for t in (
        np.bool_,
        np.int8,
        np.int16,
        np.uint8,
        np.int32,
        np.uint32,
        np.int64,
        np.uint64,
        np.uint16,
    )
}
_RTOLS = {
    np.dtype(np.float16): 1e-2,
    np.dtype(np.float32): 1e-4,
    np.dtype(np.float64): 1e-5,
}
_ATOLS = {
    np.dtype(np.float16): 1e-1,
    np.dtype(np.float32): 1e-3,
    np.dtype(np.float64): 1e-20,
}

_DOUBLE = np.dtype(np.float64)


def default_context():
    """The context that tests run on."""
    return current_context()


def set_default_context(ctx):
    """Sets the context that tests run on, for this thread."""
    set_current_context(ctx)


def default_dtype():
    """float32."""
    return np.float32


def default_rtols():
    """Relative tolerances by dtype."""
    return {**_EXACT, **_RTOLS}


def default_atols():
    """Absolute tolerances by dtype."""
    return {**_EXACT, **_ATOLS}


def default_numeric_eps():
    """Steps of finite differences by dtype; powers of two, so that they add no
    rounding.
    """
    return {
        np.dtype(np.float16): 1.0 / 2**6,
        np.dtype(np.float32): 1.0 / 2**9,
        np.dtype(np.float64): 1.0 / 2**14,
    }


def effective_dtype(dat):
    """The dtype by whose precision `dat` should be judged."""
    return np.dtype(dat.dtype)


def get_tolerance(dat, tol, default_tol):
    """A tolerance for `dat`: a number, or from a dict by dtype."""
    if isinstance(tol, numbers.Number):
        return tol
    dtype = effective_dtype(dat)
    return (tol or {}).get(dtype, default_tol[dtype])


def get_tols(x, y, rtol, atol):
    """(rtol, atol) for comparing x and y: the wider of both."""
    pair = [np.array(v) if isinstance(v, numbers.Number) else v for v in (x, y)]
    return (
        max(get_tolerance(v, rtol, default_rtols()) for v in pair),
        max(get_tolerance(v, atol, default_atols()) for v in pair),
    )


def get_atol(atol=None, dtype=_DOUBLE):
    """atol, or the default of dtype."""
    return default_atols()[dtype] if atol is None else atol


def get_rtol(rtol=None, dtype=_DOUBLE):
    """rtol, or the default of dtype."""
    return default_rtols()[dtype] if rtol is None else rtol


def get_etol(etol=None):
    """etol, or 0."""
    return 0 if etol is None else etol
