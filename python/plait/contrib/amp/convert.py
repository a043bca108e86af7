"""Trained networks of float32, converted to mixed precision."""

from ... import _plait
from ...base import dtype_name
from ...error import MXNetRuntimeError, MXNetTypeError
from ...module import BucketingModule
from ...ndarray.ndarray import _DTYPE_MX_TO_NP
from ...symbol import Symbol
from .rules import (
    AmpError,
    check_ops,
    list_conditional_fp32_ops,
    list_fp32_ops,
    list_lp16_fp32_ops,
    list_lp16_ops,
    rules_of,
)

__all__ = [
    "convert_symbol",
    "convert_model",
    "convert_hybrid_block",
    "convert_bucketing_module",
]


def convert_symbol(
    sym,
    target_dtype="float16",
    target_dtype_ops=None,
    fp32_ops=None,
    conditional_fp32_ops=None,
    excluded_sym_names=None,
    data_names=None,
    cast_optional_params=False,
):
    """The symbol with amp_cast and amp_multicast where operators need them.

    target_dtype_ops, fp32_ops, conditional_fp32_ops replace the default lists;
    excluded_sym_names are nodes that stay float32. Variables out of data_names (by
    default all that do not say their dtype) stay float32; the others say by __dtype__
    what they are now. With cast_optional_params, parameters that only a cast would read
    are of the half type themselves.
    """
    if not isinstance(sym, Symbol):
        raise AmpError(
            "convert_symbol: got %s; a Symbol was expected" % type(sym).__name__
        )
    rules = rules_of(target_dtype, target_dtype_ops, conditional_fp32_ops, fp32_ops)
    _check_lists(rules, target_dtype)
    attrs = sym.attr_dict()
    if data_names is None:
        data_names = [
            name for name in sym.list_inputs() if "__dtype__" not in attrs.get(name, {})
        ]
    rules["data"] = list(data_names)
    rules["excluded"] = check_ops("excluded_sym_names", excluded_sym_names or [])
    rules["cast_params"] = bool(cast_optional_params)
    return Symbol(_plait.reduce_precision(sym.handle, rules))


def _check_lists(rules, target_dtype):
    """Each operator has one precision, and one that fits it."""
    conditional = [row[0] for row in rules["conditions"]]
    groups = {
        "target_dtype_ops": rules["low"],
        "fp32_ops": rules["full"],
        "conditional_fp32_ops": conditional,
    }
    names = list(groups)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            common = set(groups[first]) & set(groups[second])
            if common:
                raise AmpError(
                    "amp: %s in both %s and %s; each operator in one list was expected"
                    % (sorted(common), first, second)
                )
    allowed = set(list_lp16_ops(target_dtype))
    allowed.update(list_fp32_ops(target_dtype), list_lp16_fp32_ops(target_dtype))
    allowed.update(row[0] for row in list_conditional_fp32_ops(target_dtype))
    wrong = set().union(*groups.values()) - allowed
    if wrong:
        raise AmpError(
            "amp: %s cannot be put into a list; names out of list_lp16_ops, "
            "list_fp32_ops, list_lp16_fp32_ops and list_conditional_fp32_ops were "
            "expected" % sorted(wrong)
        )


def _stated_dtypes(sym):
    """Name -> dtype name of the variables that say one."""
    stated = {}
    for name, attrs in sym.attr_dict().items():
        number = int(attrs.get("__dtype__", -1))
        if number >= 0:
            dtype = "bfloat16" if number == 12 else _DTYPE_MX_TO_NP[number]
            stated[name] = dtype_name(dtype)
    return stated


def convert_model(
    sym,
    arg_params,
    aux_params,
    target_dtype="float16",
    target_dtype_ops=None,
    fp32_ops=None,
    conditional_fp32_ops=None,
    excluded_sym_names=None,
    cast_optional_params=False,
):
    """(symbol, arg_params, aux_params) of a model of float32, in mixed precision; see
    convert_symbol. The dicts are the given ones, with the arrays that changed."""
    for what, value in (("arg_params", arg_params), ("aux_params", aux_params)):
        if not isinstance(value, dict):
            raise AmpError(
                "convert_model: %s is %s; a dict of name to NDArray was expected"
                % (what, type(value).__name__)
            )
    if not isinstance(sym, Symbol):
        raise AmpError(
            "convert_model: got %s; a Symbol was expected" % type(sym).__name__
        )
    params = {*arg_params, *aux_params}
    converted = convert_symbol(
        sym,
        target_dtype,
        target_dtype_ops,
        fp32_ops,
        conditional_fp32_ops,
        excluded_sym_names,
        [name for name in sym.list_inputs() if name not in params],
        cast_optional_params,
    )
    for name, dtype in _stated_dtypes(converted).items():
        for arrays in (arg_params, aux_params):
            if name in arrays:
                arrays[name] = arrays[name].astype(dtype, copy=False)
    return converted, arg_params, aux_params


def convert_hybrid_block(
    block,
    target_dtype="float16",
    target_dtype_ops=None,
    fp32_ops=None,
    conditional_fp32_ops=None,
    excluded_sym_names=None,
    ctx=None,
    cast_optional_params=False,
):
    """A SymbolBlock that computes what a hybridized block does, in mixed precision; see
    convert_symbol. The block must have run once. ctx: None is where its parameters are.
    """
    from ...gluon import HybridBlock, SymbolBlock

    if not isinstance(block, HybridBlock):
        raise MXNetTypeError(
            "convert_hybrid_block: got %s; a HybridBlock was expected"
            % type(block).__name__
        )
    graph = block.__dict__.get("_graph")
    if graph is None or graph.symbol is None:
        raise MXNetRuntimeError(
            "convert_hybrid_block: the block has no graph; call hybridize() and run it "
            "once on arrays first"
        )
    converted = convert_symbol(
        graph.symbol,
        target_dtype,
        target_dtype_ops,
        fp32_ops,
        conditional_fp32_ops,
        excluded_sym_names,
        [v.name for v in graph.inputs],
        cast_optional_params,
    )
    stated = _stated_dtypes(converted)
    auxiliary = set(converted.list_auxiliary_states())
    arrays, places = {}, None
    for name, param in block.collect_params().items():
        kind = "aux:" if name in auxiliary else "arg:"
        array = param._reduce()
        arrays[kind + name] = array.astype(stated.get(name, array.dtype), copy=False)
        places = places or param.list_ctx()
    result = SymbolBlock(converted, graph.inputs)
    for name, param in result.collect_params().items():
        if name in stated and dtype_name(param.dtype) != stated[name]:
            param.cast(stated[name])
    result.collect_params().load_dict(arrays, ctx=ctx or places)
    return result


def convert_bucketing_module(
    bucketing_mod,
    target_dtype="float16",
    target_dtype_ops=None,
    fp32_ops=None,
    conditional_fp32_ops=None,
    excluded_sym_names=None,
    cast_optional_params=False,
):
    """The module with all its buckets' symbols in mixed precision; see convert_model.
    Bind it before use."""
    if not isinstance(bucketing_mod, BucketingModule):
        raise AmpError(
            "convert_bucketing_module: got %s; a BucketingModule was expected"
            % type(bucketing_mod).__name__
        )
    if not bucketing_mod._buckets or not bucketing_mod.params_initialized:
        raise AmpError(
            "convert_bucketing_module: the module has no buckets or parameters yet; "
            "bind and initialize it first"
        )
    arg_params, aux_params = bucketing_mod.get_params()
    arg_params, aux_params = dict(arg_params), dict(aux_params)
    symbols = {}
    for key, module in bucketing_mod._buckets.items():
        symbols[key], arg_params, aux_params = convert_model(
            module._symbol,
            arg_params,
            aux_params,
            target_dtype,
            target_dtype_ops,
            fp32_ops,
            conditional_fp32_ops,
            excluded_sym_names,
            cast_optional_params,
        )
    return BucketingModule.load_dict(
        symbols,
        sym_gen=bucketing_mod._sym_gen,
        arg_params=arg_params,
        aux_params=aux_params,
        default_bucket_key=bucketing_mod._default_bucket_key,
        **bucketing_mod._settings,
    )
