"""NDArray's methods, and functions that make arrays. Shapes are tuples, dtypes as noted."""

import numpy as np

from .. import _plait
from ..context import Context
from ..error import MXNetTypeError, MXNetValueError
from . import indexing
from ._core import NDArray, bfloat16, context_of, device_of, dtype_name, numpy_type, op

__all__ = ["NDArray", "array", "empty", "zeros", "ones", "full", "arange", "linspace", "eye",
           "concatenate", "moveaxis", "waitall", "from_numpy", "from_dlpack",
           "to_dlpack_for_read", "to_dlpack_for_write", "add", "subtract", "multiply", "divide",
           "true_divide", "modulo", "power", "maximum", "minimum", "equal", "not_equal",
           "greater", "greater_equal", "lesser", "lesser_equal", "logical_and", "logical_or",
           "logical_xor", "onehot_encode", "histogram", "split_v2"]

_full = op("_full")
_cast = op("Cast")
_copy = op("_copy")
_reshape = op("Reshape")


def waitall():
    """Returns when everything asked for so far is done; raises the first error on the way."""
    _plait.waitall()


# ---------------------------------------------------------------- making arrays


def empty(shape, ctx=None, dtype=None):
    """An array of undefined values."""
    return _plait.empty(shape, dtype, *device_of(ctx))


def full(shape, val, ctx=None, dtype=None, out=None):
    """An array filled with a number; float32 unless `dtype` is given."""
    if out is not None:
        out[:] = val
        return out
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    return _full(shape=shape, value=float(val), dtype=dtype_name(dtype), ctx=ctx)


def zeros(shape, ctx=None, dtype=None, stype=None, **kwargs):
    """An array of zeros; float32 unless `dtype` is given."""
    if stype not in (None, "default"):
        from . import sparse
        return sparse.zeros(stype, shape, ctx, dtype)
    return full(shape, 0, ctx, dtype, **kwargs)


def ones(shape, ctx=None, dtype=None, **kwargs):
    """An array of ones; float32 unless `dtype` is given."""
    return full(shape, 1, ctx, dtype, **kwargs)


def array(source_array, ctx=None, dtype=None):
    """A new array with the values of an array, a NumPy array or nested sequences.

    Without `dtype` an NDArray keeps its own and everything else becomes float32, also a
    NumPy array of float64 or int64.
    """
    device = device_of(ctx)
    if isinstance(source_array, NDArray):
        return source_array.astype(source_array.dtype if dtype is None else dtype)
    if getattr(source_array, "stype", "default") != "default":
        raise MXNetTypeError("array: a sparse array is given; a dense one was expected")
    if not isinstance(source_array, np.ndarray):
        try:
            source_array = np.array(_plain(source_array), dtype=_source_type(dtype))
        except (TypeError, ValueError) as e:
            raise MXNetTypeError("array: source_array must be array like object; %s" % e) from None
    source_array = np.asarray(source_array, order="C")
    if source_array.dtype.kind in "OUSMmV" and source_array.dtype != bfloat16:
        raise MXNetTypeError("array: dtype %s has no counterpart here; numbers were expected"
                             % source_array.dtype)
    return _plait.from_buffer(source_array, dtype, *device) if dtype is not None else \
        _plait.from_buffer(source_array, "float32", *device)


def _source_type(dtype):
    # Python numbers go straight to the wanted type, so that large integers stay exact.
    if dtype is None:
        return np.float32
    name = dtype_name(dtype)
    return np.float32 if name == "bfloat16" else numpy_type(name)


def _plain(values):
    """Arrays inside sequences as NumPy arrays."""
    if isinstance(values, (list, tuple)):
        return [_plain(v) for v in values]
    return values.asnumpy() if isinstance(values, NDArray) else values


def arange(start, stop=None, step=1.0, repeat=1, infer_range=None, ctx=None, dtype=None):
    """Numbers from start (0 when only one is given) to stop, each repeated."""
    if stop is None and not infer_range:
        start, stop = 0, start
    return op("_arange")(start=start, stop=stop, step=step, repeat=repeat,
                         dtype=dtype_name(dtype), ctx=ctx)


def linspace(start, stop, num, endpoint=True, ctx=None, dtype=None):
    """`num` numbers at equal distances from start to stop."""
    return op("_linspace")(start=start, stop=stop, num=num, endpoint=endpoint,
                           dtype=dtype_name(dtype), ctx=ctx)


def eye(N, M=0, k=0, ctx=None, dtype=None, **kwargs):
    """Ones on the k-th diagonal of an (N, M) array, M = N by default."""
    return op("_eye")(N=N, M=M, k=k, dtype=dtype_name(dtype), ctx=ctx, **kwargs)


def from_numpy(ndarray, zero_copy=True, array_cls=None):
    """An array on the memory of a NumPy array, which becomes read-only; or a copy."""
    if not zero_copy:
        return _plait.from_buffer(np.asarray(ndarray, order="C"), None, 1, 0)
    if not ndarray.flags["C_CONTIGUOUS"]:
        raise MXNetValueError("from_numpy: the array is not contiguous; only C-contiguous "
                              "numpy.ndarrays can share memory (zero_copy=False copies)")
    result = _plait.borrow_buffer(ndarray)
    ndarray.flags["WRITEABLE"] = False
    return result


def from_dlpack(dlpack):
    """An array on the memory of a DLPack capsule, or of an object with __dlpack__."""
    return _plait.from_dlpack(dlpack.__dlpack__() if hasattr(dlpack, "__dlpack__") else dlpack)


def to_dlpack_for_read(data):
    """A DLPack capsule of the array, once earlier writes are done."""
    return _plait.to_dlpack(data)


def to_dlpack_for_write(data):
    """A DLPack capsule of the array, once earlier reads and writes are done."""
    data.wait_to_write()
    return _plait.to_dlpack(data)


# ---------------------------------------------------------------- methods


def _asnumpy(self):
    """A NumPy array with a copy of the values; waits for them."""
    result = np.empty(self.shape, numpy_type(self._dtype_name))
    _plait.copy_to_buffer(self, result)
    return result


def _asscalar(self):
    """The one element as a NumPy scalar."""
    if self.size != 1:
        raise MXNetValueError("asscalar: The current array is not a scalar; its shape is %s"
                              % (self.shape,))
    return _asnumpy(self).reshape(-1)[0]


def _astype(self, dtype, copy=True):
    """A copy of another dtype; with copy=False the array itself when it has it already."""
    if not copy and dtype_name(dtype) == self._dtype_name:
        return self
    return _cast(self, dtype=dtype_name(dtype))


def _copyto(self, other):
    """Copies into an array (same shape, cast to its dtype), or to a device."""
    if isinstance(other, NDArray):
        if other is self or _plait.shares_memory(self, other) and self.shape == other.shape:
            import warnings
            warnings.warn("You are attempting to copy an array to itself", RuntimeWarning,
                          stacklevel=2)
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
    """An array of another shape on the same memory; see MXNet's special codes 0, -1 to -4."""
    if len(shape) == 1 and isinstance(shape[0], (tuple, list)):
        shape = shape[0]
    elif not shape:
        shape = kwargs.pop("shape", None)
        if shape is None:
            raise MXNetTypeError("reshape: no shape is given; reshape(shape) was expected")
        if isinstance(shape, int):
            shape = (shape,)
    reverse = kwargs.pop("reverse", False)
    if kwargs:
        raise MXNetTypeError("reshape: got unknown keyword argument(s): %s; shape and reverse "
                             "were expected" % ", ".join(kwargs))
    if _plait.is_recording() and _plait.is_tracked(self):
        return _reshape(self, shape=tuple(shape), reverse=reverse)
    return _plait.view(self, _plait.infer_shape("Reshape", [self.shape], {
        "shape": tuple(shape), "reverse": reverse}), 0)


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
        raise MXNetValueError("broadcast_to: shape %s has fewer axes than %s"
                              % (shape, self.shape))
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
    if stype not in (None, "default"):
        from ..error import NotYetError
        raise NotYetError("attach_grad: stype %r comes with sparse arrays, in a later release"
                          % stype)
    _plait.attach_grad(self, full(self.shape, 0, self.context, self._dtype_name), grad_req)


def _backward(self, out_grad=None, retain_graph=False, train_mode=True):
    """Gradients of this array with respect to the leaves it was computed from."""
    _plait.backward([self], [out_grad], retain_graph, train_mode)


def _bool(self):
    if self.size == 0:
        return False
    if self.size == 1:
        return bool(_asscalar(self))
    raise MXNetValueError("The truth value of an NDArray with multiple elements is ambiguous.")


def _index(self):
    if self.size != 1 or not np.issubdtype(self.dtype, np.integer):
        raise MXNetTypeError("only integer scalar arrays can be converted to a scalar index")
    return int(_asscalar(self))


def _scalar_of(kind):
    def convert(self):
        if self.size != 1:
            raise MXNetTypeError("only size-1 arrays can be converted to Python scalars")
        return kind(_asscalar(self))
    return convert


def _repr(self):
    return "\n%s\n<%s %s @%s>" % (_readable(self), type(self).__name__,
                                  "x".join(str(n) for n in self.shape), self.context)


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
    "asnumpy": _asnumpy, "asscalar": _asscalar, "item": _asscalar, "astype": _astype,
    "copyto": _copyto, "as_in_context": _as_in_context, "as_in_ctx": _as_in_context,
    "reshape": _reshape_method, "flatten": _flatten, "expand_dims": _expand_dims,
    "squeeze": _squeeze, "broadcast_to": _broadcast_to, "transpose": _transpose,
    "attach_grad": _attach_grad, "backward": _backward,
    "detach": lambda self: _plait.detach(self),
    "copy": lambda self: _copy(self),
    "broadcast_like": lambda self, other: _broadcast_to(self, other.shape),
    "to_dlpack_for_read": to_dlpack_for_read, "to_dlpack_for_write": to_dlpack_for_write,
    "__dlpack__": _dlpack, "__dlpack_device__": lambda self: (1, 0),
    "as_nd_ndarray": lambda self: self,
    "__getitem__": indexing.getitem, "__setitem__": indexing.setitem,
    "__repr__": _repr, "__str__": _repr, "__bool__": _bool, "__index__": _index,
    "__float__": _scalar_of(float), "__int__": _scalar_of(int), "__iter__": _iter,
    "__array__": _array_protocol, "__array_priority__": 1000.0,
    "__reduce__": _reduce, "__getstate__": _getstate, "__setstate__": _setstate,
    "__abs__": _abs, "__copy__": lambda self: _copy(self),
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
_FLUENT = """reshape_like zeros_like ones_like broadcast_axes repeat pad swapaxes split slice
slice_axis slice_like take one_hot pick sort topk argsort argmax argmax_channel argmin clip abs
sign shape_array size_array tile flip depth_to_space space_to_depth diag sum nansum prod nanprod
mean max min norm round rint fix floor ceil trunc sin cos tan arcsin arccos arctan degrees
radians sinh cosh tanh arcsinh arccosh arctanh exp expm1 log log10 log2 log1p sqrt rsqrt cbrt
rcbrt square reciprocal relu sigmoid softmax log_softmax softmin""".split()


def _tostype(self, stype):
    """The array itself for 'default'; sparse storage comes with a later release."""
    if stype == "default":
        return self
    from ..error import NotYetError
    raise NotYetError("tostype: %r comes with sparse arrays, in a later release" % stype)


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
        self, rhs, begin=begin, end=end, step=step, out=self)
    NDArray.slice_assign_scalar = lambda self, value, begin, end, step: op(
        "_slice_assign_scalar")(self, scalar=value, begin=begin, end=end, step=step, out=self)


_install()


# ---------------------------------------------------------------- functions of two arrays


def _binary(array_op, scalar_op, reverse_op, function):
    arrays, scalar, reverse = op(array_op), op(scalar_op), op(reverse_op)

    def compute(lhs, rhs):
        if isinstance(lhs, NDArray):
            if isinstance(rhs, NDArray):
                return arrays(lhs, rhs)
            return scalar(lhs, scalar=rhs)
        if isinstance(rhs, NDArray):
            return reverse(rhs, scalar=lhs)
        return function(lhs, rhs)
    return compute


add = _binary("broadcast_add", "_plus_scalar", "_plus_scalar", lambda x, y: x + y)
subtract = _binary("broadcast_sub", "_minus_scalar", "_rminus_scalar", lambda x, y: x - y)
multiply = _binary("broadcast_mul", "_mul_scalar", "_mul_scalar", lambda x, y: x * y)
divide = _binary("broadcast_div", "_div_scalar", "_rdiv_scalar", lambda x, y: x / y)
true_divide = divide
modulo = _binary("broadcast_mod", "_mod_scalar", "_rmod_scalar", lambda x, y: x % y)
power = _binary("broadcast_power", "_power_scalar", "_rpower_scalar", lambda x, y: x ** y)
maximum = _binary("broadcast_maximum", "_maximum_scalar", "_maximum_scalar", max)
minimum = _binary("broadcast_minimum", "_minimum_scalar", "_minimum_scalar", min)
equal = _binary("broadcast_equal", "_equal_scalar", "_equal_scalar", lambda x, y: x == y)
not_equal = _binary("broadcast_not_equal", "_not_equal_scalar", "_not_equal_scalar",
                    lambda x, y: x != y)
greater = _binary("broadcast_greater", "_greater_scalar", "_lesser_scalar", lambda x, y: x > y)
greater_equal = _binary("broadcast_greater_equal", "_greater_equal_scalar",
                        "_lesser_equal_scalar", lambda x, y: x >= y)
lesser = _binary("broadcast_lesser", "_lesser_scalar", "_greater_scalar", lambda x, y: x < y)
lesser_equal = _binary("broadcast_lesser_equal", "_lesser_equal_scalar",
                       "_greater_equal_scalar", lambda x, y: x <= y)
logical_and = _binary("broadcast_logical_and", "_logical_and_scalar", "_logical_and_scalar",
                      lambda x, y: bool(x) and bool(y))
logical_or = _binary("broadcast_logical_or", "_logical_or_scalar", "_logical_or_scalar",
                     lambda x, y: bool(x) or bool(y))
logical_xor = _binary("broadcast_logical_xor", "_logical_xor_scalar", "_logical_xor_scalar",
                      lambda x, y: bool(x) != bool(y))


def concatenate(arrays, axis=0, always_copy=True):
    """Arrays one after the other along an axis."""
    arrays = list(arrays)
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    return op("Concat")(*arrays, dim=axis)


def moveaxis(tensor, source, destination):
    """Axes moved to new places, the others in their order."""
    def places(axes, what):
        axes = [axes] if isinstance(axes, (int, np.integer)) else list(axes)
        out = [a + tensor.ndim if a < 0 else a for a in axes]
        for given, a in zip(axes, out):
            if not 0 <= a < tensor.ndim:
                raise MXNetValueError("moveaxis: %s %d is out of range for %d axes"
                                      % (what, given, tensor.ndim))
        return out
    source, destination = places(source, "source"), places(destination, "destination")
    if len(source) != len(destination):
        raise MXNetValueError("`source` and `destination` arguments must have the same number "
                              "of elements")
    order = [n for n in range(tensor.ndim) if n not in source]
    for dest, src in sorted(zip(destination, source)):
        order.insert(dest, src)
    return op("transpose")(tensor, axes=tuple(order))


def onehot_encode(indices, out):
    """Writes one-hot rows of the indices into out."""
    return op("_onehot_encode")(indices, out, out=out)


def histogram(a, bins=10, range=None):
    """Counts of the values in bins, and the bins' edges."""
    if isinstance(bins, NDArray):
        return op("_histogram")(a, bins)
    if range is None:
        range = (float(a.min().asscalar()), float(a.max().asscalar()))
    edges = array(np.linspace(range[0], range[1], bins + 1), dtype=a.dtype)
    return op("_histogram")(a, edges)


def split_v2(ary, indices_or_sections, axis=0, squeeze_axis=False):
    """Parts of an array along an axis: equal ones, or cut at the given indices."""
    if isinstance(indices_or_sections, int):
        return op("_split_v2")(ary, indices=(), axis=axis, squeeze_axis=squeeze_axis,
                               sections=indices_or_sections)
    return op("_split_v2")(ary, indices=(0,) + tuple(indices_or_sections), axis=axis,
                           squeeze_axis=squeeze_axis, sections=0)

# MXNet's module has these names too, and scripts import them.
py_slice = slice
