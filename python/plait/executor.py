"""Executor: a symbol bound to arrays, and the two ways to bind one."""

import numpy as np

from . import _plait
from . import ndarray as nd
from .context import Context
from .error import MXNetTypeError, MXNetValueError
from .ndarray import NDArray
from .ndarray._core import numpy_type

__all__ = ["Executor", "bind", "simple_bind"]

_REQUESTS = {"null": 0, "write": 1, "inplace": 1, "add": 3}


class Executor:
    """Runs a symbol over its arrays; made by Symbol.bind and Symbol.simple_bind.

    arg_arrays, grad_arrays and aux_arrays are in the order of list_arguments() and
    list_auxiliary_states(); a gradient that is not wanted is None. outputs are the same
    arrays after every forward().
    """

    def __init__(
        self,
        symbol,
        ctx,
        arg_arrays,
        grad_arrays,
        grad_req,
        aux_arrays,
        group2ctx=None,
        outputs=(),
        shared_exec=None,
    ):
        self._symbol = symbol
        self._ctx = ctx
        self._grad_req = grad_req
        self._group2ctx = group2ctx
        self._monitor_callback = None
        self._dicts = {}
        self.arg_arrays = arg_arrays
        self.grad_arrays = grad_arrays
        self.aux_arrays = aux_arrays
        arguments = symbol.list_arguments()
        auxiliary = symbol.list_auxiliary_states()
        arrays, grads, requests = [], [], []
        names = symbol.list_inputs()
        self._handle = None
        if group2ctx is None:
            self._handle = self._staged(names)
        if self._handle is not None:
            self._casts = self._opened = ()
            self.outputs = self._handle.outputs()
            return
        self._casts = []  # (gradient as computed, one of another dtype or storage)
        self._opened = []  # (sparse array, the dense one that the graph reads)
        args = iter(zip(arguments, arg_arrays, grad_arrays, strict=True))
        aux = iter(zip(auxiliary, aux_arrays, strict=True))
        states = set(auxiliary)
        for name in names:
            if name in states:
                arrays.append(self._dense(next(aux)[1]))
                grads.append(None)
                requests.append(0)
                continue
            _, array, grad = next(args)
            if grad is not None and (
                grad.dtype != array.dtype or grad.stype != "default"
            ):
                own = nd.zeros(grad.shape, array.context, array.dtype)
                self._casts.append((own, grad))
                grad = own
            arrays.append(self._dense(array))
            grads.append(grad)
            requests.append(0 if grad is None else _REQUESTS[grad_req[name]])
        self._handle = _plait.bind(
            symbol.handle, arrays, grads, requests, list(outputs)
        )
        if shared_exec is not None:
            self._handle.share_kept(shared_exec._handle)
        self.outputs = self._handle.outputs()

    def _staged(self, names):
        """What runs a graph with sparse values; None where there are none."""
        from .staged_executor import handle_for

        arguments = self._symbol.list_arguments()
        arrays = dict(zip(self._symbol.list_auxiliary_states(), self.aux_arrays))
        arrays.update(zip(arguments, self.arg_arrays))
        grads = dict(zip(arguments, self.grad_arrays))
        grads = [grads.get(name) for name in names]
        requests = [
            0 if grad is None else _REQUESTS[self._grad_req[name]]
            for name, grad in zip(names, grads)
        ]
        return handle_for(
            self._symbol, names, [arrays[n] for n in names], grads, requests
        )

    def _dense(self, array):
        """The array, or a dense one that each forward() fills from it."""
        if type(array) is NDArray or array.stype == "default":
            return array
        self._opened.append((array, array.tostype("default")))
        return self._opened[-1][1]

    def forward(self, is_train=False, **kwargs):
        """Computes and returns the outputs; keyword arguments are copied into arguments
        first. backward() is for is_train=True; else it computes them again."""
        for name, value in kwargs.items():
            self._assign(name, value)
        for given, own in self._opened:
            given.copyto(own)
        self._handle.forward(bool(is_train))
        return self.outputs

    def _assign(self, name, value):
        if not isinstance(value, (NDArray, np.ndarray)):
            raise MXNetValueError(
                "forward: %s is %s; an NDArray or numpy.ndarray was expected"
                % (name, type(value).__name__)
            )
        array = self.arg_dict.get(name)
        if array is None:
            raise MXNetTypeError(
                "forward: Unknown argument %s; one of %s was expected"
                % (name, ", ".join(self.arg_dict))
            )
        if array.shape != value.shape:
            raise MXNetValueError(
                "forward: Shape not match! Argument %s, need: %s, received: %s"
                % (name, array.shape, value.shape)
            )
        array[:] = value

    def backward(self, out_grads=None, is_train=True):
        """Computes the gradients of the arguments; head gradients by output, as one
        array, a list, or a dict by output name. Ones are taken where none are given."""
        if out_grads is None:
            out_grads = []
        elif isinstance(out_grads, NDArray):
            out_grads = [out_grads]
        elif isinstance(out_grads, dict):
            out_grads = [out_grads[name] for name in self._symbol.list_outputs()]
        for grad in out_grads:
            if not isinstance(grad, NDArray):
                raise TypeError(
                    "backward: a head gradient is %s; NDArrays were expected"
                    % type(grad).__name__
                )
        out_grads = [grad.tostype("default") for grad in out_grads]
        for own, given in self._casts:
            given.copyto(own)  # for requests that add
        # As MXNet: what is given for more outputs than there are does not matter.
        self._handle.backward(list(out_grads)[: len(self.outputs)])
        for own, given in self._casts:
            own.copyto(given)

    def set_monitor_callback(self, callback, monitor_all=False):
        """Calls callback(name, array) for every operator's outputs after each forward;
        monitor_all: for variables too."""
        self._monitor_callback = None if callback is None else (callback, monitor_all)
        self._handle.set_monitor(callback, bool(monitor_all))

    # Arrays by name.

    def _dict(self, what, names, arrays):
        if what not in self._dicts:
            if len(set(names)) != len(names):
                raise MXNetValueError("executor: Duplicate names detected, %s" % names)
            self._dicts[what] = dict(zip(names, arrays))
        return self._dicts[what]

    @property
    def arg_dict(self):
        """The arguments' arrays by name."""
        return self._dict("arg", self._symbol.list_arguments(), self.arg_arrays)

    @property
    def grad_dict(self):
        """The gradients by argument name; None where there is none."""
        return self._dict("grad", self._symbol.list_arguments(), self.grad_arrays)

    @property
    def aux_dict(self):
        """The auxiliary states by name."""
        return self._dict("aux", self._symbol.list_auxiliary_states(), self.aux_arrays)

    @property
    def output_dict(self):
        """The outputs by name."""
        return self._dict("output", self._symbol.list_outputs(), self.outputs)

    def copy_params_from(self, arg_params, aux_params=None, allow_extra_params=False):
        """Copies arrays into arguments and auxiliary states, cast to their dtypes."""
        for params, own, what in (
            (arg_params, self.arg_dict, "arguments"),
            (aux_params or {}, self.aux_dict, "auxiliary states"),
        ):
            for name, array in params.items():
                if name in own:
                    array.astype(own[name].dtype).copyto(own[name])
                elif not allow_extra_params:
                    raise MXNetValueError(
                        'copy_params_from: Find name "%s" that is not in the %s; one '
                        "of %s was expected" % (name, what, list(own)[:20])
                    )

    def reshape(self, partial_shaping=False, allow_up_sizing=False, **kwargs):
        """An executor for other shapes of the named arguments that shares memory with
        this one where it suffices. partial_shaping: other arguments may change too;
        allow_up_sizing: arrays may become larger than they were."""
        arg_shapes, _, aux_shapes = self._symbol.infer_shape(**kwargs)
        if arg_shapes is None:
            raise MXNetValueError(
                "reshape: shapes do not follow from %s; more of them were expected"
                % kwargs
            )

        def resized(name, array, shape):
            if array is None or array.shape == shape:
                return array
            if name not in kwargs and not partial_shaping:
                raise AssertionError(
                    "Shape of unspecified array arg:%s changed. This can cause the new "
                    "executor to not share parameters with the old one. Please check "
                    "for error in network. If this is intended, set "
                    "partial_shaping=True to suppress this warning." % name
                )
            size = int(np.prod(shape))
            if array.stype != "default":
                return nd.zeros(shape, array.context, array.dtype, stype=array.stype)
            if size > array.size:
                if not allow_up_sizing:
                    raise AssertionError(
                        "New shape of arg:%s larger than original. First making a big "
                        "executor and then down sizing it is more efficient than the "
                        "reverse. If you really want to up size, set "
                        "allow_up_sizing=True to enable allocation of new arrays."
                        % name
                    )
                return nd.empty(shape, array.context, array.dtype)
            return array.reshape((-1,))[:size].reshape(shape)

        names = self._symbol.list_arguments()
        auxiliary = self._symbol.list_auxiliary_states()
        reshaped = Executor(
            self._symbol,
            self._ctx,
            [resized(*x) for x in zip(names, self.arg_arrays, arg_shapes)],
            [resized(*x) for x in zip(names, self.grad_arrays, arg_shapes)],
            self._grad_req,
            [resized(*x) for x in zip(auxiliary, self.aux_arrays, aux_shapes)],
            self._group2ctx,
            self.outputs,
            self,
        )
        if self._monitor_callback is not None:
            reshaped.set_monitor_callback(*self._monitor_callback)
        return reshaped

    def memory_plan(self, is_train=True):
        """Bytes of the values between inputs and outputs as planned by each strategy
        ("none", "inplace", "co_share", "both"), and the "lower_bound": the largest set
        of them that is alive at once."""
        return self._handle.plan_sizes(is_train)

    def debug_str(self):
        """The graph that runs, and the memory it needs."""
        return self._handle.debug_text()

    def get_optimized_symbol(self):
        """The bound symbol; what passes make of it is in debug_str()."""
        return self._symbol


def _listed(what, given, names, allow_missing=False):
    """Arrays in the order of names, from a list or a dict."""
    if isinstance(given, dict):
        arrays = []
        for name in names:
            if name in given:
                arrays.append(given[name])
            elif allow_missing:
                arrays.append(None)
            else:
                raise MXNetValueError(
                    "bind: key `%s` is missing in `%s`; all of %s were expected"
                    % (name, what, names[:20])
                )
    elif isinstance(given, (list, tuple)):
        if len(given) != len(names):
            raise MXNetValueError(
                "bind: Length of %s does not match the number of arguments: got %d, %d "
                "were expected" % (what, len(given), len(names))
            )
        arrays = list(given)
    else:
        raise TypeError("Only accept list of NDArrays or dict of str to NDArray")
    for array in arrays:
        if not isinstance(array, NDArray) and not (array is None and allow_missing):
            raise TypeError("Only accept list of NDArrays or dict of str to NDArray")
    return arrays


def _requests(grad_req, names):
    """{name: request} from a string, a list or a dict."""
    if isinstance(grad_req, str):
        requests = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, (list, tuple)):
        requests = dict(zip(names, grad_req))
    else:
        requests = {name: grad_req.get(name, "null") for name in names}
    for name, request in requests.items():
        if request not in _REQUESTS:
            raise MXNetValueError(
                "bind: grad_req of %s is %r; one of %s was expected"
                % (name, request, sorted(_REQUESTS))
            )
    return requests


def bind(
    symbol,
    ctx,
    args,
    args_grad=None,
    grad_req="write",
    aux_states=None,
    group2ctx=None,
    shared_exec=None,
):
    """An Executor over given arrays: lists in the order of list_arguments() and
    list_auxiliary_states(), or dicts by name."""
    if not isinstance(ctx, Context):
        raise TypeError("Context type error")
    names = symbol.list_arguments()
    auxiliary = symbol.list_auxiliary_states()
    arg_arrays = _listed("args", args, names)
    if args_grad is None:
        grads = [None] * len(names)
    else:
        grads = _listed("args_grad", args_grad, names, allow_missing=True)
    aux_arrays = _listed(
        "aux_states", [] if aux_states is None else aux_states, auxiliary
    )
    requests = _requests(grad_req, names)
    grads = [None if requests[n] == "null" else g for n, g in zip(names, grads)]
    return Executor(
        symbol,
        ctx,
        arg_arrays,
        grads,
        requests,
        aux_arrays,
        group2ctx,
        shared_exec=shared_exec,
    )


def simple_bind(
    symbol,
    ctx,
    grad_req="write",
    type_dict=None,
    stype_dict=None,
    group2ctx=None,
    shared_arg_names=None,
    shared_exec=None,
    shared_buffer=None,
    shapes=None,
):
    """An Executor over new arrays: shapes and dtypes are inferred from the given ones.

    shared_exec: arguments named in shared_arg_names, gradients and auxiliary states are
    those of another executor where shapes agree; shared_buffer: {name: array} from
    which arguments take memory, and to which new ones are added."""
    names = symbol.list_arguments()
    auxiliary = symbol.list_auxiliary_states()
    given, shapes = shapes or {}, {}
    for key, value in given.items():
        if isinstance(value, (tuple, list)):
            shapes[key] = value
        elif key in names:
            raise MXNetTypeError(
                "simple_bind: the shape of %s is %r; a tuple was expected"
                % (key, value)
            )
    arg_shapes, _, aux_shapes = symbol.infer_shape(**(shapes or {}))
    if arg_shapes is None:
        raise MXNetValueError(
            "simple_bind: shapes do not follow from %s; more of them were expected"
            % (shapes,)
        )
    arg_types, _, aux_types = symbol.infer_type(**(type_dict or {}))
    if isinstance(grad_req, (list, dict)) and not grad_req:
        raise RuntimeError("grad_req in simple_bind cannot be an empty list or dict")
    requests = _requests(grad_req, names)
    groups = symbol.attr_dict() if group2ctx else {}

    def device_of(name):
        group = groups.get(name, {}).get("__ctx_group__")
        return (group2ctx or {}).get(group, ctx)

    def fresh(name, shape, dtype, stype=None):
        return nd.zeros(shape, device_of(name), numpy_type_name(dtype), stype=stype)

    stypes, grad_stypes = storages(symbol, stype_dict)
    if group2ctx:  # such graphs are computed densely
        stypes = {}

    def shared(pool, name, shape, dtype, stype=None):
        array = pool.get(name) if pool else None
        if array is not None and array.shape == shape and array.dtype == dtype:
            return array if array.stype == (stype or "default") else None
        return None

    own_args = shared_exec.arg_dict if shared_exec is not None else {}
    own_grads = shared_exec.grad_dict if shared_exec is not None else {}
    own_aux = shared_exec.aux_dict if shared_exec is not None else {}
    params = set(names if shared_arg_names is None else shared_arg_names)
    args, grads = [], []
    for name, shape, dtype in zip(names, arg_shapes, arg_types):
        array, stype = None, stypes.get(name)
        if name in params:
            array = shared(own_args, name, shape, dtype, stype)
        elif shared_buffer is not None and stype is None:
            array = _from_buffer(shared_buffer, name, shape, dtype)
        if array is None:
            array = fresh(name, shape, dtype, stype)
            if name not in params and shared_buffer is not None and stype is None:
                shared_buffer[name] = array
        args.append(array)
        grad = None
        if requests[name] != "null":
            stype = grad_stypes.get(name)
            if name in params:
                grad = shared(own_grads, name, shape, dtype, stype)
            if grad is None:
                grad = fresh(name, shape, dtype, stype)
        grads.append(grad)
    aux = [
        shared(own_aux, name, shape, dtype) if shared_exec is not None else None
        for name, shape, dtype in zip(auxiliary, aux_shapes, aux_types)
    ]
    aux = [
        fresh(name, shape, dtype) if array is None else array
        for array, name, shape, dtype in zip(aux, auxiliary, aux_shapes, aux_types)
    ]
    return Executor(
        symbol, ctx, args, grads, requests, aux, group2ctx, shared_exec=shared_exec
    )


def storages(symbol, stype_dict=None):
    """({variable: storage}, {variable: storage of its gradient}), where not dense."""
    kinds = {"1": "row_sparse", "2": "csr"}
    wanted, embeds = dict(stype_dict or {}), False
    for name, attributes in symbol.handle.attr_list():
        kind = kinds.get(attributes.get("__storage_type__"))
        if kind is not None:
            wanted.setdefault(name, kind)
        embeds = embeds or "input_dim" in attributes
    wanted = {name: stype for name, stype in wanted.items() if stype in kinds.values()}
    if not wanted and not embeds:
        return {}, {}
    from .symbol.staged import sparse_gradients

    return wanted, dict.fromkeys(sparse_gradients(symbol, wanted), "row_sparse")


def numpy_type_name(dtype):
    """A dtype of an inference result as what nd.zeros takes."""
    return dtype if dtype is not None else numpy_type("float32")


def _from_buffer(buffer, name, shape, dtype):
    """The first elements of a named array, when it has enough of the dtype."""
    array = buffer.get(name)
    size = int(np.prod(shape))
    if array is None or array.dtype != dtype or array.size < size:
        return None
    if array.shape == shape:
        return array
    return array.reshape((-1,))[:size].reshape(shape)
