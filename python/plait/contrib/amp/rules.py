"""The lists of operators, and what the core is told of them."""

from ...base import dtype_name
from ...error import MXNetValueError
from . import lists

__all__ = [
    "list_lp16_ops",
    "list_fp32_ops",
    "list_lp16_fp32_ops",
    "list_conditional_fp32_ops",
    "list_widest_type_cast",
    "list_loss_output_functions",
    "list_lp16_use_fp32_params",
]

_TARGETS = {"float16": 2, "bfloat16": 12}


class AmpError(MXNetValueError, AssertionError):
    """Arguments of mixed precision that do not go together."""


def target_name(dtype):
    """'float16' or 'bfloat16' of any way to say it."""
    try:
        name = dtype_name(dtype)
    except TypeError:
        name = str(dtype)
    if name not in _TARGETS:
        raise AmpError(
            "amp: target_dtype is %s; float16 or bfloat16 was expected" % (dtype,)
        )
    return name


def _lists(dtype):
    if target_name(dtype) == "float16":
        return lists.classes.FLOAT16
    return lists.classes.BFLOAT16


def list_lp16_ops(target_dtype):
    """Names of the operators that compute in the half type."""
    return list(_lists(target_dtype).low)


def list_fp32_ops(target_dtype):
    """Names of the operators that compute in float32."""
    return list(_lists(target_dtype).full)


def list_lp16_fp32_ops(target_dtype):
    """Names of the operators that compute in the dtype of their inputs."""
    return list(_lists(target_dtype).any)


def list_conditional_fp32_ops(target_dtype):
    """(operator, parameter, values) of those in float32 for these values only."""
    target_name(target_dtype)
    return list(lists.classes.CONDITIONAL)


def list_widest_type_cast(target_dtype):
    """Names of the operators that compute in the widest dtype of their inputs."""
    return list(_lists(target_dtype).widest)


def list_loss_output_functions(target_dtype):
    """Names of the operators that make a loss's gradient themselves."""
    target_name(target_dtype)
    return list(lists.classes.LOSS_OUTPUTS)


def list_lp16_use_fp32_params(target_dtype):
    """Inputs that stay float32 beside data of the half type, by operator."""
    if target_name(target_dtype) == "float16":
        return None
    return lists.symbol_bf16.BF16_USE_FP32_PARAMS


def check_ops(what, names):
    """A list of operators' names."""
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise AmpError("amp: %s is %r; a list of strings was expected" % (what, names))
    return names


def rules_of(target_dtype, low, conditional, full):
    """The rules for the core, from lists where they are given."""
    name = target_name(target_dtype)
    chosen = _lists(name)
    low = chosen.low if low is None else check_ops("target_dtype_ops", low)
    full = chosen.full if full is None else check_ops("fp32_ops", full)
    if conditional is None:
        conditional = lists.classes.CONDITIONAL
    for row in conditional:
        if len(row) != 3 or not isinstance(row[2], list):
            raise AmpError(
                "amp: conditional_fp32_ops has %r; (operator, parameter, list of "
                "values) was expected" % (row,)
            )
    return {
        "target": _TARGETS[name],
        "low": low,
        "full": full,
        "widest": chosen.widest,
        "conditions": [tuple(row) for row in conditional],
    }
