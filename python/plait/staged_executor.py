"""What an Executor runs where something of its graph is sparse: stages on the tape."""

from . import _plait, autograd
from . import ndarray as nd
from .error import MXNetNotImplementedError
from .symbol.staged import StagedGraph, is_staged

_REQUESTS = {0: "null", 1: "write", 3: "add"}


def is_sparse(array):
    """Whether an array, or None, is sparse."""
    return array is not None and array.stype != "default"


def handle_for(symbol, names, arrays, grads, requests):
    """A StagedHandle where the graph has to be run in stages, else None."""
    sparse_grads = {n for n, g in zip(names, grads) if is_sparse(g)}
    given = sparse_grads or any(map(is_sparse, arrays))
    if not given and not _makes_sparse(symbol):
        return None
    stypes = {name: array.stype for name, array in zip(names, arrays)}
    if not is_staged(symbol, stypes, sparse_grads):
        return None
    return StagedHandle(symbol, names, arrays, grads, requests, stypes, sparse_grads)


def _makes_sparse(symbol):
    """Whether an operator's parameters ask for sparse results of dense arguments."""
    return any(
        not attributes.keys().isdisjoint(("stype", "forward_stype", "op_type"))
        for _, attributes in symbol.handle.attr_list()
    )


class StagedHandle:
    """As the core's handle of an executor."""

    def __init__(self, symbol, names, arrays, grads, requests, stypes, sparse_grads):
        self._symbol, self._names = symbol, names
        self._arrays, self._grads = arrays, grads
        self._requests = [_REQUESTS[r] for r in requests]
        self._trains = any(r != "null" for r in self._requests)
        self._states = set(symbol.list_auxiliary_states())
        self._graph_of = lambda each: StagedGraph(
            symbol, stypes, sparse_grads, each=each
        )
        self._graph = self._graph_of(False)
        self._watch = None
        self._results = None  # recorded ones
        self._outputs = self._empty_outputs()

    def _empty_outputs(self):
        arrays = dict(zip(self._names, self._arrays))
        _, shapes, _ = self._symbol.infer_shape(
            **{name: x.shape for name, x in arrays.items()}
        )
        _, dtypes, _ = self._symbol.infer_type(
            **{name: x.dtype for name, x in arrays.items()}
        )
        where = self._arrays[0].context if self._arrays else None
        return [
            nd.zeros(shape, where, dtype, stype=stype)
            for shape, dtype, stype in zip(shapes, dtypes, self._graph.out_stypes)
        ]

    def outputs(self):
        """The same arrays after each forward()."""
        return self._outputs

    def forward(self, is_train):
        """Computes the outputs."""
        results = self._run(is_train, is_train and self._trains)
        with autograd.pause():
            for result, output in zip(results, self._outputs):
                _plait.assign_sparse(result, output)

    def _run(self, is_train, record):
        inputs, opened = {}, []
        for name, array, grad, request in zip(
            self._names, self._arrays, self._grads, self._requests
        ):
            if name in self._states:
                if is_sparse(array):
                    opened.append((array, array.tostype("default")))
                    array = opened[-1][1]
            else:
                array = array.detach()
                if record and grad is not None:
                    _plait.attach_grad(array, grad, request)
            inputs[name] = array
        scope = autograd.record if record else autograd.pause
        with scope(train_mode=is_train):
            results = self._graph(inputs, self._watch)
        for array, values in opened:
            values.copyto(array)
        self._results = results if record else None
        return results

    def backward(self, heads):
        """Computes the gradients; ones are taken for heads that are not given."""
        if not self._trains:
            return
        if self._results is None:
            self._run(True, True)
        # The tape lets go of what it holds: weights with all rows can then be updated
        # in place. Another backward() computes forward again.
        results, self._results = self._results, None
        tracked = [y for y in results if _plait.is_tracked(y)]
        if not tracked:
            return
        heads = [h for h, y in zip(heads, results) if _plait.is_tracked(y)]
        autograd.backward(tracked, heads or None)

    def set_monitor(self, callback, inputs):
        """Calls callback(name, array) for what operators give, one by one."""
        self._watch = callback
        self._graph = self._graph_of(callback is not None)

    def share_kept(self, other):
        """There is nothing to share."""

    def plan_sizes(self, is_train):
        """Stages plan their own memory."""
        raise MXNetNotImplementedError(
            "memory_plan: the graph has sparse values and is run in stages, which have "
            "no common plan"
        )

    def debug_text(self):
        """The storage of the outputs."""
        return "Graph in stages; outputs: %s" % ", ".join(self._graph.out_stypes)
