"""StagedGraph: a symbol some of whose values are sparse, run in stages.

Operators that work on sparse arrays are called one by one, as imperative code calls
them; the others are compiled graphs. The tape joins them.
"""

import json

from .. import _plait
from ..ndarray import NDArray
from ..ndarray._core import op as _function
from ..ndarray._sparse_calls import dense, storage_type
from ..ndarray._sparse_types import parameters

_KINDS = {"0": "default", "1": "row_sparse", "2": "csr"}

# Operators that give a row_sparse gradient to an argument by its place.
_SPARSE_GRADIENTS = {"Embedding": 1, "_contrib_SparseEmbedding": 1, "dot": 1}


class _Node:
    def __init__(self, raw):
        self.op, self.name = raw["op"], raw["name"]
        self.attributes = raw.get("attrs", {})
        self.inputs = [(i, k) for i, k, *_ in raw["inputs"]]
        self.raw = raw

    is_variable = property(lambda self: self.op == "null")


class _Graph:
    """The nodes of a symbol, in order, and the storage of what they give."""

    def __init__(self, symbol, stypes):
        graph = json.loads(symbol.tojson(remove_amp_cast=False))
        self.nodes = [_Node(raw) for raw in graph["nodes"]]
        self.heads = [(i, k) for i, k, *_ in graph["heads"]]
        self.stypes = []  # of a node's results: one text, or a list of them
        for node in self.nodes:
            self.stypes.append(self._infer(node, stypes))

    def _infer(self, node, given):
        if node.is_variable:
            asked = _KINDS.get(node.attributes.get("__storage_type__"), "default")
            return given.get(node.name) or asked
        inputs = [self.stype(entry) for entry in node.inputs]
        if node.op == "Custom":
            from ..operator import storage_of_results

            return storage_of_results(node.attributes, inputs)
        return storage_type(node.op, inputs, parameters(node.attributes))

    def stype(self, entry):
        found = self.stypes[entry[0]]
        return found if isinstance(found, str) else found[entry[1]]

    def is_sparse(self, node, i):
        """Whether a node reads or gives sparse arrays."""
        stypes = self.stypes[i]
        results = [stypes] if isinstance(stypes, str) else stypes
        inputs = [self.stype(entry) for entry in node.inputs]
        return any(s != "default" for s in [*results, *inputs])


def inferred(symbol, stypes):
    """({variable: storage}, [storage of each output])."""
    graph = _Graph(symbol, stypes)
    variables = {
        node.name: graph.stypes[i]
        for i, node in enumerate(graph.nodes)
        if node.is_variable
    }
    return variables, [graph.stype(head) for head in graph.heads]


def sparse_gradients(symbol, stypes):
    """Names of the variables whose gradients are row_sparse unless said otherwise: of
    row_sparse storage, and weights of embeddings as sparse_grad says.
    """
    graph = _Graph(symbol, stypes)
    found = {
        node.name
        for i, node in enumerate(graph.nodes)
        if node.is_variable and graph.stypes[i] == "row_sparse"
    }
    for node in graph.nodes:
        if node.op == "Embedding":
            weight = graph.nodes[node.inputs[1][0]].name
            sparse = parameters(node.attributes).get("sparse_grad", False)
            (found.add if sparse else found.discard)(weight)
        elif node.op == "_contrib_SparseEmbedding":
            found.add(graph.nodes[node.inputs[1][0]].name)
    return found


def is_staged(symbol, stypes, sparse_grads):
    """Whether a graph has to be run in stages: something in it is sparse, or can make
    a row_sparse gradient that is asked for.
    """
    graph = _Graph(symbol, stypes)
    return any(
        not node.is_variable
        and (graph.is_sparse(node, i) or _makes_sparse(graph, node, sparse_grads))
        for i, node in enumerate(graph.nodes)
    )


def _makes_sparse(graph, node, sparse_grads):
    place = _SPARSE_GRADIENTS.get(node.op)
    if place is None or place >= len(node.inputs):
        return False
    return graph.nodes[node.inputs[place][0]].name in sparse_grads


class StagedGraph:
    """Runs a symbol; calls are recorded as those of operators are.

    stypes: storage of its inputs by name; sparse_grads: names of those whose gradient
    is row_sparse. out_stypes: of the outputs. each: no compiled graphs, for monitors.
    """

    def __init__(self, symbol, stypes, sparse_grads=(), name="graph", each=False):
        self._graph = graph = _Graph(symbol, stypes)
        self.out_stypes = [graph.stype(head) for head in graph.heads]
        levels, self._stages = [], []
        grouped = {}
        for i, node in enumerate(graph.nodes):
            level = max([levels[k] for k, _ in node.inputs], default=0)
            if not node.is_variable:
                called = (
                    each
                    or graph.is_sparse(node, i)
                    or _makes_sparse(graph, node, sparse_grads)
                )
                level += (level % 2 == 0) if called else level % 2
                grouped.setdefault(level, []).append(i)
            levels.append(level)
        for level in sorted(grouped):
            if level % 2:
                self._stages += [self._call(i) for i in grouped[level]]
            else:
                self._stages.append(self._compiled(grouped[level], name))

    def __call__(self, arrays, watch=None):
        """The outputs for {name: array}; watch(name, array) sees what operators give
        one by one.
        """
        values = {}
        for i, node in enumerate(self._graph.nodes):
            if node.is_variable:
                values[i, 0] = arrays[node.name]
        for stage in self._stages:
            stage(values, watch)
        return [values[head] for head in self._graph.heads]

    def _call(self, i):
        node = self._graph.nodes[i]
        params = parameters(node.attributes)
        if node.op == "Custom":
            from ..operator import Custom as function

            params = {k: v for k, v in node.attributes.items() if k[:2] != "__"}
        else:
            function = _function(node.op)

        def call(values, watch):
            results = function(*[values[entry] for entry in node.inputs], **params)
            results = [results] if isinstance(results, NDArray) else results
            for k, result in enumerate(results):
                values[i, k] = result
                if watch is not None:
                    watch(node.name + _output_name(len(results), k), result)

        return call

    def _compiled(self, members, name):
        """A stage of dense operators, as one function."""
        from .symbol import load_json

        graph = self._graph
        nodes, places, cut = [], {}, {}

        def place_of(entry):
            k, index = entry
            if k in places and not graph.nodes[k].is_variable:
                return [places[k], index, 0]
            if entry not in cut:
                node = graph.nodes[k]
                label = node.name if node.is_variable else "_cut%d_%d" % entry
                cut[entry] = (len(nodes), label)
                raw = {"op": "null", "name": label, "inputs": []}
                nodes.append(dict(node.raw, name=label) if node.is_variable else raw)
            return [cut[entry][0], 0, 0]

        for i in members:
            node = graph.nodes[i]
            inputs = [place_of(entry) for entry in node.inputs]
            places[i] = len(nodes)
            nodes.append(dict(node.raw, inputs=inputs))
        inside = set(members)
        wanted = [
            entry
            for k, node in enumerate(graph.nodes)
            if k not in inside
            for entry in node.inputs
            if entry[0] in inside
        ]
        wanted += [head for head in graph.heads if head[0] in inside]
        wanted = list(dict.fromkeys(wanted))
        text = json.dumps(
            {
                "nodes": nodes,
                "arg_nodes": [i for i, _ in cut.values()],
                "heads": [[places[k], index, 0] for k, index in wanted],
                "attrs": {"mxnet_version": ["int", 10901]},
            }
        )
        symbol = load_json(text)
        function = _plait.graph_function(symbol.handle, name)
        entries = {label: entry for entry, (_, label) in cut.items()}
        inputs = [entries[label] for label in symbol.list_inputs()]

        def run(values, watch):
            results = function([dense(values[entry]) for entry in inputs])
            values.update(zip(wanted, results))

        return run


class StagedFunction:
    """As the core's graph functions: a list of arrays to a list of outputs."""

    def __init__(self, symbol, stypes, sparse_grads, name):
        self._names = symbol.list_inputs()
        self._graph = StagedGraph(symbol, stypes, sparse_grads, name)

    def __call__(self, arrays):
        return self._graph(dict(zip(self._names, arrays)))


def _output_name(count, k):
    return "_output" if count == 1 else "_output%d" % k
