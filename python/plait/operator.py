"""Operators written in Python: CustomOp, CustomOpProp, register, and nd.Custom behind
them.

A call of nd.Custom returns at once; forward and backward run later, on a thread of the
engine, when their arrays are ready. They may wait for arrays themselves. An exception
in them is raised where their result is waited for.
"""

import collections
import functools
import traceback

from . import _plait, custom_sparse
from .error import (
    MXNetError,
    MXNetNotImplementedError,
    MXNetRuntimeError,
    MXNetTypeError,
    MXNetValueError,
)
from .ndarray._core import NDArray

__all__ = [
    "CustomOp",
    "CustomOpProp",
    "PythonOp",  # noqa: F822
    "NumpyOp",  # noqa: F822
    "NDArrayOp",  # noqa: F822
    "register",
    "get_all_registered_operators",
    "get_all_registered_operators_grouped",
    "get_operator_arguments",
    "OperatorArguments",
]

_props = {}


class CustomOp:
    """The computation of an operator: subclasses write forward and backward."""

    def forward(self, is_train, req, in_data, out_data, aux):
        """Computes out_data from in_data; req[i] says how to store out_data[i]."""

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        """Computes in_grad, the gradients of in_data; req[i] says how to store each."""

    def assign(self, dst, req, src):
        """Stores src in dst: req is null, write, inplace or add."""
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src
        elif req != "null":
            raise MXNetValueError(
                "assign: req is %r; one of null, write, inplace, add "
                "was expected" % (req,)
            )


class CustomOpProp:
    """What a custom operator looks like from outside: names, shapes, dtypes.

    The keyword arguments of a call reach the constructor as strings. need_top_grad
    False is for losses, whose gradient does not depend on a head gradient.
    """

    def __init__(self, need_top_grad=True):
        self.need_top_grad_ = need_top_grad

    def infer_shape(self, in_shape):
        """(shapes of the arguments, of the outputs, of the auxiliary states)."""
        return in_shape, (in_shape[0],) * len(self.list_outputs()), ()

    def infer_type(self, in_type):
        """(dtypes of the arguments, of the outputs, of the auxiliary states)."""
        return (
            in_type,
            [in_type[0]] * len(self.list_outputs()),
            [in_type[0]] * len(self.list_auxiliary_states()),
        )

    def infer_storage_type(self, in_stype):
        """(storage types of the arguments, outputs, auxiliary states): all dense."""
        _all_dense("infer_storage_type", in_stype)
        return (
            in_stype,
            ["default"] * len(self.list_outputs()),
            ["default"] * len(self.list_auxiliary_states()),
        )

    def infer_storage_type_backward(
        self, ograd_stype, in_stype, out_stype, igrad_stype, aux_stype
    ):
        """The storage types of all arrays of backward: all dense."""
        _all_dense("infer_storage_type_backward", ograd_stype)
        lists = ograd_stype, in_stype, out_stype, igrad_stype, aux_stype
        return tuple(["default"] * len(stypes) for stypes in lists)

    def list_outputs(self):
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self):
        """Names of the arguments."""
        return ["data"]

    def list_auxiliary_states(self):
        """Names of the states that forward may change; they get no gradient."""
        return []

    def declare_backward_dependency(self, out_grad, in_data, out_data):
        """The numbers of the arrays that backward reads, of those given."""
        needed = list(out_grad) if self.need_top_grad_ else []
        return needed + list(in_data) + list(out_data)

    def create_operator(self, ctx, in_shapes, in_dtypes):
        """The CustomOp of a call."""
        return CustomOp()


def _all_dense(where, stypes):
    for i, stype in enumerate(stypes):
        if stype not in ("default", "undefined"):
            raise MXNetTypeError(
                "%s: array %d has storage type %r, which only an operator that defines "
                "infer_storage_type and infer_storage_type_backward can take; "
                "'default' was expected" % (where, i, stype)
            )


def register(reg_name):
    """A decorator that registers a CustomOpProp class under an op_type."""

    def enter(cls):
        if not (isinstance(cls, type) and issubclass(cls, CustomOpProp)):
            raise MXNetTypeError(
                "register: %r is given for %r; a subclass of "
                "CustomOpProp was expected" % (cls, reg_name)
            )
        _props[reg_name] = cls
        return cls

    return enter


OperatorArguments = collections.namedtuple("OperatorArguments", "narg names types")


def get_all_registered_operators():
    """Names of all operators, aliases too."""
    return _plait.op_names()


def get_all_registered_operators_grouped():
    """Canonical name -> all names of each operator, itself among them."""
    groups = {}
    for name in _plait.op_names():
        groups.setdefault(_plait.op_info(name)["name"], []).append(name)
    return groups


def get_operator_arguments(op_name):
    """Number, names and types of an operator's inputs and parameters."""
    info = _plait.op_info(op_name)
    names = [row[0] for row in info["inputs"]] + [row[0] for row in info["params"]]
    types = ["NDArray-or-Symbol"] * len(info["inputs"])
    for _, kind, required, default, _ in info["params"]:
        if kind.startswith("{"):
            kind = "{%s}" % ", ".join(repr(word) for word in kind[1:-1].split("|"))
        use = "required" if required else "optional, default=%r" % (default,)
        types.append("%s, %s" % (kind, use))
    return OperatorArguments(len(names), names, types)


def _three(result, where):
    """infer_shape and infer_type may leave out the auxiliary states."""
    if len(result) not in (2, 3):
        raise MXNetValueError(
            "%s returned %d lists; 2 or 3 were expected" % (where, len(result))
        )
    return [list(part) for part in result] + [[]] * (3 - len(result))


@functools.cache
def _error_class(cls):
    """A class that is both MXNetError and the class of what a callback raised."""
    try:
        return type(
            cls.__name__,
            (MXNetError, cls),
            {"__module__": cls.__module__, "__str__": BaseException.__str__},
        )
    except TypeError:  # two built-in layouts in one class
        return MXNetRuntimeError


class _Guard:
    """Makes what a callback raises an MXNetError that says where it happened."""

    def __init__(self, where):
        self.where = where

    def __enter__(self):
        pass

    def __exit__(self, kind, value, trace):
        if kind is None or not issubclass(kind, Exception):
            return
        text = "Error in %s: %s" % (
            self.where,
            "".join(traceback.format_exception(kind, value, trace)),
        )
        base = kind if issubclass(kind, MXNetError) else _error_class(kind)
        try:
            error = base(text)
        except Exception:  # a constructor with arguments of its own
            error = MXNetRuntimeError(text)
        raise error from value


class _Call:
    """One call: what the prop says of it, its arrays, and its gradient."""

    def __init__(self, op_type, prop):
        self.op_type = op_type
        self.prop = prop
        self.arguments = list(prop.list_arguments())
        self.states = list(prop.list_auxiliary_states())
        self.outputs = list(prop.list_outputs())

    def place(self, arrays, named):
        """The arrays in the order of arguments and states, as two lists."""
        names = self.arguments + self.states
        open_names = [name for name in names if name not in named]
        placed = dict(zip(open_names, arrays), **named)
        if len(arrays) != len(open_names) or set(placed) != set(names):
            raise MXNetValueError(
                "Custom(%s): got %d arrays by position and %s by name; %d were "
                "expected: %s"
                % (self.op_type, len(arrays), sorted(named), len(names), names)
            )
        ordered = [placed[name] for name in names]
        return ordered[: len(self.arguments)], ordered[len(self.arguments) :]

    def infer(self, data, aux):
        """(shape, dtype) of each output, after checking the inputs."""
        where = "Custom(%s)" % self.op_type
        with _Guard("%s.infer_shape" % self.op_type):
            shapes = _three(
                self.prop.infer_shape([list(x.shape) for x in data]),
                "%s: infer_shape" % where,
            )
        with _Guard("%s.infer_type" % self.op_type):
            types = _three(
                self.prop.infer_type([x.dtype for x in data]), "%s: infer_type" % where
            )
        for kind, lists in (("shapes", shapes), ("dtypes", types)):
            for names, items in zip((self.arguments, self.outputs, self.states), lists):
                if len(items) != len(names):
                    raise MXNetValueError(
                        "%s: got %d %s for %d arrays (%s); one for each was expected"
                        % (where, len(items), kind, len(names), ", ".join(names))
                    )
        wanted = shapes[0] + shapes[2]
        for name, x, shape in zip(self.arguments + self.states, data + aux, wanted):
            if x.shape != tuple(shape):
                raise MXNetValueError(
                    "%s: %s has shape %s; %s was expected"
                    % (where, name, x.shape, tuple(shape))
                )
        return list(zip((tuple(shape) for shape in shapes[1]), types[1]))

    def forward(self, op, data, outputs, aux, training):
        """Hands the computation to the engine."""
        count = len(outputs)

        def run(reads, writes):
            with _Guard("custom operator %s, forward" % self.op_type):
                op.forward(
                    training, ["write"] * count, reads, writes[:count], writes[count:]
                )

        _plait.push_callback(self.op_type, run, data, outputs + aux, training)

    def record(self, op, data, outputs, aux):
        """Notes the call on the tape; its gradient runs on the engine, too."""
        needed = self._needed(len(data), len(outputs))
        # Not the recorded arrays themselves: they own their history, hence this.
        kept = [x.detach() if n else None for x, n in zip(data + outputs, needed)]
        kept_data, kept_outputs = kept[: len(data)], kept[len(data) :]
        wants = [_wants_gradient(x) for x in data]
        places = [(x.shape, x.dtype, x.context) for x in data]
        req = ["write" if want else "null" for want in wants]
        name = "_backward_" + self.op_type

        def gradient(out_grads):
            in_grads = [_empty(*place) for place in places]
            reads = [x for x in out_grads + kept_data + kept_outputs if x is not None]

            def run(reads, writes):
                queue = iter(reads)
                take = lambda xs: [None if x is None else next(queue) for x in xs]  # noqa: E731
                parts = take(out_grads), take(kept_data), take(kept_outputs)
                with _Guard("custom operator %s, backward" % self.op_type):
                    op.backward(req, *parts, writes[: len(req)], writes[len(req) :])

            _plait.push_callback(name, run, reads, in_grads + aux, True)
            results = [g if want else None for g, want in zip(in_grads, wants)]
            if _plait.is_recording():
                _plait.record_custom(
                    name, list(out_grads) + data, in_grads, _no_gradient
                )
            return results

        def _no_gradient(grads):
            raise MXNetNotImplementedError(
                "%s: the gradient of a custom operator has no gradient itself; build "
                "it from operators that have one" % name
            )

        _plait.record_custom(self.op_type, data, outputs, gradient)

    def _needed(self, inputs, outputs):
        """For each argument and output, whether backward reads it."""
        ids = list(range(2 * outputs + inputs))
        with _Guard("%s.declare_backward_dependency" % self.op_type):
            needed = set(
                self.prop.declare_backward_dependency(
                    ids[:outputs],
                    ids[outputs : outputs + inputs],
                    ids[outputs + inputs :],
                )
            )
        return [i in needed for i in ids[outputs:]]


class _Node(_Call):
    """A call as a node of graphs: its names, inference, and the CustomOps that run it.

    Each forward in training gets a CustomOp of its own until its backward is done, so
    that what forward keeps in it is there; most of the time it is always the same one.
    """

    _MOST = 64  # forwards that wait for a backward

    def __init__(self, op_type, prop):
        super().__init__(op_type, prop)
        ids = list(range(2 * len(self.outputs) + len(self.arguments)))
        heads = len(self.outputs)
        with _Guard("%s.declare_backward_dependency" % op_type):
            needed = set(
                prop.declare_backward_dependency(
                    ids[:heads],
                    ids[heads : heads + len(self.arguments)],
                    ids[heads + len(self.arguments) :],
                )
            )
        self.needed = ["1" if i in needed else "0" for i in ids]
        self._idle, self._busy, self._count = [], {}, 0

    def infer_dtypes(self, known, complete):
        """Numbers of dtypes (-1: not known) for arguments, outputs, states; None when
        nothing follows yet."""
        return self._infer("infer_type", known, complete, self._dtypes)

    def infer_shapes(self, known, complete):
        """Shapes (0: not known) for arguments, outputs, states; None when nothing
        follows yet."""
        return self._infer("infer_shape", known, complete, self.prop.infer_shape)

    def _infer(self, method, known, complete, ask):
        if not complete and all(k in ([], -1) for k in known):
            return None
        where = "%s.%s" % (self.op_type, method)
        try:
            with _Guard(where):
                lists = _three(ask(known), where)
        except MXNetError:
            if complete:
                raise
            return None  # it cannot cope with what is not known
        found = []
        for names, items in zip((self.arguments, self.outputs, self.states), lists):
            if len(items) != len(names):
                raise MXNetValueError(
                    "Custom(%s): %s gives %d items for %d arrays (%s); one for each "
                    "was expected"
                    % (self.op_type, method, len(items), len(names), ", ".join(names))
                )
            found += items
        return found

    def _dtypes(self, known):
        from .ndarray.ndarray import _DTYPE_MX_TO_NP
        from .symbol.symbol import _dtype_number

        lists = self.prop.infer_type([_DTYPE_MX_TO_NP[k] for k in known])
        return [[-1 if t is None else _dtype_number(t) for t in part] for part in lists]

    def run_forward(self, training, data, outputs, aux):
        """Runs forward; the number of the CustomOp that backward is to use."""
        op = self._idle.pop() if self._idle else self._create(data)
        with _Guard("custom operator %s, forward" % self.op_type):
            op.forward(training, ["write"] * len(outputs), data, outputs, aux)
        if not training:
            self._idle.append(op)
            return 0
        if len(self._busy) >= self._MOST:
            self._idle.append(self._busy.pop(next(iter(self._busy))))
        self._count += 1
        self._busy[self._count] = op
        return self._count

    def run_backward(self, number, wanted, out_grads, data, outputs, in_grads, aux):
        """Runs backward of the CustomOp that a forward used."""
        op = self._busy.pop(number, None)
        if op is None:  # a second backward, or one after prediction
            op = self._idle.pop() if self._idle else self._create(in_grads)
        req = ["write" if want else "null" for want in wanted]
        with _Guard("custom operator %s, backward" % self.op_type):
            op.backward(req, out_grads, data, outputs, in_grads, aux)
        self._idle.append(op)

    def _create(self, data):
        from .context import current_context

        ctx = data[0].context if data else current_context()
        shapes, types = [list(x.shape) for x in data], [x.dtype for x in data]
        with _Guard("%s.create_operator" % self.op_type):
            return self.prop.create_operator(ctx, shapes, types)


def _node(op_type, params):
    """What the operator Custom of graphs holds."""
    prop_class = _prop_class(op_type)
    with _Guard("the constructor of %s" % prop_class.__name__):
        return _Node(op_type, prop_class(**params))


def _prop_class(op_type):
    prop_class = _props.get(op_type)
    if prop_class is None:
        raise MXNetValueError(
            "Custom: op_type is %r; one of %s was expected"
            % (op_type, sorted(_props) or "a registered name")
        )
    return prop_class


def _wants_gradient(x):
    if not _plait.is_tracked(x):
        return False
    return _plait.grad_of(x) is None or _plait.grad_req_of(x) != "null"


def _empty(shape, dtype, ctx):
    return _plait.empty(shape, dtype, ctx.device_typeid, ctx.device_id)


def _results(call, specs, out, ctx):
    """The arrays of the outputs: new ones, or those the caller gives."""
    if out is None:
        return [_empty(shape, dtype, ctx) for shape, dtype in specs]
    outputs = list(out) if isinstance(out, (list, tuple)) else [out]
    if [x.shape for x in outputs] != [shape for shape, _ in specs]:
        raise MXNetValueError(
            "Custom(%s): out has shapes %s; %s were expected"
            % (call.op_type, [x.shape for x in outputs], [shape for shape, _ in specs])
        )
    return outputs


def Custom(*data, op_type=None, out=None, name=None, **kwargs):
    """Calls the custom operator that is registered as op_type.

    Arrays, by position or by name, are its arguments and auxiliary states; everything
    else goes to its CustomOpProp as strings.
    """
    prop_class = _prop_class(op_type)
    named = {k: v for k, v in kwargs.items() if isinstance(v, NDArray)}
    params = {k: str(v) for k, v in kwargs.items() if k not in named}
    for x in data:
        if not isinstance(x, NDArray):
            raise MXNetTypeError(
                "Custom(%s): an argument is a %s; an NDArray was "
                "expected" % (op_type, type(x).__name__)
            )
    with _Guard("the constructor of %s" % prop_class.__name__):
        call = _Call(op_type, prop_class(**params))
    data, aux = call.place(data, named)
    stypes = [x.stype for x in data]
    with _Guard("%s.infer_storage_type" % op_type):
        storages = custom_sparse.storages_of(call, stypes)
    if storages is not None and not _plait.is_tracing():
        return _sparse_call(call, storages, data, aux, out)
    data = [x.tostype("default") for x in data]  # others get dense arrays
    if _plait.is_tracing():
        from .ndarray._core import op as function

        return function("Custom")(*data, *aux, op_type=op_type, **params)
    specs = call.infer(data, aux)
    from .context import current_context

    ctx = data[0].context if data else current_context()
    outputs = _results(call, specs, out, ctx)
    with _Guard("%s.create_operator" % op_type):
        op = call.prop.create_operator(
            ctx, [list(x.shape) for x in data], [x.dtype for x in data]
        )
    call.forward(op, data, outputs, aux, _plait.is_training())
    if _plait.is_recording() and any(_wants_gradient(x) for x in data):
        call.record(op, data, outputs, aux)
    return outputs[0] if len(outputs) == 1 else outputs


def _sparse_call(call, storages, data, aux, out):
    specs = call.infer(data, aux)
    with _Guard("%s.create_operator" % call.op_type):
        shapes, dtypes = [list(x.shape) for x in data], [x.dtype for x in data]
        op = call.prop.create_operator(data[0].context, shapes, dtypes)
    outputs = custom_sparse.run(call, op, storages, data, specs, aux, _Guard)
    if out is not None:
        targets = out if isinstance(out, (list, tuple)) else [out]
        for y, target in zip(outputs, targets):
            _plait.assign_sparse(y, target)
        return out
    return outputs[0] if len(outputs) == 1 else outputs


def storage_of_results(attributes, stypes):
    """The storages of the outputs of a node of a graph for those of its inputs."""
    params = {k: v for k, v in attributes.items() if not k.startswith("__")}
    op_type = params.pop("op_type", None)
    prop_class = _prop_class(op_type)
    with _Guard("the storage of Custom(%s)" % op_type):
        call = _Call(op_type, prop_class(**params))
        storages = custom_sparse.storages_of(call, stypes[: len(call.arguments)])
    return ["default"] * len(call.outputs) if storages is None else storages[1]


def __getattr__(name):
    if name in ("PythonOp", "NumpyOp", "NDArrayOp"):
        from . import python_op

        return getattr(python_op, name)
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
