"""A parameter of a block: a value and a gradient on each device, made when shapes are
known.
"""

import warnings
import weakref

import numpy as np

from .. import autograd, initializer
from .. import ndarray as nd
from ..base import mx_real_t
from ..context import Context, cpu, current_context
from ..error import MXNetError, check
from ..util import is_np_shape
from .utils import shape_is_known

_DEFAULT_INIT = initializer.Uniform()
_version = 0


def version():
    """A number that grows whenever any parameter gets other arrays or
    another grad_req.
    """
    return _version


def _changed():
    global _version
    _version += 1


class DeferredInitializationError(MXNetError):
    """A parameter is used before its shape is known and its values are drawn."""


def _as_contexts(ctx):
    """ctx as a list; None is the current context."""
    if ctx is None:
        return [current_context()]
    return [ctx] if isinstance(ctx, Context) else list(ctx)


class Parameter:
    """A named array that blocks compute with and trainers update.

    shape may hold 0 (unknown) where allow_deferred_init is set; then initialize() only
    notes what to do, and the first forward pass does it. grad_req is 'write' (each
    backward pass overwrites the gradient), 'add' (it accumulates until zero_grad()) or
    'null' (none). lr_mult and wd_mult multiply the optimizer's learning rate and weight
    decay. stype and grad_stype: storage of value and gradient, 'default', 'row_sparse'
    or 'csr'.
    """

    def __init__(
        self,
        name,
        grad_req="write",
        shape=None,
        dtype=mx_real_t,
        lr_mult=1.0,
        wd_mult=1.0,
        init=None,
        allow_deferred_init=False,
        differentiable=True,
        stype="default",
        grad_stype="default",
    ):
        for role, value in (("grad_stype", grad_stype), ("stype", stype)):
            check(
                value in ("default", "row_sparse", "csr"),
                "%s for Parameter '%s' must be one of 'default', 'row_sparse', or "
                "'csr', but "
                "got '%s'",
                role,
                name,
                value,
            )
        self.name = name
        self.lr_mult = lr_mult
        self.wd_mult = wd_mult
        self.init = init
        self._shape = (shape,) if isinstance(shape, int) else shape
        self._dtype = dtype
        self._stype = stype
        self._grad_stype = grad_stype
        self._differentiable = differentiable
        self._allow_deferred_init = allow_deferred_init
        self._grad_req = None
        self._trainer_ref = None
        self._var = None
        self._deferred_init = ()  # (init, contexts, default_init, data or None)
        self._ctx_list = None
        self._data = None  # one array for each context
        self._grad = None  # the same, or None without gradients
        self._array = None  # the only array, where there is one context: what the
        self.grad_req = grad_req  # forward pass of a block reads

    def __repr__(self):
        return "Parameter %s (shape=%s, dtype=%s)" % (self.name, self.shape, self.dtype)

    # What it is.

    @property
    def grad_req(self):
        """How backward writes the gradient: 'write', 'add' or 'null'."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req):
        check(
            req in ("write", "add", "null"),
            "grad_req must be one of 'write', 'add', or 'null', but got '%s'",
            req,
        )
        if not self._differentiable:
            req = "null"
        if self._grad_req == req:
            return
        self._grad_req = req
        if self._data is None:
            return
        if req == "null":
            self._grad = None
            self._set_arrays([array.detach() for array in self._data])
        else:
            self._init_grad()

    @property
    def dtype(self):
        """The dtype; assigning to it casts the value."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype):
        self.cast(dtype)

    @property
    def shape(self):
        """The shape. Unknown sizes are 0, or -1 under NumPy shape semantics."""
        if self._shape is None or not is_np_shape():
            return self._shape
        return tuple(size if size != 0 else -1 for size in self._shape)

    @shape.setter
    def shape(self, new_shape):
        old = self._shape
        check(
            old is None
            or (
                len(old) == len(new_shape)
                and all(j in (-1, 0, i) for i, j in zip(new_shape, old))
            ),
            "Expected shape %s is incompatible with given shape %s.",
            new_shape,
            old,
        )
        self._shape = tuple(new_shape)

    @property
    def stype(self):
        """The storage type of the value."""
        return self._stype

    @property
    def _trainer(self):
        # A weak reference: a trainer holds its parameters, and a cycle would keep both
        # alive.
        return self._trainer_ref and self._trainer_ref()

    def _set_trainer(self, trainer):
        current = self._trainer
        if self._stype != "default" and current and trainer and current is not trainer:
            raise RuntimeError(
                "Failed to set the trainer for Parameter '%s' because it was "
                "already set. More than one trainers for a %s Parameter is not "
                "supported." % (self.name, self._stype)
            )
        self._trainer_ref = trainer and weakref.ref(trainer)

    # Making the arrays.

    def initialize(
        self,
        init=None,
        ctx=None,
        default_init=_DEFAULT_INIT,
        force_reinit=False,
    ):
        """Draws the value and makes the gradient on each context of `ctx`.

        `init` goes before the parameter's own initializer, that before `default_init`.
        Values are drawn once and copied, so all contexts start equal.
        """
        if self._data is not None and not force_reinit:
            warnings.warn(
                "Parameter '%s' is already initialized, ignoring. Set "
                "force_reinit=True to re-initialize." % self.name,
                stacklevel=2,
            )
            return
        _changed()
        self._data = self._grad = self._array = None
        if init is None:
            init = default_init if self.init is None else self.init
        if not shape_is_known(self.shape) and not self._allow_deferred_init:
            raise ValueError(
                "Cannot initialize Parameter '%s' because it has invalid shape: %s."
                % (self.name, self.shape)
            )
        self._deferred_init = (init, _as_contexts(ctx), default_init, None)
        if shape_is_known(self.shape):
            self._finish_deferred_init()

    def _finish_deferred_init(self):
        """Makes the arrays now, as initialize() noted; does nothing when they are
        there.
        """
        if not self._deferred_init:
            return
        init, contexts, default_init, data = self._deferred_init
        check(
            shape_is_known(self.shape),
            "Cannot initialize Parameter '%s' because it has invalid shape: %s. Please "
            "specify "
            "in_units, in_channels, etc for `Block`s.",
            self.name,
            self.shape,
        )
        self._deferred_init = ()
        with autograd.pause():
            drawn = data is None
            if drawn:
                stype = {} if self._stype == "default" else {"stype": self._stype}
                data = nd.zeros(self.shape, dtype=self.dtype, ctx=cpu(), **stype)
                initializer.create(default_init)(
                    initializer.InitDesc(self.name, {"__init__": init}), data
                )
            self._init_impl(data, contexts, may_keep=drawn)

    def _init_impl(self, data, ctx_list, may_keep=False):
        """Sets value and gradient from `data`, which may itself be kept as a copy."""
        self._ctx_list = list(ctx_list)
        arrays = []
        for ctx in self._ctx_list:
            keep = may_keep and data.context == ctx
            arrays.append(data if keep else data.copyto(ctx))
            may_keep = may_keep and not keep
        self._set_arrays(arrays)
        self._init_grad()

    def _set_arrays(self, arrays):
        _changed()
        self._data = arrays
        one = len(arrays) == 1 and self._stype == "default"
        self._array = arrays[0] if one else None

    def _init_grad(self):
        _changed()
        if self._grad_req == "null":
            self._grad = None
            return
        stype = {} if self._grad_stype == "default" else {"stype": self._grad_stype}
        self._grad = [
            nd.zeros(a.shape, dtype=a.dtype, ctx=a.context, **stype) for a in self._data
        ]
        autograd.mark_variables(self._data, self._grad, self._grad_req)

    def _load_init(self, data, ctx, cast_dtype=False, dtype_source="current"):
        """Takes the value from an array that was loaded from a file."""
        check(
            not cast_dtype or dtype_source in ("current", "saved"),
            "dtype_source must be 'current' or 'saved', got '%s'",
            dtype_source,
        )
        if self.shape:
            check(
                len(self.shape) == len(data.shape)
                and all(
                    mine in (0, -1, size) for mine, size in zip(self.shape, data.shape)
                ),
                "Failed loading Parameter '%s' from saved params: shape incompatible "
                "expected "
                "%s vs saved %s",
                self.name,
                self.shape,
                data.shape,
            )
            self.shape = data.shape
        data = self._with_dtype(data, cast_dtype, dtype_source)
        if self._stype != data.stype:
            data = data.tostype(self._stype)
        if isinstance(ctx, Context):
            ctx = [ctx]
        if self._data is None and not self._deferred_init:
            self._init_impl(data, ctx or [cpu()])
            return
        check(
            ctx is None or set(ctx) == set(self.list_ctx()),
            "Failed to load Parameter '%s' on %s because it was previous initialized "
            "on %s.",
            self.name,
            ctx,
            self.list_ctx(),
        )
        if self._data is None:
            self._init_impl(data, self._deferred_init[1])
        else:
            self.set_data(data)
        self._deferred_init = ()

    def _with_dtype(self, data, cast_dtype, dtype_source):
        if not self.dtype or np.dtype(self.dtype) == np.dtype(data.dtype):
            return data
        check(
            cast_dtype,
            "Failed loading Parameter '%s' from saved params: dtype incompatible "
            "expected %s "
            "vs saved %s. Set cast_dtype=True to cast the dtype of saved params.",
            self.name,
            self.dtype,
            data.dtype,
        )
        if dtype_source == "current":
            return data.astype(self.dtype, copy=False)
        self.dtype = data.dtype
        return data

    def _reduce(self):
        """The mean of the copies, on the CPU."""
        if self._stype != "default":
            rows = nd.arange(0, self.shape[0], dtype="int64", ctx=cpu())
            data = nd.zeros(self.shape, stype="row_sparse", ctx=cpu(), dtype=self.dtype)
            self._trainer._row_sparse_pull(self, data, rows, full_idx=True)
            return data
        copies = self.list_data()
        if len(copies) == 1:
            return copies[0].copyto(cpu())
        return nd.add_n(*[array.copyto(cpu()) for array in copies]) / len(copies)

    # Access.

    def _find(self, arrays, ctx):
        """The array on `ctx` (None: the only one, or the current context's;
        list: all).
        """
        if arrays is None:
            self._raise_uninitialized()
        if ctx is list:
            return arrays
        if ctx is None:
            if len(arrays) == 1:
                return arrays[0]
            ctx = current_context()
        kind, number = (
            ctx.device_typeid & 1,
            ctx.device_id,
        )  # pinned memory counts as CPU
        for array, where in zip(arrays, self._ctx_list):
            if where.device_id == number and where.device_typeid & 1 == kind:
                return array
        raise RuntimeError(
            "Parameter '%s' was not initialized on context %s. It was only "
            "initialized on %s." % (self.name, ctx, self._ctx_list)
        )

    _check_and_get = _find

    def _raise_uninitialized(self):
        if self._deferred_init:
            raise DeferredInitializationError(
                "Parameter '%s' has not been initialized yet because initialization "
                "was "
                "deferred. Actual initialization happens during the first forward "
                "pass. Please "
                "pass one batch of data through the network before accessing "
                "Parameters. You can "
                "also avoid deferred initialization by specifying in_units, "
                "num_features, etc., "
                "for network layers." % self.name
            )
        raise RuntimeError(
            "Parameter '%s' has not been initialized. Note that you should initialize "
            "parameters "
            "and create Trainer with Block.collect_params() instead of Block.params "
            "because the "
            "later does not include Parameters of nested child Blocks" % self.name
        )

    def _check_dense(self, method):
        if self._stype != "default":
            raise RuntimeError(
                "Cannot return a copy of Parameter '%s' via %s() because its "
                "storage type is %s. Please use row_sparse_data() instead."
                % (self.name, method, self._stype)
            )

    def data(self, ctx=None):
        """The value on one context."""
        if ctx is None and self._array is not None:
            return self._array
        self._check_dense("data")
        return self._find(self._data, ctx)

    def list_data(self):
        """The values on all contexts, in the order of list_ctx()."""
        self._check_dense("list_data")
        return self._find(self._data, list)

    def _get_row_sparse(self, arrays, ctx, row_id):
        if not isinstance(row_id, nd.NDArray):
            raise TypeError(
                "row_id must have NDArray type, but %s is given" % type(row_id)
            )
        if self._stype != "row_sparse":
            raise RuntimeError(
                "Cannot return a copy of Parameter %s via row_sparse_data() "
                "because its storage type is %s. Please use data() instead."
                % (self.name, self._stype)
            )
        if not self._trainer:
            raise RuntimeError(
                "Cannot get row_sparse data for Parameter '%s' when no Trainer is "
                "created with it." % self.name
            )
        results = self._find(arrays, ctx)
        self._trainer._row_sparse_pull(self, results, row_id)
        return results

    def row_sparse_data(self, row_id):
        """The rows named by `row_id`, on its context."""
        return self._get_row_sparse(self._data, row_id.context, row_id)

    def list_row_sparse_data(self, row_id):
        """The rows named by `row_id`, on all contexts."""
        return self._get_row_sparse(self._data, list, row_id)

    def _check_has_grad(self):
        if self._data is not None and self._grad is None:
            raise RuntimeError(
                "Cannot get gradient array for Parameter '%s' because "
                "grad_req='null'" % self.name
            )

    def grad(self, ctx=None):
        """The gradient on one context."""
        self._check_has_grad()
        return self._find(self._grad, ctx)

    def list_grad(self):
        """The gradients on all contexts."""
        self._check_has_grad()
        return self._find(self._grad, list)

    def list_ctx(self):
        """The contexts that it is, or will be, initialized on."""
        if self._data is not None:
            return self._ctx_list
        if self._deferred_init:
            return self._deferred_init[1]
        raise RuntimeError("Parameter '%s' has not been initialized" % self.name)

    def var(self):
        """The symbol that stands for this parameter."""
        if self._var is None:
            from .. import symbol

            self._var = symbol.var(
                self.name,
                shape=self.shape,
                dtype=self.dtype,
                lr_mult=self.lr_mult,
                wd_mult=self.wd_mult,
                init=self.init,
                stype=self._stype,
            )
        return self._var

    # Changing it.

    def set_data(self, data):
        """Sets the value on all contexts."""
        self.shape = data.shape
        if self._data is None:
            check(
                self._deferred_init,
                "Parameter '%s' has not been initialized",
                self.name,
            )
            self._deferred_init = self._deferred_init[:3] + (data,)
            return
        trainer = self._trainer
        if (
            trainer
            and trainer._kv_initialized
            and trainer._update_on_kvstore
            and self not in trainer._params_to_init
        ):
            trainer._reset_kvstore()
        for array in self._data:
            array[:] = data

    def zero_grad(self):
        """Sets the gradients to zero; nothing where there are none."""
        for grad in self._grad or ():
            if grad.stype == "default":
                grad[:] = 0
            else:
                nd.zeros_like(grad, out=grad)

    def reset_ctx(self, ctx):
        """Moves value and gradient to other contexts."""
        contexts = _as_contexts(ctx)
        if self._data is not None:
            data = self._reduce()
            with autograd.pause():
                self._init_impl(data, contexts)
        elif self._deferred_init:
            init, _, default_init, data = self._deferred_init
            self._deferred_init = (init, contexts, default_init, data)
        else:
            raise ValueError(
                "Cannot reset context for Parameter '%s' because it has not been "
                "initialized." % self.name
            )

    def cast(self, dtype):
        """Casts value and gradient."""
        self._dtype = dtype
        if self._data is None:
            return
        with autograd.pause():
            self._set_arrays([array.astype(dtype) for array in self._data])
            if self._grad is not None:
                self._grad = [grad.astype(dtype) for grad in self._grad]
                autograd.mark_variables(self._data, self._grad, self._grad_req)


class Constant(Parameter):
    """A parameter that training leaves alone; set_data() can still change it."""

    def __init__(self, name, value):
        if not isinstance(value, nd.NDArray):
            value = nd.array(value)
        self.value = value
        super().__init__(
            name,
            grad_req="null",
            shape=value.shape,
            dtype=value.dtype,
            init=_CopyOf(value),
        )

    def __repr__(self):
        return "Constant %s (shape=%s, dtype=%s)" % (self.name, self.shape, self.dtype)

    @property
    def grad_req(self):
        """Always 'null'."""
        return "null"

    @grad_req.setter
    def grad_req(self, req):
        self._grad_req = "null"
        if req != "null":
            warnings.warn(
                'Constant parameter "%s" does not support grad_req other than "null", '
                'and new value "%s" is ignored.' % (self.name, req),
                stacklevel=2,
            )


class _CopyOf(initializer.Initializer):
    """Fills an array with the value of another."""

    def __init__(self, value):
        super().__init__()
        self._value = value

    def _init_weight(self, _, arr):
        self._value.copyto(arr)
