"""Traced graphs of hybridized blocks: tracing, running, composing and exporting."""

import reprlib
import warnings
import weakref

from .. import _plait
from .. import ndarray as nd
from ..base import NotImplementedForSymbol
from ..error import MXNetError, MXNetValueError
from ..ndarray._sparse_calls import dense as _dense
from ._parameter import version
from .utils import shape_is_known

_NDArray = nd.NDArray
_MOST_GRAPHS = 64  # of one block: inputs of ever new shapes must not fill the memory


class Forwarding:
    """forward() of a hybridized block whose class has a forward() of its own."""

    def __init__(self, block):
        self._block = weakref.ref(block)  # a block does not own itself

    def __call__(self, x, *args):
        block = self._block()
        return block._graph(block, x, *args)


def _is_sparse(x):
    return type(x) is not _NDArray and x.stype != "default"


class SymbolGraph:
    """A block's symbol, its parameters in the symbol's order, and the function that
    runs it.

    hybrid_forward is called once with symbols. Where it cannot take them, since it
    looks at shapes, it is called with placeholder arrays instead, for each combination
    of shapes.
    """

    runs_hybrid_forward = True

    def __init__(self):
        self._function = None
        self._staged = {}  # by storages of the block's inputs, where some are sparse
        self._traced = None  # what runs where symbols do not do
        self.inputs = None  # variables
        self.symbol = None
        self._in_format = self._out_format = None
        self._slots = None  # for each input of the symbol: a Parameter or a number
        self._places = None  # (position among the symbol's inputs, the block's input)
        # Lists of the symbol's inputs from earlier calls, without those of the block:
        # to look at hundreds of parameters takes as long as a small network.
        self._ready = []
        self._version = None  # of the parameters in the lists

    def set_symbol(self, inputs, in_format, symbol, out_format):
        """Takes a symbol that was made elsewhere."""
        self.inputs, self._in_format = inputs, in_format
        self.symbol, self._out_format = symbol, out_format

    def __call__(self, block, x, *args):
        if self._traced is not None:
            return self._traced(block, x, *args)
        part = self._function is None and _plait.is_tracing()
        if part and isinstance(x, (_NDArray, list, tuple, type(None))):
            # A part of a larger graph; its arguments need not be arrays.
            return block._forward_untraced(x, *args)
        if not args and type(x) is _NDArray and self._in_format == [0]:
            flat, sparse = (x,), False
        else:
            if (
                type(x) is not _NDArray
                and self.symbol is None
                and holds_symbol(x, args)
            ):
                return compose(block, x, args)
            flat, in_format = flatten((x, *args), "input")
            if any(not isinstance(a, (_NDArray, type(None))) for a in flat):
                return self._compose(block, x, args)
            self._check_format(block, flat, in_format)
            flat = [a for a in flat if a is not None]
            sparse = any(map(_is_sparse, flat))
        if self._function is None:
            self._prepare(block, flat, (x, *args))
            if self._traced is not None:
                return self._traced(block, x, *args)
        now = version()
        if self._version != now:
            self._ready, self._version = [], now
        ready = self._ready
        try:
            arrays = ready.pop()  # at once: nobody else has it then
        except IndexError:
            arrays = self._parameters()
            if arrays is None:
                ready, arrays = None, self._arrays_on(flat)
        for place, i in self._places:
            arrays[place] = flat[i]
        function = self._staged_function(block, flat) if sparse else self._function
        outputs = function(arrays)
        if ready is not None:
            for place, _ in self._places:
                arrays[place] = None
            ready.append(arrays)
        if self._out_format == 0:
            return outputs[0]
        return regroup(outputs, self._out_format)

    def _check_format(self, block, flat, in_format):
        if self._in_format is not None and in_format != self._in_format:
            raise MXNetValueError(
                "%s: Invalid input format %s: the hybridized block was first called "
                "with the structure %s (0 is an array, -1 None); the same was expected"
                % (block.name, in_format, self._in_format)
            )

    def _parameters(self):
        """The symbol's inputs but for those of the block; None where a parameter is
        on several contexts, or not made yet.
        """
        arrays = []
        for slot in self._slots:
            arrays.append(None if type(slot) is int else slot._array)
            if arrays[-1] is None and type(slot) is not int:
                return None
        return arrays

    def _arrays_on(self, flat):
        """The inputs where parameters are on several contexts, or not made yet."""
        ctx = flat[0].context
        return [
            flat[slot] if type(slot) is int else slot.data(ctx) for slot in self._slots
        ]

    # Tracing.

    def _prepare(self, block, flat, args):
        places = {a.context for a in flat if a.context.device_type != "cpu_pinned"}
        if len(places) > 1:
            raise MXNetValueError(
                "%s: inputs are on %s; one context was expected"
                % (block.name, " and ".join(sorted(map(str, places))))
            )
        try:
            self.build(block, args)
        except (NotImplementedForSymbol, AttributeError, TypeError):
            # Not a matter of symbols alone, perhaps: then this says what is wrong.
            self._traced = TracedForward()
            self._in_format = None
            return
        symbol = self.symbol
        places = {v.name: i for i, v in enumerate(self.inputs)}
        params = {p.name: p for p in block.collect_params().values()}
        slots = []
        for name in symbol.list_inputs():
            if name in places:
                slots.append(places[name])
            elif name in params:
                slots.append(params[name])
            else:
                raise MXNetValueError(
                    "%s: the traced graph has the variable %s, which is neither an "
                    "input nor a parameter of the block" % (block.name, name)
                )
        self._finish_params(block, flat, [s for s in slots if type(s) is not int])
        self._slots = slots
        self._places = [(i, s) for i, s in enumerate(slots) if type(s) is int]
        self.make_function(block)

    def make_function(self, block):
        """Makes what runs the symbol; again after hooks were added."""
        self._staged = {}
        if block._op_hook is None:
            slots = zip(self.symbol.list_inputs(), self._slots)
            self._sparse_grads = {
                name
                for name, slot in slots
                if type(slot) is not int and slot._grad_stype != "default"
            }
            self._function = self._graph_function(block, {})
        else:
            self._function = WatchedFunction(self.symbol, block.name, *block._op_hook)

    def _graph_function(self, block, stypes):
        """Runs the symbol, in stages where something is sparse."""
        if stypes or self._sparse_grads:
            from ..symbol.staged import StagedFunction, is_staged

            if is_staged(self.symbol, stypes, self._sparse_grads):
                return StagedFunction(
                    self.symbol, stypes, self._sparse_grads, block.name
                )
        return _plait.graph_function(self.symbol.handle, block.name)

    def _staged_function(self, block, flat):
        """The same for inputs of these storages."""
        stypes = tuple(a.stype for a in flat)
        if block._op_hook is not None:
            return lambda arrays: self._function([_dense(a) for a in arrays])
        if stypes not in self._staged:
            names = [v.name for v in self.inputs]
            named = dict(zip(names, stypes))
            self._staged[stypes] = self._graph_function(block, named)
        return self._staged[stypes]

    def build(self, block, args):
        """Makes the symbol from sample arguments, if there is none yet."""
        if self.symbol is not None:
            return
        from .. import symbol

        flat, in_format = flatten(args, "input")
        count = sum(a is not None for a in flat)
        if count == 0:
            raise MXNetValueError(
                "%s: all inputs are None; an NDArray was expected" % block.name
            )
        names = iter(["data"] if count == 1 else ["data%d" % i for i in range(count)])
        variables = [None if a is None else symbol.var(next(names)) for a in flat]
        grouped = regroup(variables, in_format)
        out = compose(block, grouped[0], grouped[1:])
        outputs, self._out_format = flatten(out, "output")
        self._in_format = in_format
        self.inputs = [v for v in variables if v is not None]
        self.symbol = symbol.Group(outputs)

    def _finish_params(self, block, flat, params):
        """Makes parameters whose shapes follow from those of the inputs."""
        deferred = [p for p in params if p._data is None and p._deferred_init]
        if not deferred:
            return
        known = {v.name: a.shape for v, a in zip(self.inputs, flat)}
        args, _, aux = self.symbol.infer_shape_partial(**known)
        shapes = dict(zip(self.symbol.list_arguments(), args))
        shapes.update(zip(self.symbol.list_auxiliary_states(), aux))
        for param in deferred:
            shape = shapes[param.name]
            if not shape or not shape_is_known(shape):
                raise MXNetValueError(
                    "%s: the shape %s of Parameter '%s' does not follow from the "
                    "inputs; give the parameter its full shape"
                    % (block.name, shape, param.name)
                )
            param.shape = shape
            param._finish_deferred_init()

    def _compose(self, block, x, args):
        if self.symbol is None:
            return compose(block, x, args)
        flat, in_format = flatten((x, *args), "input")
        self._check_format(block, flat, in_format)
        named = {v.name: s for v, s in zip(self.inputs, flat)}
        return regroup(list(self.symbol(**named)), self._out_format)


class WatchedFunction:
    """A graph function that shows what its operators give, and perhaps read."""

    def __init__(self, symbol, name, callback, inputs):
        watched, self._names = _plait.watched_symbol(symbol.handle, inputs)
        self._function = _plait.graph_function(watched, name)
        self._count = len(symbol.handle)
        self._callback = callback

    def __call__(self, arrays):
        values = self._function(arrays)
        for (name, op), value in zip(self._names, values[self._count :]):
            self._callback(name, op, value)
        return values[: self._count]


class TracedForward:
    """Graphs of a block's Python code, traced with placeholder arrays: one for each
    combination of shapes, dtypes and mode. Code may look at shapes, not at values."""

    symbol = None
    runs_hybrid_forward = False

    def __init__(self):
        self._graphs = {}

    def __call__(self, block, x, *args):
        if _plait.is_tracing():
            return block._forward_untraced(x, *args)
        try:
            flat, in_format = flatten((x, *args), "input")
        except MXNetValueError:  # forward() takes what it likes
            return block._forward_untraced(x, *args)
        arrays = [a for a in flat if a is not None]
        if any(not isinstance(a, _NDArray) or _is_sparse(a) for a in arrays):
            return block._forward_untraced(x, *args)
        key = (
            str(in_format),
            _plait.is_training(),
            *((a.shape, a._dtype_name) for a in arrays),
        )
        if key not in self._graphs:
            if len(self._graphs) == _MOST_GRAPHS:
                self._graphs.pop(next(iter(self._graphs)))
            self._graphs[key] = self._trace(block, flat, in_format, (x, *args))
        function, slots, out_format = self._graphs[key]
        if function is None:
            return block._forward_untraced(x, *args)
        ctx = arrays[0].context
        inputs = arrays + [s if type(s) is _NDArray else s.data(ctx) for s in slots]
        outputs = function(inputs)
        return outputs[0] if out_format == 0 else regroup(outputs, out_format)

    def _trace(self, block, flat, in_format, args):
        """(function, parameters or arrays beside the inputs, structure of outputs)."""
        from .. import autograd

        params = list(block.collect_params().values())
        if any(p._data is None and p._deferred_init for p in params):
            with autograd.pause(autograd.is_training()):
                block._forward_untraced(*args)  # finds their shapes
        ctx = next(a for a in flat if a is not None).context
        trace = _plait.Trace()
        try:
            inputs = [
                None if a is None else trace.input("data%d" % i, a)
                for i, a in enumerate(flat)
            ]
            grouped = regroup(inputs, in_format)
            out = block._forward_untraced(*grouped)
            outputs, out_format = flatten(out, "output")
            function, captured = trace.finish(outputs, block.name)
        except MXNetError as error:
            if "while a graph is traced" not in str(error):
                raise
            warnings.warn(
                "%s: forward() needs values and runs as it is, without a graph: %s"
                % (block.name, error),
                stacklevel=5,
            )
            return None, None, None
        finally:
            trace.abandon()
        slots = []
        for array in captured:
            owner = None
            for p in params:
                if p._data is not None and _plait.same_array(array, p.data(ctx)):
                    owner = p
            slots.append(array if owner is None else owner)
        return function, slots, out_format


def compose(block, x, args):
    """The symbol that `block` makes of symbol inputs; others may be of any type but
    arrays."""
    from .. import symbol

    flat = list(_leaves((x, *args)))
    if not any(isinstance(a, (symbol.Symbol, type(None))) for a in flat):
        flatten((x, *args), "input")  # says what is wrong
    if any(isinstance(a, _NDArray) for a in flat):
        raise MXNetValueError(
            "%s: got %s; NDArrays or Symbols were expected, not both"
            % (block.name, ", ".join(type(a).__name__ for a in flat))
        )
    if all(a is None for a in flat):
        raise MXNetValueError(
            "%s: all inputs are None; an NDArray or Symbol was expected" % block.name
        )
    params = {name: param.var() for name, param in block._reg_params.items()}
    with block.name_scope():
        return block.hybrid_forward(symbol, x, *args, **params)


def export(block, path, epoch, remove_amp_cast):
    """Writes the traced graph and its parameters."""
    graph = block._graph
    if graph is None or graph.symbol is None:
        raise RuntimeError(
            "Please first call block.hybridize() and then run forward with this block "
            "at least once before calling export."
        )
    graph.symbol.save("%s-symbol.json" % path, remove_amp_cast=remove_amp_cast)
    arguments = set(graph.symbol.list_arguments())
    auxiliary = set(graph.symbol.list_auxiliary_states())
    arrays = {}
    for param in block.collect_params().values():
        if param.name in arguments:
            arrays["arg:" + param.name] = param._reduce()
        elif param.name in auxiliary:
            arrays["aux:" + param.name] = param._reduce()
    nd.save("%s-%04d.params" % (path, epoch), arrays)


def check_no_symbol(block, value):
    """Throws where a value, or one in nested lists, is a symbol among arrays."""
    from ..symbol import Symbol  # later: most programs have no symbols

    if isinstance(value, (list, tuple)):
        for item in value:
            check_no_symbol(block, item)
    elif isinstance(value, Symbol):
        raise MXNetValueError(
            "%s: got arrays and the symbol %s; either arrays or symbols were expected"
            % (block.name, value.name)
        )


def first_array(x, args):
    """The first NDArray among nested inputs, or None."""
    for value in (x,) + tuple(args):
        if isinstance(value, nd.NDArray):
            return value
        if isinstance(value, (list, tuple)):
            found = first_array(None, value)
            if found is not None:
                return found
    return None


def holds_symbol(x, args):
    """Whether there is a symbol among nested arguments."""
    from ..symbol import Symbol

    return any(isinstance(a, Symbol) for a in _leaves((x, *args)))


def _leaves(args):
    for arg in args:
        if isinstance(arg, (list, tuple)):
            yield from _leaves(arg)
        else:
            yield arg


def flatten(args, what):
    """(list of arrays or symbols, structure): 0 stands for one, n > 0 for a symbol of n
    outputs, -1 for None, a list for a list."""
    from ..symbol import Symbol

    if isinstance(args, _NDArray):
        return [args], 0
    if isinstance(args, Symbol):
        count = len(args)
        return [args], count if count > 1 else 0
    if args is None:
        return [None], -1
    if not isinstance(args, (list, tuple)):
        raise MXNetValueError(
            "When hybridized, the %s of HybridBlock must be (nested) list of Symbol or "
            "NDArray, but got %s of type %s" % (what, reprlib.repr(args), type(args))
        )
    flat, structure = [], []
    for arg in args:
        items, inner = flatten(arg, what)
        flat.extend(items)
        structure.append(inner)
    return flat, structure


def regroup(flat, structure):
    """The nested structure that flatten() took apart."""
    items = iter(flat)

    def build(inner):
        if isinstance(inner, list):
            return [build(i) for i in inner]
        if inner > 0:
            return [next(items) for _ in range(inner)]
        return next(items)

    return build(structure)
