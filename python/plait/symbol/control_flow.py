"""Loops and branches as nodes of a graph: foreach, while_loop, cond.

The Python function is called once, with fresh variables. What it makes is cut out of
the graph around it: nodes are told apart by the attribute __subgraph_name__, which the
scope below gives to all that is made inside. What such nodes read of others becomes an
input of the node that carries the graph. Names and attributes are MXNet's.
"""

import copy

from .. import _plait
from ..attribute import AttrScope
from ..error import MXNetTypeError, MXNetValueError
from ..name import NameManager
from ._op import op, text_of
from .symbol import Group, Symbol, var

__all__ = ["foreach", "while_loop", "cond"]

_MARK = "__subgraph_name__"


def _flat(values, what):
    """(symbols of one output, form): 0 for one, n for n outputs, a list for a list."""
    if isinstance(values, Symbol):
        count = len(values)
        return (list(values), count) if count > 1 else ([values], 0)
    if not isinstance(values, (list, tuple)):
        raise MXNetTypeError(
            "%s must be a Symbol or a nested list of Symbols, not %s"
            % (what, type(values).__name__)
        )
    symbols, form = [], []
    for value in values:
        part, inner = _flat(value, what)
        symbols += part
        form.append(inner)
    return symbols, form


def _like(form, symbols):
    """The symbols nested as `form` is."""
    rest = iter(symbols)

    def build(part):
        if isinstance(part, list):
            return [build(inner) for inner in part]
        return next(rest) if part == 0 else [next(rest) for _ in range(part)]

    return build(form)


def _variable_name(symbol):
    return "%s-%s" % (symbol.name, symbol.attr("_value_index"))


def _variables(symbols):
    return [var(_variable_name(s)) for s in symbols]


def _scope(name):
    """A scope that marks what is made inside with a name that no other has."""
    outer = AttrScope._current.value._attr.get(_MARK, "")
    if outer:
        name = "%s$%s" % (outer, name)
    number = AttrScope._subgraph_names[name]
    AttrScope._subgraph_names[name] += 1
    return AttrScope(**{_MARK: "%s%d" % (name, number)})


def _graph(outputs, scope, distinct=0):
    """A group of the outputs. Those that are variables, were made outside, or (from
    number `distinct` on) have the name of an earlier one, are copied."""
    inputs = set(Group(outputs).list_inputs())
    earlier = {s.name for s in outputs[:distinct]}
    own = scope._attr[_MARK]
    copied = []
    for i, s in enumerate(outputs):
        known = inputs | earlier if i >= distinct else inputs
        mine = s.name not in known and s.list_attr().get(_MARK, "") == own
        copied.append(s if mine else op("identity")(s))
    return Group(copied)


class _NotUsed(MXNetValueError, AssertionError):
    """Data or a state that a body leaves alone; MXNet asserts that it does not."""


class _Cut:
    """A graph apart from what is around it."""

    def __init__(self, graph):
        handle, cut = graph.handle.cut_subgraph()
        self.graph = Symbol(handle)
        self.names = self.graph.list_inputs()
        if len(set(self.names)) != len(self.names):
            raise MXNetValueError(
                "control flow: the inputs of a subgraph are %s; names that differ were "
                "expected" % self.names
            )
        self.cut = {}
        for handle in cut:
            symbol = Symbol(handle)
            self.cut[symbol.list_outputs()[0]] = symbol
        self.variables = dict(zip(self.names, self.graph.handle.input_symbols()))

    def outside(self, name):
        """What the input `name` is outside: what was cut off, or a variable like it."""
        if name in self.cut:
            return self.cut[name]
        return copy.deepcopy(Symbol(self.variables[name]))


def _node(operator, graphs, inputs, **params):
    attrs = {key: text_of(value) for key, value in params.items()}
    attrs.update(AttrScope._current.value.get(None))
    name = NameManager._current.value.get(None, operator)
    handles = [s.handle for s in inputs], {}, [g.handle for g in graphs]
    return Symbol(_plait.symbol_make(operator, name, attrs, *handles))


def foreach(body, data, init_states, name="foreach"):
    """Calls body(item, states) -> (outputs, states) for each item along axis 0.

    data and states are symbols or (nested) lists of them. Returns the outputs of all
    steps, stacked along a new axis 0, and the last states. All of data and of the
    states must be used in the body.
    """
    data, data_form = _flat(data, "foreach: data")
    first, state_form = _flat(init_states, "foreach: init_states")
    scope = _scope(name)
    with scope:
        items = _like(data_form, _variables(data))
        states = _like(state_form, _variables(first))
        out, states = body(items, states)
        out, out_form = _flat(out, "foreach: outputs")
        states, form = _flat(states, "foreach: states")
        if form != state_form:
            raise MXNetValueError(
                "foreach: the body gets states of the form %s and returns %s; one form "
                "was expected" % (state_form, form)
            )
        graph = _graph(out + states, scope, len(out))
    cut = _Cut(graph)
    names = [_variable_name(s) for s in data + first]
    for used in names:
        if used not in cut.names:
            raise _NotUsed(
                "foreach: %s is not used in the body; all data and states must be"
                % used
            )
    places = [cut.names.index(used) for used in names]
    rest = [n for n in cut.names if n not in names]
    result = _node(
        "_foreach",
        [cut.graph],
        data + first + [cut.outside(n) for n in rest],
        num_outputs=len(out) + len(states),
        num_out_data=len(out),
        in_state_locs=places[len(data) :],
        in_data_locs=places[: len(data)],
        remain_locs=[cut.names.index(n) for n in rest],
    )
    results = list(result)
    return _like(out_form, results[: len(out)]), _like(state_form, results[len(out) :])


class _Inputs:
    """The inputs of several graphs, each once, and where each graph has its own."""

    def __init__(self, shared):
        self.symbols = []
        self._shared = shared  # {name: symbol} that all graphs may read
        self._places = {}

    def places(self, cut):
        """The number of each input of the graph."""
        numbers = []
        for name in cut.names:
            symbol = self._shared.get(name)
            if symbol is None:
                symbol = cut.outside(name)
            if id(symbol) not in self._places:
                self._places[id(symbol)] = len(self.symbols)
                self.symbols.append(symbol)
            numbers.append(self._places[id(symbol)])
        return numbers


def _number(value, what):
    value = value.asscalar() if hasattr(value, "asscalar") else value
    try:
        return int(value)
    except (TypeError, ValueError):
        raise MXNetValueError(
            "%s is %r; a whole number was expected" % (what, value)
        ) from None


def while_loop(cond, func, loop_vars, max_iterations=None, name="while_loop"):
    """Calls func(*loop_vars) -> (outputs, loop_vars) while cond(*loop_vars) is true, at
    most max_iterations times.

    Returns the outputs of all steps, stacked along a new axis 0 of length
    max_iterations (what no step wrote is zero), and the last loop_vars.
    """
    if max_iterations is None:
        raise MXNetValueError("while_loop: max_iterations should be specified")
    limit = _number(max_iterations, "while_loop: max_iterations")
    first, form = _flat(loop_vars, "while_loop: loop_vars")
    if not first:
        raise MXNetValueError(
            "while_loop: loop_vars should contain at least one element"
        )

    def arguments():
        values = _like(form, _variables(first))
        return [values] if isinstance(values, Symbol) else values

    scope = _scope(name + "_cond")
    with scope:
        holds = cond(*arguments())
        if not isinstance(holds, Symbol):
            raise MXNetValueError("while_loop: cond must return a Symbol")
        condition = _Cut(_graph([holds], scope))
    scope = _scope(name + "_func")
    with scope:
        out, last = func(*arguments())
        out, out_form = _flat([] if out is None else out, "while_loop: outputs")
        last, _ = _flat([] if last is None else last, "while_loop: loop_vars")
        if len(last) != len(first):
            raise MXNetValueError(
                "while_loop: func returns %d loop_vars; %d were expected, as it gets"
                % (len(last), len(first))
            )
        body = _Cut(_graph(out + last, scope))
    names = [_variable_name(s) for s in first]
    inputs = _Inputs(dict(zip(names, first)))
    condition_places, body_places = inputs.places(condition), inputs.places(body)
    for i, used in enumerate(names):
        if used not in body.names:
            raise MXNetValueError(
                "while_loop: loop_vars[%d] is not used by func; all must be" % i
            )
    result = _node(
        "_while_loop",
        [condition.graph, body.graph],
        inputs.symbols,
        max_iterations=limit,
        cond_input_locs=condition_places,
        func_input_locs=body_places,
        func_var_locs=[body.names.index(used) for used in names],
        num_out_data=len(out),
        num_outputs=len(out) + len(last),
    )
    results = list(result)
    return _like(out_form, results[: len(out)]), _like(form, results[len(out) :])


def cond(pred, then_func, else_func, name="cond"):
    """The result of then_func() where pred is true, else that of else_func(): symbols
    of the same number, shapes and dtypes."""
    cuts, forms, counts = [], [], []
    for part, func in (
        ("_pred", lambda: pred),
        ("_then", then_func),
        ("_else", else_func),
    ):
        scope = _scope(name + part)
        with scope:
            out, form = _flat(func(), "cond: outputs")
            cuts.append(_Cut(_graph(out, scope)))
        forms.append(form)
        counts.append(len(out))
    if counts[0] != 1:
        raise MXNetValueError("cond: pred should always be a single output")
    if counts[1] != counts[2]:
        raise MXNetValueError(
            "cond: then_func has %d outputs and else_func %d; as many were expected"
            % (counts[1], counts[2])
        )
    inputs = _Inputs({})
    places = []
    for cut in cuts:
        places.append(inputs.places(cut))
        # Later graphs find what this one reads by name.
        inputs._shared = {s.name: s for s in inputs.symbols}
    result = _node(
        "_cond",
        [cut.graph for cut in cuts],
        inputs.symbols,
        cond_input_locs=places[0],
        then_input_locs=places[1],
        else_input_locs=places[2],
        num_outputs=counts[1],
    )
    return _like(forms[1], list(result))
