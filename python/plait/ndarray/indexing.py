"""Indexing with NumPy's rules: views where the selection is contiguous, copies
elsewhere.
"""

import numpy as np

from .. import _plait
from ..error import MXNetIndexError, MXNetRuntimeError, MXNetTypeError, MXNetValueError
from . import creation
from ._core import NDArray, native, numpy_type, op

_INTS = (int, np.integer)
_ARRAYS = (NDArray, np.ndarray)
_slice = op("slice")
_reshape = op("Reshape")
_take = op("take")
_gather_nd = op("gather_nd")
_full = op("_full")


def _recorded(a):
    return _plait.is_recording() and _plait.is_tracked(a)


def _plain_key(key):
    """The key as a tuple without lists and NumPy scalars; arrays stay."""
    if not isinstance(key, tuple):
        key = (key,)
    plain = []
    for k in key:
        if isinstance(k, (bool, np.bool_)):
            raise MXNetTypeError(
                "index: booleans are not supported by plait.nd; "
                "plait.np has boolean masks"
            )
        if isinstance(k, (list, tuple, range)):
            k = np.asarray([i.asscalar() if isinstance(i, NDArray) else i for i in k])
            if k.size == 0:
                k = k.astype(np.int64)
        if isinstance(k, np.ndarray) and k.dtype == np.bool_:
            raise MXNetTypeError(
                "index: boolean masks are not supported by plait.nd; plait.np has them"
            )
        if isinstance(k, NDArray) and k._dtype_name == "bool":
            raise MXNetTypeError(
                "index: boolean masks are not supported by plait.nd; plait.np has them"
            )
        if not (
            k is None
            or k is Ellipsis
            or isinstance(k, (slice, np.ndarray, NDArray) + _INTS)
        ):
            raise MXNetIndexError(
                "index: %r of type %s; an int, slice, None, Ellipsis or array "
                "was expected" % (k, type(k).__name__)
            )
        plain.append(k)
    return tuple(plain)


def _expanded(key, shape):
    """The key with one entry an axis (None extra), Ellipsis filled in."""
    used = sum(k is not None and k is not Ellipsis for k in key)
    if used > len(shape):
        raise MXNetIndexError(
            "index: %d indices are given for an array of shape %s" % (used, shape)
        )
    if sum(k is Ellipsis for k in key) > 1:
        raise MXNetIndexError(
            "index: more than one Ellipsis is given; one was expected"
        )
    fill = (slice(None),) * (len(shape) - used)
    if any(k is Ellipsis for k in key):
        at = next(i for i, k in enumerate(key) if k is Ellipsis)
        return key[:at] + fill + key[at + 1 :]
    return key + fill


class _Basic:
    """A selection of ints, slices and new axes: begin, end, step and the resulting
    shape.
    """

    def __init__(self, key, shape):
        self.begin, self.end, self.step, self.count = [], [], [], []
        self.shape = []
        axis = 0
        for k in key:
            if k is None:
                self.shape.append(1)
                continue
            n = shape[axis]
            if isinstance(k, slice):
                if k.step is not None and k.step == 0:
                    raise MXNetValueError("index: slice step cannot be zero")
                try:
                    begin, end, step = k.indices(n)
                except TypeError:
                    raise MXNetTypeError(
                        "index: %r; integers or None were expected in a slice" % (k,)
                    ) from None
                count = len(range(begin, end, step))
                self.shape.append(count)
            else:
                if not -n <= k < n:
                    raise MXNetIndexError(
                        "index: %d is out of bounds for axis %d with size %d"
                        % (k, axis, n)
                    )
                begin = int(k) % n
                end, step, count = begin + 1, 1, 1
            self.begin.append(begin)
            self.end.append(end)
            self.step.append(step)
            self.count.append(count)
            axis += 1
        if not any(isinstance(k, slice) or k is None for k in key):
            self.shape = [1]  # without NumPy's shapes there are no scalars

    def offset(self, shape):
        """The first element of a contiguous selection, or None."""
        full = len(shape)
        while (
            full > 0
            and self.count[full - 1] == shape[full - 1]
            and self.step[full - 1] == 1
        ):
            full -= 1
        # Axes before the last partial one must select one element.
        for axis in range(full - 1):
            if self.count[axis] != 1:
                return None
        if full > 0 and self.step[full - 1] != 1 and self.count[full - 1] > 1:
            return None
        stride, offset = 1, 0
        for axis in reversed(range(len(shape))):
            offset += self.begin[axis] * stride
            stride *= shape[axis]
        return offset if all(self.count) else 0

    def slice_params(self, shape):
        """Parameters of the slice operator; an end before the start is None."""
        end = [None if s < 0 and e < 0 else e for e, s in zip(self.end, self.step)]
        return {"begin": tuple(self.begin), "end": tuple(end), "step": tuple(self.step)}


def _is_basic(key):
    return all(
        k is None or k is Ellipsis or isinstance(k, (slice,) + _INTS) for k in key
    )


def _first_axis(a, i):
    shape = a.shape
    if not shape:
        raise MXNetIndexError("index: an array without axes cannot be indexed")
    n = shape[0]
    if not -n <= i < n:
        raise MXNetIndexError(
            "index: %d is out of bounds for axis 0 with size %d" % (i, n)
        )
    if i < 0:
        i += n
    rest = shape[1:]
    if _recorded(a):
        part = _slice(a, begin=(i,), end=(i + 1,))
        return _reshape(part, shape=rest or (1,))
    step = 1
    for size in rest:
        step *= size
    return _plait.view(a, rest or (1,), i * step)


def getitem(self, key):
    """x[key]; ints and slices give views where the elements are contiguous."""
    if isinstance(key, int) and not isinstance(key, bool):
        return _first_axis(self, key)
    if isinstance(key, slice) and key == slice(None):
        return self
    if isinstance(key, tuple) and not key:
        return self
    key = _plain_key(key)
    if _is_basic(key):
        return _get_basic(self, _Basic(_expanded(key, self.shape), self.shape))
    return _get_advanced(self, _expanded(key, self.shape))


def _get_basic(a, selection):
    shape = a.shape
    if 0 in selection.count:
        return _plait.empty(tuple(selection.shape), a._dtype_name, *a._device)
    offset = selection.offset(shape)
    if offset is not None and not _recorded(a):
        return _plait.view(a, tuple(selection.shape), offset)
    part = _slice(a, **selection.slice_params(shape))
    if part.shape == tuple(selection.shape):
        return part
    if _recorded(part):
        return _reshape(part, shape=tuple(selection.shape))
    return _plait.view(part, tuple(selection.shape), 0)


def _host_index(k):
    k = k.asnumpy() if isinstance(k, NDArray) else k
    return k.astype(np.int64) if isinstance(k, np.ndarray) else k


def _flat_indices(key, shape):
    """NumPy's own answer: the positions of the selected elements, in the result's
    shape.
    """
    positions = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.int64).reshape(
        shape
    )
    try:
        return positions[tuple(_host_index(k) for k in key)]
    except IndexError as e:
        raise MXNetIndexError("index: %s" % e) from None


def _leading_array(key):
    """The index array of x[i] or x[i, :, ...], the form that needs no host work."""
    if not isinstance(key[0], _ARRAYS):
        return None
    if all(isinstance(k, slice) and k == slice(None) for k in key[1:]):
        return key[0]
    return None


def _get_advanced(a, key):
    lead = _leading_array(key)
    if lead is not None:
        if isinstance(lead, np.ndarray):
            n = a.shape[0]
            if lead.size and (lead.min() < -n or lead.max() >= n):
                raise MXNetIndexError(
                    "index: an index is out of bounds for axis 0 with size %d" % n
                )
            lead = creation.array(lead % n if n else lead, dtype=np.int64)
            return _take(a, lead, axis=0)
        index = (
            lead.astype(np.int64)
            if lead._dtype_name not in ("int32", "int64")
            else lead
        )
        return _gather_nd(a, _plait.view(index, (1,) + index.shape, 0))
    positions = _flat_indices(key, a.shape)
    flat = a.reshape((-1,))
    shape = positions.shape or (1,)
    return _take(flat, creation.array(positions.reshape(shape), dtype=np.int64), axis=0)


# ---------------------------------------------------------------- assignment


def setitem(self, key, value):
    """x[key] = value; the value is broadcast and cast to the array's dtype."""
    if _recorded(self) or (isinstance(value, NDArray) and _recorded(value)):
        raise MXNetRuntimeError(
            "setitem: Inplace operations (+=, -=, x[:]=, etc) are not "
            "supported when recording with autograd."
        )
    if isinstance(key, slice) and key == slice(None):
        return _assign(self, value)
    if isinstance(key, int) and not isinstance(key, bool):
        return _assign(_first_axis(self, key), value)
    key = _plain_key(key)
    if not _is_basic(key):
        return _set_advanced(self, _expanded(key, self.shape), value)
    selection = _Basic(_expanded(key, self.shape), self.shape)
    if 0 in selection.count:
        return None
    offset = selection.offset(self.shape)
    if offset is not None:
        return _assign(_plait.view(self, tuple(selection.shape), offset), value)
    return _set_slice(self, selection, value)


def _assign(a, value):
    """Overwrites all of a, which may be a view."""
    if a.size == 0:
        return
    if isinstance(value, NDArray):
        value = value.tostype("default")
        if value.shape != a.shape:
            value = _broadcast(value, a.shape)
        if value is not a:
            _plait.copy_into(value, a)
        return
    if isinstance(value, (bool, float, np.generic) + _INTS):
        _fill(a, value)
        return
    source = _host_values(a, value)
    if source.ndim == 0:
        _fill(a, source[()])
        return
    _plait.copy_from_buffer(a, np.ascontiguousarray(_host_broadcast(source, a.shape)))


def _host_values(a, value):
    """What is assigned as a NumPy array; Python's numbers in the array's own dtype."""
    if isinstance(value, np.ndarray):
        return native(value)
    own = np.float32 if a._dtype_name == "bfloat16" else numpy_type(a._dtype_name)
    if isinstance(value, (list, tuple)):
        value = creation._plain(value)
    try:
        return np.asarray(value, dtype=own)
    except (TypeError, ValueError, OverflowError) as e:
        raise MXNetTypeError(
            "setitem: a value of type %s is assigned; numbers were expected (%s)"
            % (type(value).__name__, e)
        ) from None


def _is_exact(value):
    """Whether a number is none of the integers that a double does not hold."""
    try:
        return not isinstance(value, _INTS) or int(float(value)) == int(value)
    except OverflowError:
        raise MXNetValueError(
            "setitem: an integer of %d bits is assigned; at most 64 bits were expected"
            % int(value).bit_length()
        ) from None


def _fill(a, value):
    if _is_exact(value):
        _full(shape=a.shape, value=float(value), dtype=a._dtype_name, out=a)
        return
    _plait.copy_from_buffer(a, np.full(a.shape, _host_values(a, value)))


def _squeezed(shape, ndim):
    """Leading axes of size 1 beyond `ndim` dropped, as in assignments of NumPy."""
    while len(shape) > ndim and shape[0] == 1:
        shape = shape[1:]
    return shape


def _broadcast(value, shape):
    own = _squeezed(value.shape, len(shape))
    try:
        if np.broadcast_shapes(own, shape) != tuple(shape):
            raise ValueError
    except ValueError:
        if value.size == int(np.prod(shape)) and value.size == 1:
            return _plait.view(value, shape, 0)
        raise MXNetValueError(
            "setitem: shape %s cannot be broadcast to the selection's shape %s"
            % (value.shape, tuple(shape))
        ) from None
    view = _plait.view(value, (1,) * (len(shape) - len(own)) + own, 0)
    return (
        op("broadcast_to")(view, shape=tuple(shape))
        if view.shape != tuple(shape)
        else view
    )


def _host_broadcast(source, shape):
    try:
        return np.broadcast_to(
            source.reshape(_squeezed(source.shape, len(shape))), shape
        )
    except ValueError:
        raise MXNetValueError(
            "setitem: shape %s cannot be broadcast to the selection's shape %s"
            % (source.shape, tuple(shape))
        ) from None


def _set_slice(a, selection, value):
    params = selection.slice_params(a.shape)
    if isinstance(value, (bool, float, np.generic) + _INTS) and _is_exact(value):
        op("_slice_assign_scalar")(a, scalar=float(value), out=a, **params)
        return
    if not isinstance(value, NDArray):
        value = creation.array(_host_values(a, value), dtype=a._dtype_name)
    value = _broadcast(value.astype(a._dtype_name, copy=False), tuple(selection.shape))
    op("_slice_assign")(
        a, _plait.view(value, tuple(selection.count), 0), out=a, **params
    )


def _set_advanced(a, key, value):
    positions = _flat_indices(key, a.shape)
    if positions.size == 0:
        return
    if isinstance(value, NDArray):
        value = _broadcast(
            value.astype(a._dtype_name, copy=False), positions.shape or (1,)
        )
    else:
        source = _host_values(a, value)
        value = creation.array(
            np.ascontiguousarray(_host_broadcast(source, positions.shape or (1,))),
            dtype=a._dtype_name,
        )
    flat = _plait.view(a, (a.size,), 0)
    index = creation.array(positions.reshape(1, -1), dtype=np.int64)
    op("_scatter_set_nd")(
        flat, _plait.view(value, (positions.size,), 0), index, shape=(a.size,), out=flat
    )
