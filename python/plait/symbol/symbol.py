"""Symbol: a declarative graph, and the functions that make one."""

import json
import warnings

import numpy as np

from .. import _plait
from ..attribute import AttrScope
from ..base import NotImplementedForSymbol
from ..context import current_context
from ..error import MXNetError, MXNetOSError, MXNetTypeError, MXNetValueError
from ..name import NameManager
from ..ndarray._core import dtype_name
from ..ndarray.ndarray import _DTYPE_MX_TO_NP, _DTYPE_NP_TO_MX
from ..util import is_np_shape
from . import _methods
from ._op import attribute_text, op, text_of
from .backends import check_backend

__all__ = ["Symbol", "var", "Variable", "Group", "load", "load_json", "fromjson"]

_HIDEABLE = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")


def _dtype_number(dtype):
    """MXNet's number of a dtype."""
    try:
        return _DTYPE_NP_TO_MX[np.dtype(dtype).type]
    except (KeyError, TypeError):
        names = {"bfloat16": 12}
        name = dtype_name(dtype)
        if name in names:
            return names[name]
        raise MXNetTypeError("dtype: %r is not known" % (dtype,)) from None


class Symbol:
    """One or more outputs of a graph of operators over named variables.

    Symbols are made by var() and the functions of plait.sym; operators such as + need
    equal shapes (use broadcast_add and its like for others). Calling a symbol replaces
    variables: net(data=other).
    """

    __slots__ = ("handle",)
    __array_priority__ = 1000.0

    def __init__(self, handle):
        self.handle = handle

    # Outputs.

    def __repr__(self):
        name = self.name
        if name is None:
            heads = ", ".join(dict.fromkeys(self.handle.head_names()))
            return "<%s group [%s]>" % (type(self).__name__, heads)
        return "<%s %s>" % (type(self).__name__, name)

    def __len__(self):
        return len(self.handle)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index):
        count = len(self)
        if isinstance(index, slice):
            return Group([self[i] for i in range(*index.indices(count))])
        if isinstance(index, str):
            places = [i for i, n in enumerate(self.list_outputs()) if n == index]
            if len(places) != 1:
                raise MXNetValueError(
                    "symbol: %s outputs are named %r; exactly one of %s was expected"
                    % (len(places) or "no", index, self.list_outputs()[:10])
                )
            index = places[0]
        if not isinstance(index, (int, np.integer)):
            raise MXNetTypeError(
                "symbol: the index is %s; an int or a name of an output was expected"
                % type(index).__name__
            )
        if index >= count or index < -count:
            raise IndexError(
                "symbol: output %d is out of range for %d outputs" % (index, count)
            )
        return Symbol(self.handle.output(int(index) % count))

    @property
    def name(self):
        """The name of the node; None for outputs of several nodes."""
        names = self.handle.head_names()
        return names[0] if names and self.handle.one_head() else None

    def get_internals(self):
        """All outputs of all nodes, variables included."""
        return Symbol(self.handle.internals())

    def get_children(self):
        """The inputs of the head nodes, or None for variables."""
        children = self.handle.children()
        return Symbol(children) if len(children) else None

    def list_arguments(self):
        """The names of the variables, but for auxiliary states."""
        return self.handle.list_arguments()

    def list_outputs(self):
        """The names of the outputs."""
        return self.handle.list_outputs()

    def list_auxiliary_states(self):
        """The names of the variables that operators write: moving averages."""
        return self.handle.list_auxiliary_states()

    def list_inputs(self):
        """The names of all variables."""
        return self.handle.list_inputs()

    # Composition.

    def __call__(self, *args, **kwargs):
        name = kwargs.pop("name", None)
        if args and kwargs:
            raise MXNetTypeError(
                "compose: got symbols by position and by name; one way was expected"
            )
        for value in (*args, *kwargs.values()):
            if not isinstance(value, Symbol):
                raise MXNetTypeError(
                    "compose: got %s; a Symbol was expected" % type(value).__name__
                )
        if name:
            name = NameManager._current.value.get(name, "")
        return Symbol(
            self.handle.compose(
                name or "",
                [a.handle for a in args],
                {k: v.handle for k, v in kwargs.items()},
            )
        )

    def __copy__(self):
        return Symbol(_plait.symbol_from_json(self.handle.to_json()))

    def __deepcopy__(self, _):
        return self.__copy__()

    def __getstate__(self):
        return {"handle": self.tojson(remove_amp_cast=False)}

    def __setstate__(self, state):
        self.handle = _plait.symbol_from_json(state["handle"])

    def __reduce__(self):
        return load_json, (self.tojson(remove_amp_cast=False),)

    # Attributes.

    def attr(self, key):
        """The attribute `key` of the node as a string, or None."""
        if key == "_value_index":
            return str(self.handle.head_index())
        attrs = self.handle.attrs()
        if key in _HIDEABLE:
            key = "__%s__" % key
        return attrs.get(key)

    def list_attr(self, recursive=False):
        """The attributes of the node."""
        if recursive:
            raise DeprecationWarning(
                "Symbol.list_attr with recursive=True has been deprecated. "
                "Please use attr_dict instead."
            )
        return _with_plain_keys(self.handle.attrs())

    def attr_dict(self):
        """{node name: attributes} of all nodes that have some."""
        return {
            name: _with_plain_keys(attrs)
            for name, attrs in self.handle.attr_list()
            if attrs
        }

    def _set_attr(self, **kwargs):
        for key, value in kwargs.items():
            if not isinstance(value, str):
                raise MXNetValueError("Set Attr only accepts string values")
            self.handle.set_attr(key, value)

    # Inference.

    def infer_shape(self, *args, **kwargs):
        """(argument shapes, output shapes, auxiliary shapes) from known shapes of
        arguments, by position or name; (None, None, None) when they do not decide all.

        0 in a shape is an unknown size; with NumPy's shapes (plait.util.set_np_shape)
        -1 is, and None an unknown shape.
        """
        result, missing = self._infer_shapes(args, kwargs)
        if missing is None:
            return result
        warnings.warn(
            "Cannot decide shape for the following arguments (0s in shape means "
            "unknown dimensions). Consider providing them as input:\n\t%s" % missing,
            stacklevel=2,
        )
        return (None, None, None)

    def infer_shape_partial(self, *args, **kwargs):
        """infer_shape that gives what is known: 0 for sizes and () for shapes that are
        not, or -1 and None with NumPy's shapes.
        """
        return self._infer_shapes(args, kwargs)[0]

    def _infer_shapes(self, args, kwargs):
        known = self._known(args, kwargs, "infer_shape")
        shapes, numpy_shapes = {}, is_np_shape()
        for name, shape in known.items():
            if not isinstance(shape, (tuple, list)):
                raise MXNetTypeError(
                    "infer_shape: the shape of %s is %r; a tuple was expected"
                    % (name, shape)
                )
            if numpy_shapes:
                shapes[name] = tuple(int(s) for s in shape)
            elif len(shape):
                shapes[name] = tuple(-1 if s == 0 else int(s) for s in shape)
        inputs, outputs, _, _ = self.handle.infer(shapes, {}, True)
        shown = _numpy_shape if numpy_shapes else _legacy
        split = self._split([shown(shape) for shape, _ in inputs])
        result = (split[0], [shown(shape) for shape, _ in outputs], split[1])
        undecided = [
            "%s: %s" % (name, shown(shape))
            for name, (shape, _) in zip(self.list_inputs(), inputs)
            if shape is None or -1 in shape
        ]
        complete = not undecided and all(
            shape is not None and -1 not in shape for shape, _ in outputs
        )
        return result, None if complete else "\n\t".join(undecided[:10])

    def infer_type(self, *args, **kwargs):
        """(argument, output, auxiliary) dtypes from known dtypes of arguments."""
        inputs, outputs = self._infer_types(args, kwargs, True)
        if None in inputs[0] or None in outputs:
            return (None, None, None)
        return (inputs[0], outputs, inputs[1])

    def infer_type_partial(self, *args, **kwargs):
        """infer_type that gives None for what is not known."""
        inputs, outputs = self._infer_types(args, kwargs, False)
        return (inputs[0], outputs, inputs[1])

    def infer_storage_type(self, **kwargs):
        """(argument, output, auxiliary) storage types ('default', 'row_sparse', 'csr')
        from those of variables, by name; others have what they were made with.
        """
        from .staged import inferred

        known = self._known((), kwargs, "infer_storage_type")
        variables, outputs = inferred(self, known)
        args, aux = self._split([variables[name] for name in self.list_inputs()])
        return args, outputs, aux

    def _infer_types(self, args, kwargs, default_types):
        known = self._known(args, kwargs, "infer_type")
        numbers = {name: _dtype_number(t) for name, t in known.items()}
        inputs, outputs, _, _ = self.handle.infer({}, numbers, default_types)
        types = [_DTYPE_MX_TO_NP[n] for _, n in inputs]
        return self._split(types), [_DTYPE_MX_TO_NP[n] for _, n in outputs]

    def _known(self, args, kwargs, what):
        if args and kwargs:
            raise MXNetValueError(
                "%s: got arguments by position and by name; one way was expected" % what
            )
        if not args:
            names = set(self.list_inputs())
            for name in kwargs:
                if name not in names:
                    raise MXNetValueError(
                        "%s: there is no variable %r; one of %s was expected"
                        % (what, name, sorted(names)[:20])
                    )
            return {k: v for k, v in kwargs.items() if v is not None}
        return {
            name: v for name, v in zip(self.list_arguments(), args) if v is not None
        }

    def _split(self, values):
        """Values of all inputs as (of arguments, of auxiliary states)."""
        auxiliary = set(self.list_auxiliary_states())
        named = list(zip(self.list_inputs(), values))
        return (
            [v for n, v in named if n not in auxiliary],
            [v for n, v in named if n in auxiliary],
        )

    # Files.

    def tojson(self, remove_amp_cast=True):
        """The graph as MXNet's JSON text."""
        symbol = self._without_casts() if remove_amp_cast else self
        return symbol.handle.to_json(is_np_shape())

    def save(self, fname, remove_amp_cast=True):
        """Writes the JSON text to a file, whole or not at all."""
        if not isinstance(fname, str):
            raise TypeError("fname need to be string")
        _plait.write_file(fname, self.tojson(remove_amp_cast).encode())

    def _without_casts(self):
        text = self.handle.to_json()
        if '"op": "amp_' not in text:
            return self
        graph = json.loads(text)
        from ._amp import remove_casts

        return Symbol(_plait.symbol_from_json(json.dumps(remove_casts(graph))))

    def debug_str(self):
        """The nodes as text."""
        lines = ["Symbol Outputs:"]
        for i, (name, output) in enumerate(
            zip(self.handle.head_names(), self.list_outputs())
        ):
            lines.append("\toutput[%d]=%s(%s)" % (i, name, output))
        graph = json.loads(self.handle.to_json())
        for node in graph["nodes"]:
            if node["op"] == "null":
                lines.append("Variable:%s" % node["name"])
                continue
            lines += [
                "-" * 20,
                "Op:%s, Name=%s" % (node["op"], node["name"]),
                "Inputs:",
            ]
            for i, (source, index, version) in enumerate(node["inputs"]):
                lines.append(
                    "\targ[%d]=%s(%d) version=%d"
                    % (i, graph["nodes"][source]["name"], index, version)
                )
            if node.get("attrs"):
                lines.append("Attrs:")
                lines += ["\t%s=%s" % item for item in node["attrs"].items()]
        return "\n".join(lines) + "\n"

    # Running.

    def bind(
        self,
        ctx,
        args,
        args_grad=None,
        grad_req="write",
        aux_states=None,
        group2ctx=None,
        shared_exec=None,
    ):
        """An Executor over the given arrays; see plait.executor.bind."""
        from .. import executor

        return executor.bind(
            self, ctx, args, args_grad, grad_req, aux_states, group2ctx, shared_exec
        )

    def simple_bind(
        self,
        ctx,
        grad_req="write",
        type_dict=None,
        stype_dict=None,
        group2ctx=None,
        shared_arg_names=None,
        shared_exec=None,
        shared_buffer=None,
        **kwargs,
    ):
        """An Executor over new arrays of inferred shapes; see
        plait.executor.simple_bind."""
        from .. import executor

        return executor.simple_bind(
            self,
            ctx,
            grad_req,
            type_dict,
            stype_dict,
            group2ctx,
            shared_arg_names,
            shared_exec,
            shared_buffer,
            kwargs,
        )

    def memory_plan(self, is_train=True, grad_req="write", type_dict=None, **kwargs):
        """Bytes that the values between inputs and outputs need when the symbol is
        bound to arguments of the given shapes, by strategy of the planner: a dict of
        "none", "inplace", "co_share", "both", the "lower_bound" (the largest set of
        values alive at once), and "unfused": none, with a value for each operator.
        Allocates no arrays."""
        from .memory_plan import memory_plan

        return memory_plan(self, is_train, grad_req, type_dict, kwargs)

    def eval(self, ctx=None, **kwargs):
        """The outputs for the given arrays."""
        return self.bind(ctx or current_context(), kwargs).forward()

    def gradient(self, wrt):
        """Not offered, as in MXNet; bind() with gradients computes them."""
        raise MXNetError(
            "gradient: symbols of gradients are not offered; use bind() and backward()"
        )

    def optimize_for(
        self,
        backend,
        args=None,
        aux=None,
        ctx=None,
        shape_dict=None,
        type_dict=None,
        stype_dict=None,
        skip_infer=False,
        **kwargs,
    ):
        """The symbol itself: Plait optimizes every graph when it is bound."""
        check_backend("optimize_for", backend)
        return self

    def _gen_atomic_symbol(self):
        """The head's operator with its parameters, over new variables."""
        return Symbol(self.handle.atomic())

    def get_backend_symbol(self, backend):
        """The symbol itself; see optimize_for."""
        check_backend("get_backend_symbol", backend)
        return self

    # What MXNet's Symbol has for the sake of other front ends.

    def as_np_ndarray(self):
        """Symbols of the NumPy interface come with a later release."""
        from ..error import NotYetError

        raise NotYetError("as_np_ndarray: plait.np comes with a later release")

    def as_nd_ndarray(self):
        """The symbol itself."""
        return self

    def __bool__(self):
        raise NotImplementedForSymbol(self.__bool__, "bool")

    __nonzero__ = __bool__

    __hash__ = object.__hash__


def _numpy_shape(shape):
    return None if shape is None else tuple(shape)


def _legacy(shape):
    return () if shape is None else tuple(0 if s < 0 else s for s in shape)


def _with_plain_keys(attrs):
    """Attributes with the user's words under both spellings."""
    result = {}
    for key, value in attrs.items():
        result[key] = value
        if key[2:-2] in _HIDEABLE and key.startswith("__"):
            result[key[2:-2]] = value
    return result


_methods.install(Symbol, op)


def var(
    name,
    attr=None,
    shape=None,
    lr_mult=None,
    wd_mult=None,
    dtype=None,
    init=None,
    stype=None,
    **kwargs,
):
    """A variable: a place that bind() or a call fills. Shape (0: unknown size), dtype
    and initializer are hints for inference and Module; further attributes are written
    `__x__`."""
    if not isinstance(name, str):
        raise TypeError("Expect a string for variable `name`")
    attr = {
        "__%s__" % key if key in _HIDEABLE else key: attribute_text(value)
        for key, value in AttrScope._current.value.get(attr).items()
    }
    if shape is not None:
        sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
        attr["__shape__"] = str(tuple(int(s) for s in sizes))
    if lr_mult is not None:
        attr["__lr_mult__"] = str(lr_mult)
    if wd_mult is not None:
        attr["__wd_mult__"] = str(wd_mult)
    if dtype is not None:
        attr["__dtype__"] = str(_dtype_number(dtype))
    if init is not None:
        attr["__init__"] = attribute_text(init)
    if stype is not None:
        kinds = {"default": 0, "row_sparse": 1, "csr": 2}
        attr["__storage_type__"] = str(kinds[stype])
    for key, value in kwargs.items():
        if not (key.startswith("__") and key.endswith("__")):
            raise MXNetValueError(
                "Attribute name=%s is not supported. Additional attributes must start "
                "and end with double underscores, e.g, __yourattr__" % key
            )
        attr[key] = text_of(value)
    return Symbol(_plait.symbol_variable(name, attr))


Variable = var


def Group(symbols, create_fn=Symbol):
    """One symbol with the outputs of all."""
    symbols = list(symbols)
    if not symbols or any(not isinstance(s, Symbol) for s in symbols):
        raise TypeError("Expected a list of symbols as input")
    return create_fn(_plait.symbol_group([s.handle for s in symbols]))


def load(fname):
    """The symbol of a JSON file, of MXNet 0.7 to 1.9 or of Plait."""
    if not isinstance(fname, str):
        raise TypeError("fname need to be string")
    try:
        with open(fname, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise MXNetOSError("symbol: %s cannot be read: %s" % (fname, error)) from None
    try:
        return load_json(text)
    except MXNetError as error:
        raise type(error)("%s: %s" % (fname, error)) from None


def load_json(json_str):
    """The symbol of a JSON text."""
    if not isinstance(json_str, str):
        raise TypeError("fname required to be string")
    return Symbol(_plait.symbol_from_json(json_str))


fromjson = load_json
