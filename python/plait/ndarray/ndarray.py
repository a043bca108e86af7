"""NDArray's methods; shapes are tuples, dtypes NumPy's type classes.

The functions of creation.py and functions.py are here too, as in MXNet.
"""

import numpy as np

from .. import _plait
from ..context import Context
from ..error import MXNetTypeError, MXNetValueError
from . import creation, functions, indexing
from ._core import NDArray, context_of, device_of, dtype_name, numpy_type, op
from .creation import *  # noqa: F403
from .creation import full, to_dlpack_for_read, to_dlpack_for_write
from .functions import *  # noqa: F403
from .functions import split_v2

__all__ = ["NDArray", "waitall"] + creation.__all__ + functions.__all__

# Tables by MXNet's numbers, which some scripts import.
_STORAGE_TYPE_ID_TO_STR = {-1: "undefined", 0: "default", 1: "row_sparse", 2: "csr"}
_STORAGE_TYPE_STR_TO_ID = {name: n for n, name in _STORAGE_TYPE_ID_TO_STR.items()}
_DTYPE_MX_TO_NP = {-1: None} | dict(
    enumerate(
        numpy_type(name)
        for name in (
            "float32 float64 float16 uint8 int32 int8 int64 bool int16 uint16 uint32 "
            "uint64 bfloat16"
        ).split()
    )
)
_DTYPE_NP_TO_MX = {t: n for n, t in _DTYPE_MX_TO_NP.items() if n != 12}

_cast = op("Cast")
_copy = op("_copy")
_reshape = op("Reshape")


def waitall():
    """Returns when all that was asked for is done; raises the first error met."""
    _plait.waitall()


def _asnumpy(self):
    """A NumPy array with a copy of the values; waits for them."""
    result = np.empty(self.shape, numpy_type(self._dtype_name))
    _plait.copy_to_buffer(self, result)
    return result


def _asscalar(self):
    """The one element as a NumPy scalar."""
    if self.size != 1:
        raise MXNetValueError(
            "asscalar: The current array is not a scalar; its shape is %s"
            % (self.shape,)
        )
    return _asnumpy(self).reshape(-1)[0]


def _astype(self, dtype, copy=True):
    """A copy of another dtype; copy=False: the array itself when it has it already."""
    if not copy and dtype_name(dtype) == self._dtype_name:
        return self
    return _cast(self, dtype=dtype_name(dtype))


def _copyto(self, other):
    """Copies into an array (same shape, cast to its dtype), or to a device."""
    if isinstance(other, NDArray):
        if other.stype != "default":
            _plait.assign_sparse(self, other)
            return other
        if (
            other is self
            or _plait.shares_memory(self, other)
            and self.shape == other.shape
        ):
            import warnings

            warnings.warn(
                "You are attempting to copy an array to itself",
                RuntimeWarning,
                stacklevel=2,
            )
            return False
        _plait.copy_into(self, other)
        return other
    if isinstance(other, Context):
        device_of(other)
        result = _plait.empty(self.shape, self._dtype_name, *device_of(other))
        _plait.copy_into(self, result)
        return result
    raise MXNetTypeError("copyto does not support type " + str(type(other)))


def _as_in_context(self, context):
    """The array itself when it is on the device already, else a copy there."""
    return self if self.context == context else _copyto(self, context)


def _reshape_method(self, *shape, **kwargs):
    """An array of another shape on the same memory; see MXNet's special codes 0, -1 to
    -4.
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    elif not shape:
        shape = kwargs.pop("shape", None)
        if shape is None:
            raise MXNetTypeError(
                "reshape: no shape is given; reshape(shape) was expected"
            )
        if isinstance(shape, int):
            shape = (shape,)
    reverse = kwargs.pop("reverse", False)
    if kwargs:
        raise MXNetTypeError(
            "reshape: got unknown keyword argument(s): %s; shape and reverse "
            "were expected" % ", ".join(kwargs)
        )
    if _plait.is_recording() and _plait.is_tracked(self):
        return _reshape(self, shape=tuple(shape), reverse=reverse)
    return _plait.view(
        self,
        _plait.infer_shape(
            "Reshape", [self.shape], {"shape": tuple(shape), "reverse": reverse}
        ),
        0,
    )


def _view_or_op(self, shape, name, kwargs, inplace):
    if inplace and not (_plait.is_recording() and _plait.is_tracked(self)):
        return _plait.view(self, shape, 0)
    return op(name)(self, **kwargs)


def _flatten(self, inplace=False):
    """All axes but the first as one."""
    shape = _plait.infer_shape("Flatten", [self.shape], {})
    return _view_or_op(self, shape, "Flatten", {}, inplace)


def _expand_dims(self, axis, inplace=False):
    """A new axis of size 1 at `axis`."""
    shape = _plait.infer_shape("expand_dims", [self.shape], {"axis": axis})
    return _view_or_op(self, shape, "expand_dims", {"axis": axis}, inplace)


def _squeeze(self, axis=None, inplace=False):
    """Without the axes of size 1, or without `axis`."""
    shape = _plait.infer_shape("squeeze", [self.shape], {"axis": axis})
    return _view_or_op(self, shape, "squeeze", {"axis": axis}, inplace)


def _broadcast_to(self, shape):
    """The array repeated along axes of size 1 (or new leading ones) up to a shape."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if len(shape) < self.ndim:
        raise MXNetValueError(
            "broadcast_to: shape %s has fewer axes than %s" % (shape, self.shape)
        )
    source = self
    if len(shape) > self.ndim:
        source = _reshape_method(self, (1,) * (len(shape) - self.ndim) + self.shape)
    return op("broadcast_to")(source, shape=shape)


def _transpose(self, *axes, **kwargs):
    """The array with its axes permuted; reversed by default."""
    if len(axes) == 1 and isinstance(axes[0], (tuple, list)):
        axes = axes[0]
    axes = kwargs.get("axes", axes)
    return op("transpose")(self, axes=tuple(axes) if axes else ())


def _attach_grad(self, grad_req="write", stype=None):
    """Makes the array a leaf: backward() will write its gradient to .grad."""
    if stype in (None, "default"):
        grad = full(self.shape, 0, self.context, self._dtype_name)
    else:
        grad = _plait.empty_sparse(stype, self.shape, self._dtype_name, *self._device)
    _plait.attach_grad(self, grad, grad_req)


def _backward(self, out_grad=None, retain_graph=False, train_mode=True):
    """Gradients of this array with respect to the leaves it was computed from."""
    _plait.backward([self], [out_grad], retain_graph, train_mode)


def _bool(self):
    if self.size == 0:
        return False
    if self.size == 1:
        return bool(_asscalar(self))
    raise MXNetValueError(
        "The truth value of an NDArray with multiple elements is ambiguous."
    )


def _index(self):
    if self.size != 1 or not np.issubdtype(self.dtype, np.integer):
        raise MXNetTypeError(
            "only integer scalar arrays can be converted to a scalar index"
        )
    return int(_asscalar(self))


def _scalar_of(kind):
    def convert(self):
        if self.size != 1:
            raise MXNetTypeError(
                "only size-1 arrays can be converted to Python scalars"
            )
        return kind(_asscalar(self))

    return convert


def _repr(self):
    return "\n%s\n<%s %s @%s>" % (
        _readable(self),
        type(self).__name__,
        "x".join(str(n) for n in self.shape),
        self.context,
    )


def _readable(self):
    if self._dtype_name == "bfloat16":
        return _asnumpy(_astype(self, "float32"))
    return _asnumpy(self)


def _iter(self):
    for i in range(len(self)):
        yield self[i]


def _array_protocol(self, dtype=None, copy=None):
    a = _asnumpy(self)
    return a if dtype is None else a.astype(dtype)


def _reduce(self):
    return _rebuild, (_plait.dump_array(self),)


def _rebuild(data):
    return _plait.load_array(bytes(data))


def _getstate(self):
    return {"handle": _plait.dump_array(self)}


def _setstate(self, state):
    _plait.rebind(self, _plait.load_array(bytes(state["handle"])))


def _dlpack(self, stream=None, **_):
    return _plait.to_dlpack(self)


def _abs(self):
    return op("abs")(self)


_METHODS = {
    "asnumpy": _asnumpy,
    "asscalar": _asscalar,
    "item": _asscalar,
    "astype": _astype,
    "copyto": _copyto,
    "as_in_context": _as_in_context,
    "as_in_ctx": _as_in_context,
    "reshape": _reshape_method,
    "flatten": _flatten,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "broadcast_to": _broadcast_to,
    "transpose": _transpose,
    "attach_grad": _attach_grad,
    "backward": _backward,
    "detach": lambda self: _plait.detach(self),
    "copy": lambda self: _copy(self),
    "broadcast_like": lambda self, other: _broadcast_to(self, other.shape),
    "to_dlpack_for_read": to_dlpack_for_read,
    "to_dlpack_for_write": to_dlpack_for_write,
    "__dlpack__": _dlpack,
    "__dlpack_device__": lambda self: (1, 0),
    "as_nd_ndarray": lambda self: self,
    "__getitem__": indexing.getitem,
    "__setitem__": indexing.setitem,
    "__repr__": _repr,
    "__str__": _repr,
    "__bool__": _bool,
    "__index__": _index,
    "__float__": _scalar_of(float),
    "__int__": _scalar_of(int),
    "__iter__": _iter,
    "__array__": _array_protocol,
    "__array_priority__": 1000.0,
    "__reduce__": _reduce,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
    "__abs__": _abs,
    "__copy__": lambda self: _copy(self),
    "__deepcopy__": lambda self, memo: _copy(self),
}
_PROPERTIES = {
    "dtype": lambda self: numpy_type(self._dtype_name),
    "context": lambda self: context_of(self._device),
    "ctx": lambda self: context_of(self._device),
    "stype": lambda self: "default",
    "grad": lambda self: _plait.grad_of(self),
    "handle": lambda self: self,
    "T": lambda self: self if self.ndim < 2 else _transpose(self),
}
# Operators that are methods under their own name.
_FLUENT = """reshape_like zeros_like ones_like broadcast_axes repeat pad swapaxes split
slice
slice_axis slice_like take one_hot pick sort topk argsort argmax argmax_channel argmin
clip abs
sign shape_array size_array tile flip depth_to_space space_to_depth diag sum nansum prod
nanprod
mean max min norm round rint fix floor ceil trunc sin cos tan arcsin arccos arctan
degrees
radians sinh cosh tanh arcsinh arccosh arctanh exp expm1 log log10 log2 log1p sqrt rsqrt
cbrt
rcbrt square reciprocal relu sigmoid softmax log_softmax softmin""".split()


def _tostype(self, stype):
    """The values in another storage: 'default' (the array itself), 'row_sparse' or
    'csr'.
    """
    if stype == "default":
        return self
    from ._sparse_calls import cast

    return cast(self, stype)


def _install():
    for name, method in _METHODS.items():
        setattr(NDArray, name, method)
    for name, getter in _PROPERTIES.items():
        setattr(NDArray, name, property(getter))
    known = set(_plait.op_names())
    for name in _FLUENT:
        if name in known:
            setattr(NDArray, name, _plait.op_function(name, name))
    NDArray.tostype = _tostype
    NDArray.split_v2 = lambda self, *args, **kwargs: split_v2(self, *args, **kwargs)
    NDArray.slice_assign = lambda self, rhs, begin, end, step: op("_slice_assign")(
        self, rhs, begin=begin, end=end, step=step, out=self
    )
    NDArray.slice_assign_scalar = lambda self, value, begin, end, step: op(
        "_slice_assign_scalar"
    )(self, scalar=value, begin=begin, end=end, step=step, out=self)


_install()


# MXNet's module has these names too, and scripts import them.
py_slice = slice
