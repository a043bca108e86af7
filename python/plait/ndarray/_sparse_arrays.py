"""The classes of sparse arrays. What they hold is in the core: values and indices."""

import warnings

import numpy as np

from .. import _plait
from ..context import Context
from ..error import MXNetNotImplementedError, MXNetTypeError, MXNetValueError
from . import _sparse_calls, _sparse_math
from . import ndarray as _nd
from ._core import NDArray, context_of, device_of, dtype_name, numpy_type, op
from .creation import array


def _unsupported(name):
    def method(self, *args, **kwargs):
        raise MXNetNotImplementedError(
            "%s: not supported for %s arrays; x.tostype('default') was expected"
            % (name, self.stype)
        )

    method.__name__ = name
    return method


class BaseSparseNDArray(NDArray):
    """An array most of whose elements are zero, of which the others are stored.

    Operators that keep zeros work on the stored values; others work on a dense array of
    the same values and give dense results.
    """

    __slots__ = ()

    def __new__(cls, *args, **kwargs):
        raise MXNetTypeError(
            "%s: sparse arrays are made by functions; sparse.csr_matrix or "
            "sparse.row_sparse_array was expected" % cls.__name__
        )

    def __repr__(self):
        return "\n<%s %s @%s>" % (
            type(self).__name__,
            "x".join(str(n) for n in self.shape),
            self.context,
        )

    __str__ = __repr__

    stype = property(lambda self: _plait.storage_of(self))
    data = property(
        lambda self: _plait.sparse_parts(self)[0].copy(), doc="A copy of the values."
    )
    indices = property(
        lambda self: _plait.sparse_parts(self)[1].copy(), doc="A copy of the indices."
    )
    _num_aux = property(lambda self: len(_plait.sparse_parts(self)) - 1)
    _aux_types = property(lambda self: [np.int64] * self._num_aux)
    size = property(lambda self: int(np.prod(self.shape)), doc="Elements, zeros too.")
    T = property(lambda self: self.tostype("default").T)

    reshape = _unsupported("reshape")
    _at = _unsupported("_at")
    _slice = _unsupported("_slice")
    _sync_copyfrom = _unsupported("_sync_copyfrom")

    def _data(self):
        return self.data

    def _aux_type(self, i):
        return self._aux_types[i]

    def asnumpy(self):
        """A dense NumPy array of the values."""
        return self.tostype("default").asnumpy()

    def astype(self, dtype, copy=True):
        """A copy of another dtype; copy=False: the array itself when it has it."""
        if not copy and dtype_name(dtype) == self._dtype_name:
            return self
        return op("Cast")(self, dtype=dtype_name(dtype))

    def copyto(self, other):
        """Copies into an array of the same shape, or to a device."""
        if isinstance(other, NDArray):
            if other is self:
                warnings.warn(
                    "You are attempting to copy an array to itself",
                    RuntimeWarning,
                    stacklevel=2,
                )
                return False
            if other.stype not in ("default", self.stype):
                raise MXNetTypeError(
                    "copyto: a %s array is given for a %s one; storage default or %s "
                    "was expected" % (other.stype, self.stype, self.stype)
                )
            _plait.assign_sparse(self, other)
            return other
        if isinstance(other, Context):
            return _moved(self, other)
        raise MXNetTypeError("copyto does not support type " + str(type(other)))

    def as_in_context(self, context):
        """The array itself when it is on the device already, else a copy there."""
        return self if self.context == context else _moved(self, context)

    as_in_ctx = as_in_context

    def copy(self):
        """A copy that later writes do not touch."""
        return _sparse_math.copy([self], {})

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        return self.copy()

    def check_format(self, full_check=True):
        """Raises where the indices break the rules of the storage."""
        _plait.check_format(self, full_check)

    def tostype(self, stype):
        """The values in another storage: 'default', or the one that it has."""
        if stype not in ("default", self.stype):
            raise MXNetValueError(
                "cast_storage from %s to %s is not supported" % (self.stype, stype)
            )
        return _sparse_calls.cast(self, stype)

    def attach_grad(self, grad_req="write", stype=None):
        """Makes the array a leaf; its gradient has storage `stype`, or its own."""
        grad = _empty_like(self, stype or self.stype)
        _plait.attach_grad(self, grad, grad_req)

    def detach(self):
        """The same values without a history."""
        return self.copy()

    def broadcast_to(self, shape):
        """A dense array, repeated along axes of size 1."""
        return self.tostype("default").broadcast_to(shape)

    def broadcast_like(self, other):
        """broadcast_to the shape of another array."""
        return self.broadcast_to(other.shape)

    def transpose(self, *axes, **kwargs):
        """A dense array with its axes permuted."""
        return self.tostype("default").transpose(*axes, **kwargs)

    def asscalar(self):
        """The one element as a NumPy scalar."""
        return self.tostype("default").asscalar()

    def __bool__(self):
        return bool(self.tostype("default"))

    def __float__(self):
        return float(self.tostype("default"))

    def __int__(self):
        return int(self.tostype("default"))

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype=None, copy=None):
        a = self.asnumpy()
        return a if dtype is None else a.astype(dtype)

    def __setitem__(self, key, value):
        if not (isinstance(key, slice) and key == slice(None)) and key is not Ellipsis:
            raise MXNetTypeError(
                "%s only supports [:] for assignment; got %r"
                % (type(self).__name__, key)
            )
        if isinstance(value, NDArray):
            _plait.assign_sparse(value, self)
        elif isinstance(value, (int, float, np.number)) and not isinstance(value, bool):
            if self.stype == "csr":
                raise MXNetValueError(
                    "Assigning numeric types to CSRNDArray is not supported; an array "
                    "was expected"
                )
            full = _nd.full(self.shape, value, self.context, self._dtype_name)
            rows = np.arange(self.shape[0])
            _plait.set_sparse_parts(self, full, _sparse_math.int64(rows, self))
        elif isinstance(value, (np.ndarray, list, tuple, np.generic)):
            _plait.assign_sparse(array(value, dtype=self._dtype_name), self)
        else:
            raise MXNetTypeError("type %s not supported" % type(value))


def _empty_like(x, stype):
    if stype == "default":
        return _nd.full(x.shape, 0, x.context, x._dtype_name)
    return _plait.empty_sparse(stype, x.shape, x._dtype_name, *x._device)


def _moved(x, context):
    device = device_of(context)
    parts = [part.copyto(context_of(device)) for part in _plait.sparse_parts(x)]
    return _plait.make_sparse(x.shape, *device, *parts)


class CSRNDArray(BaseSparseNDArray):
    """A matrix by rows: row r has data[j] at column indices[j] for j in
    [indptr[r], indptr[r + 1]).
    """

    __slots__ = ()

    indptr = property(
        lambda self: _plait.sparse_parts(self)[2].copy(),
        doc="A copy of the bounds of the rows.",
    )

    def __getitem__(self, key):
        if isinstance(key, (int, np.integer)):
            if not -self.shape[0] <= key < self.shape[0]:
                raise IndexError(
                    "index %d is out of bounds for axis 0 with size %d"
                    % (key, self.shape[0])
                )
            row = int(key) % self.shape[0]
            return self._rows(row, row + 1)
        if key is Ellipsis:
            return self
        if isinstance(key, slice):
            if key.step not in (None, 1):
                raise MXNetValueError(
                    "CSRNDArray only supports continuous slicing on axis 0; got %r"
                    % (key,)
                )
            if key.start is None and key.stop is None:
                return self
            first, last, _ = key.indices(self.shape[0])
            return self._rows(first, max(first, last))
        if isinstance(key, tuple):
            raise MXNetValueError("Multi-dimension indexing is not supported")
        raise MXNetValueError(f"Undefined behaviour for {key}")

    def _rows(self, first, last):
        if _plait.is_recording() and _plait.is_tracked(self):
            return op("slice")(self, begin=(first,), end=(last,))
        return _sparse_math.sliced(self, first, last, 0, self.shape[1])

    def asscipy(self):
        """A scipy.sparse.csr_matrix with copies of the parts."""
        try:
            from scipy import sparse
        except ImportError:
            raise ImportError(
                "asscipy: scipy is not installed; `pip install scipy` was expected"
            ) from None
        data, indices, indptr = (p.asnumpy() for p in _plait.sparse_parts(self))
        return sparse.csr_matrix((data, indices, indptr), self.shape, self.dtype)


class RowSparseNDArray(BaseSparseNDArray):
    """Some rows, `data`, at places `indices`, of an array that is zero elsewhere."""

    __slots__ = ()

    def __getitem__(self, key):
        if key is Ellipsis or key == slice(None):
            return self
        if isinstance(key, (int, np.integer)):
            raise MXNetNotImplementedError(
                "__getitem__ with int key is not implemented for RowSparseNDArray yet"
            )
        if isinstance(key, tuple):
            raise MXNetValueError("Multi-dimension indexing is not supported")
        raise MXNetValueError("RowSparseNDArray only supports [:] for __getitem__")

    def retain(self, *args, **kwargs):
        """The rows of this array that are listed; see sparse.retain."""
        return op("_sparse_retain")(self, *args, **kwargs)


_plait.register_sparse(RowSparseNDArray, CSRNDArray, _sparse_calls.call)

__all__ = ["BaseSparseNDArray", "CSRNDArray", "RowSparseNDArray", "numpy_type"]
