"""What happens when an operator is called with a sparse argument.

An operator of the tables below works on the parts; every other one gets dense arrays of
the same values. Results go to out= in the storage that it has.
"""

import functools
import logging
import os

from .. import _plait
from . import _sparse_dot, _sparse_math, _sparse_update
from . import _sparse_types as _types
from ._core import NDArray, op
from ._sparse_math import storage

# f(0) = 0, so the zeros need not be there.
_ON_DATA = """abs sign negative round rint ceil floor trunc fix sqrt cbrt square expm1
log1p sin tan arcsin arctan degrees radians sinh tanh arcsinh arctanh relu
erf""".split()

# For each operator the function of (arrays, params) that works on the parts, which may
# decline by None, and the rule of storage (_sparse_types).
_TABLE = {
    name: (_sparse_math.on_data(name), _types.same)
    for name in _ON_DATA
    if name in _plait.op_names()
}
_TABLE |= {
    name: (
        _sparse_math.scalar_on_data(name),
        _types.keeps_zero(_sparse_math.scalar_keeps_zero(name)),
    )
    for name in _sparse_math._SCALAR
}
_TABLE |= {
    "clip": (_sparse_math.clip, _types.keeps_zero(_sparse_math.clip_keeps_zero)),
    "_contrib_quadratic": (_sparse_math.quadratic, _sparse_math.quadratic_type),
    "zeros_like": (_sparse_math.zeros_like, _types.same),
    "_copy": (_sparse_math.copy, _types.same),
    "Cast": (_sparse_math.cast, _types.same),
    "cast_storage": (_sparse_math.cast_storage, _types.cast),
    "_sparse_retain": (_sparse_math.retain, _types.row_sparse),
    "slice": (_sparse_math.slice_csr, _types.slice_csr),
    "sum": (_sparse_math.reduced("sum"), _types.dense),
    "mean": (_sparse_math.reduced("mean"), _types.dense),
    "norm": (_sparse_math.norm, _types.dense),
    "_square_sum": (_sparse_math.square_sum, _types.square_sum),
    "elemwise_add": (_sparse_math.combine("add"), _types.alike),
    "elemwise_sub": (_sparse_math.combine("sub"), _types.alike),
    "elemwise_mul": (_sparse_math.product(False), _types.product),
    "_maximum": (_sparse_math.united("_maximum"), _types.alike),
    "_minimum": (_sparse_math.united("_minimum"), _types.alike),
    "_hypot": (_sparse_math.united("_hypot"), _types.alike),
    "_scatter_elemwise_div": (_sparse_math.scatter_div, _types.same),
    "_scatter_plus_scalar": (_sparse_math.on_data("_plus_scalar"), _types.same),
    "_scatter_minus_scalar": (_sparse_math.on_data("_minus_scalar"), _types.same),
    "broadcast_add": (_sparse_math.combine("add"), _types.dense),
    "broadcast_sub": (_sparse_math.combine("sub"), _types.dense),
    "broadcast_mul": (_sparse_math.product(True), _types.by_columns),
    "broadcast_div": (_sparse_math.divided_by_row, _types.by_columns),
    "add_n": (_sparse_math.add_n, _types.all_row_sparse),
    "Concat": (_sparse_math.concat, _types.concat),
    "take": (_sparse_math.take, _types.take),
    "where": (_sparse_math.where, _types.dense),
    "Embedding": (_sparse_math.embedding, _types.dense),
    "_contrib_SparseEmbedding": (_sparse_math.embedding, _types.dense),
    "FullyConnected": (_sparse_math.fully_connected, _types.dense),
    "dot": (_sparse_dot.dot, _types.dot),
    "BatchNorm": (_sparse_math.checked(_types.no_fixed_gamma), _types.no_fixed_gamma),
}

# Gradients on the parts: (arrays, params) to a function of the head gradients, or None.
_GRADIENTS = {
    "dot": _sparse_dot.dot_gradient,
    "Embedding": _sparse_dot.embedding_gradient,
    "_contrib_SparseEmbedding": _sparse_dot.embedding_gradient,
}

_reported = set()


def storage_type(name, stypes, params):
    """The storage of an operator's results for those of its arguments."""
    if name not in _TABLE or all(s == "default" for s in stypes):
        return _types.cast(stypes, params) if name == "cast_storage" else "default"
    return _TABLE[name][1](stypes, params)


def dense(x):
    """The dense array of the same values; recorded where x is."""
    if storage(x) == "default":
        return x
    return cast(x, "default")


def cast(x, stype):
    """x in another storage; recorded where x is."""
    if not (_plait.is_recording() and _plait.is_tracked(x)):
        return _plait.cast_storage(x, stype)
    y = _plait.cast_storage(x, stype)
    if y.stype == x.stype:  # the same array
        return x
    _plait.record_custom("cast_storage", [x], [y], lambda heads: list(heads))
    return y


def call(name, arrays, params, out):
    """Calls an operator; arrays may hold None for inputs that are not given."""
    if name in _sparse_update.LAZY_OPERATORS:
        updated = _sparse_update.call(name, arrays, params, out)
        if updated is not None:
            return updated
    given = [x for x in arrays if x is not None]
    recorded = _plait.is_recording() and any(_plait.is_tracked(x) for x in given)
    if recorded:
        result = _recorded(name, arrays, params)
    elif any(storage(x) != "default" for x in given):
        result = _computed(name, arrays, params)
    else:
        result = None
    if result is None:
        result = _fallback(name, arrays, params, out)
    return result if out is None else _assign(result, out)


def _computed(name, arrays, params):
    function, _ = _TABLE.get(name, (None, None))
    if function is None:
        return None
    recording = _plait.set_recording(False)
    try:
        ctx = params.get("ctx")
        return function(arrays, params if ctx is None else _without_ctx(params))
    finally:
        _plait.set_recording(recording)


def _without_ctx(params):
    return {key: value for key, value in params.items() if key != "ctx"}


def _recorded(name, arrays, params):
    """The result on the parts, recorded: by a gradient on the parts where there is one,
    else as a cast of what dense arrays give.
    """
    result = _computed(name, arrays, params)
    if result is None:
        return None
    gradient = _GRADIENTS.get(name)
    gradient = gradient and gradient(arrays, params)
    if gradient is not None:
        _plait.record_custom(name, arrays, [result], gradient)
        return result
    if name == "cast_storage":
        return cast(arrays[0], params["stype"])
    full = _fallback(name, arrays, params, None)
    if result.stype == "default":
        return full
    _plait.record_custom("cast_storage", [full], [result], lambda heads: list(heads))
    return result


def _fallback(name, arrays, params, out):
    if name not in _reported and os.environ.get(
        "MXNET_STORAGE_FALLBACK_LOG_VERBOSE", "1"
    ) not in ("", "0"):
        _reported.add(name)
        logging.getLogger("plait").debug("%s: sparse arrays are made dense", name)
    inputs = [None if x is None else dense(x) for x in arrays]
    while inputs and inputs[-1] is None:
        inputs.pop()
    function = op(name)
    opened = [(x, y) for x, y in zip(arrays, inputs) if x is not y and x is not None]
    target = {}
    if out is not None and not isinstance(out, (list, tuple)):
        # An array that is updated in place is an input too.
        for x, y in opened:
            if x is out or _plait.same_array(x, out):
                target = {"out": y}
    result = function(*inputs, **params, **target)
    for i in _written(name) if opened else ():  # states
        if i < len(inputs) and inputs[i] is not arrays[i]:
            _plait.assign_sparse(inputs[i], arrays[i])
    return result


@functools.cache
def _written(name):
    """The numbers of the inputs that an operator may write."""
    return tuple(_plait.op_info(name)["mutates"])


def _assign(result, out):
    targets = out if isinstance(out, (list, tuple)) else [out]
    results = result if isinstance(result, (list, tuple)) else [result]
    for value, target in zip(results, targets):
        if value is target:
            continue
        if isinstance(target, NDArray):
            _plait.assign_sparse(value, target)
    return out
