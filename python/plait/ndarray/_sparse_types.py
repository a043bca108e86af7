"""Rules of storage: (storages of the arguments, params) to that of the results."""

import ast

from ..error import MXNetNotImplementedError


def same(stypes, params):
    """That of the first argument."""
    return stypes[0]


def dense(stypes, params):
    """Dense, by a function of the parts or not."""
    return "default"


def keeps_zero(function):
    """That of the argument where function(params) says that zeros stay zeros."""
    return lambda stypes, params: stypes[0] if function(params) else "default"


def cast(stypes, params):
    return params.get("stype") or "default"


def row_sparse(stypes, params):
    return "row_sparse"


def alike(stypes, params):
    """That of all arguments, where they have the same."""
    return stypes[0] if len(set(stypes)) == 1 else "default"


def product(stypes, params):
    """The sparse one's where dense meets sparse."""
    kinds = set(stypes)
    if len(kinds) == 1:
        return stypes[0]
    return "default" if "default" not in kinds else (kinds - {"default"}).pop()


def by_columns(stypes, params):
    """csr with a dense row."""
    return "csr" if stypes == ["csr", "default"] else "default"


def all_row_sparse(stypes, params):
    return alike(stypes, params) if stypes[0] == "row_sparse" else "default"


def concat(stypes, params):
    rows = int(params.get("dim", 1)) == 0
    return alike(stypes, params) if rows and stypes[0] == "csr" else "default"


def take(stypes, params):
    plain = int(params.get("axis", 0)) == 0 and params.get("mode") != "raise"
    return "csr" if plain and stypes[0] == "csr" else "default"


def slice_csr(stypes, params):
    step = params.get("step") or ()
    step = step if isinstance(step, (tuple, list)) else (step,)
    plain = all(s in (None, 1) for s in step)
    return "csr" if plain and stypes[0] == "csr" else "default"


def square_sum(stypes, params):
    axis = params.get("axis")
    axis = axis[0] if isinstance(axis, (tuple, list)) and len(axis) == 1 else axis
    rows = axis in (1, -1) and params.get("keepdims")
    return "row_sparse" if rows and stypes[0] == "row_sparse" else "default"


def dot(stypes, params):
    left, wanted = bool(params.get("transpose_a")), params.get("forward_stype")
    right = bool(params.get("transpose_b"))
    if wanted is not None:
        return wanted
    if stypes[0] == "csr" and stypes[1] != "csr" and not right:
        return "row_sparse" if left else "default"
    if stypes == ["default", "csr"] and not left:
        return "default" if right else "csr"
    return "default"


def first_if_sparse(stypes, params):
    """That of the first argument, by whose stored values the results are."""
    return stypes[0]


def no_fixed_gamma(stypes, params):
    """Batch norm is dense; with fix_gamma it does not take sparse arrays, as MXNet."""
    if params.get("fix_gamma", True) and any(s != "default" for s in stypes):
        raise MXNetNotImplementedError(
            "BatchNorm: fix_gamma=True with sparse arrays is not supported; "
            "fix_gamma=False, or x.tostype('default'), was expected"
        )
    return "default"


def parameters(attributes):
    """Values of a node's attributes, which are texts."""
    values = {}
    for key, text in attributes.items():
        if key.startswith("__"):
            continue
        try:
            values[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            values[key] = text
    return values
