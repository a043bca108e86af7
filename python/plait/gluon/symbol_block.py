"""SymbolBlock: a block made of a symbol, such as an exported network."""

from .. import symbol as sym
from ..error import MXNetError, MXNetValueError
from .block import HybridBlock
from .graph import SymbolGraph, flatten
from .parameter import ParameterDict

__all__ = ["SymbolBlock"]


class SymbolBlock(HybridBlock):
    """A block that computes `outputs` (a symbol, or a list of them) from the variables
    `inputs`; all other variables become parameters, named as in the symbol."""

    @staticmethod
    def imports(
        symbol_file,
        input_names,
        param_file=None,
        ctx=None,
        allow_missing=False,
        ignore_extra=False,
    ):
        """The network of a JSON file, with the parameters of a .params file."""
        symbol = sym.load(symbol_file)
        names = [input_names] if isinstance(input_names, str) else input_names
        dtype = "float32" if param_file is None else None
        block = SymbolBlock(symbol, [sym.var(name, dtype=dtype) for name in names])
        if param_file is not None:
            block.collect_params().load(
                param_file,
                ctx,
                allow_missing,
                ignore_extra,
                cast_dtype=True,
                dtype_source="saved",
            )
        return block

    def __init__(self, outputs, inputs, params=None):
        super().__init__(prefix=None, params=None)
        own = self.__dict__
        own["_prefix"] = ""
        own["_empty_prefix"] = True
        own["_params"] = ParameterDict("", params)
        if isinstance(inputs, sym.Symbol) and len(inputs) == 1:
            inputs = [inputs]
        if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
            outputs = outputs[0]
        variables, in_format = flatten(inputs, "input")
        heads, out_format = flatten(outputs, "output")
        for v in variables:
            if not v.handle.is_variable():
                raise AssertionError(
                    "Input symbols must be variable, but %s is an output of operators"
                    % v
                )
        symbol = sym.Group(heads) if len(heads) > 1 else heads[0]
        for name, attributes in symbol.attr_dict().items():
            if attributes.get("__storage_type__", "0") not in ("0", "-1"):
                raise AssertionError(
                    "SymbolBlock: the variable %s asks for sparse storage, which "
                    "blocks of symbols do not have" % name
                )
        self._make_params(symbol, variables)
        graph = SymbolGraph()
        graph.set_symbol(variables, in_format, symbol, out_format)
        own["_graph"] = graph
        own["_active"] = True

    def _make_params(self, symbol, variables):
        inputs = {v.name for v in variables}
        known = {}
        for v in variables:
            number = v.attr("__dtype__")
            if number is not None:
                known[v.name] = v.infer_type()[0][0]
        try:
            types, _, aux_types = symbol.infer_type(**known)
        except MXNetError:
            types = None
        arguments, auxiliary = symbol.list_arguments(), symbol.list_auxiliary_states()
        if types is None:
            types, aux_types = (
                ["float32"] * len(arguments),
                ["float32"] * len(auxiliary),
            )
        for name, dtype in zip(arguments, types):
            if name not in inputs:
                self.params.get(name, allow_deferred_init=True, dtype=dtype)
        for name, dtype in zip(auxiliary, aux_types):
            if name not in inputs:
                self.params.get(
                    name, grad_req="null", allow_deferred_init=True, dtype=dtype
                )
        prefix = _common_prefix(list(self._params.keys()))
        self.__dict__["_reg_params"] = {
            key[len(prefix) :]: value for key, value in self._params.items()
        }

    def __repr__(self):
        graph = self._graph
        return "%s(\n%s : %d -> %d\n)" % (
            type(self).__name__,
            graph.symbol,
            len(graph.inputs),
            len(graph.symbol),
        )

    def _clear_cached_op(self):
        """Parameters changed: the symbol stays, what was made of it does not."""
        old = self.__dict__.get("_graph")
        if old is not None:
            graph = SymbolGraph()
            graph.set_symbol(old.inputs, old._in_format, old.symbol, old._out_format)
            self.__dict__["_graph"] = graph

    def forward(self, x, *args):
        return self._graph(self, x, *args)

    def reset_ctx(self, ctx):
        """Moves all parameters to other devices."""
        for param in self.collect_params().values():
            param.reset_ctx(ctx)

    def cast(self, dtype):
        super().cast(dtype)
        if str(dtype) not in ("float16", "<class 'numpy.float16'>"):
            return
        # Statistics of BatchNorm are float32 beside float16 data.
        for name in self._params:
            for end in ("running_var", "moving_var"):
                if not name.endswith(end):
                    continue
                stem, kind = name[: -len(end)], end.split("_")[0]
                for part in ("%s_var" % kind, "%s_mean" % kind, "gamma", "beta"):
                    if stem + part in self._params:
                        self._params[stem + part].cast("float32")

    def hybrid_forward(self, F, x, *args, **kwargs):
        raise MXNetValueError(
            "SymbolBlock: it runs its symbol; hybrid_forward() is not used"
        )


def _common_prefix(names):
    if not names:
        return ""
    first, last = min(names), max(names)
    for i, char in enumerate(first):
        if i >= len(last) or char != last[i]:
            return first[:i]
    return first
