"""Loops and branches over arrays, run by Python: foreach, while_loop, cond.

Their `name` is for symbols alone, and taken so that one call serves both.
"""

from ..error import MXNetTypeError, MXNetValueError
from ._core import NDArray
from ._core import op as _op

__all__ = ["foreach", "while_loop", "cond"]

_stack = _op("stack")


def _flat(values, where):
    """The arrays of nested lists, in order; None has none."""
    if values is None:
        return []
    if isinstance(values, NDArray):
        return [values]
    if isinstance(values, (list, tuple)):
        return [x for item in values for x in _flat(item, where)]
    raise MXNetTypeError(
        "%s must be an NDArray or a nested list of NDArrays, not %s"
        % (where, type(values).__name__)
    )


def _like(form, arrays):
    """The arrays nested as `form` is; tuples become lists."""
    rest = iter(arrays)

    def build(part):
        if isinstance(part, NDArray):
            return next(rest)
        return [] if part is None else [build(item) for item in part]

    return build(form)


def _stacked(steps, form, pad=0):
    """Each output of all steps along a new axis 0, with `pad` zero steps at its end."""
    columns = []
    for column in zip(*steps):
        if any(x.shape != column[0].shape for x in column):
            raise MXNetValueError(
                "loop: an output has shapes %s; one shape in all steps was expected"
                % sorted({x.shape for x in column})
            )
        zeros = [_op("zeros_like")(column[0])] * pad
        columns.append(_stack(*column, *zeros, axis=0))
    return _like(form, columns)


def foreach(body, data, init_states, name=None):
    """Calls body(item, states) -> (outputs, states) for each item along axis 0.

    data and states are arrays or (nested) lists of them. Returns the outputs of all
    steps, stacked along a new axis 0, and the last states.
    """
    arrays = _flat(data, "foreach: data")
    _flat(init_states, "foreach: init_states")
    if not arrays or len({x.shape[0] for x in arrays}) != 1:
        raise MXNetValueError(
            "foreach: data has shapes %s; at least one array, and one length of axis 0 "
            "were expected" % [x.shape for x in arrays]
        )
    states, steps, form = init_states, [], []
    for i in range(arrays[0].shape[0]):
        form, states = body(_like(data, [x[i] for x in arrays]), states)
        steps.append(_flat(form, "foreach: outputs"))
        if len(steps[-1]) != len(steps[0]):
            raise MXNetValueError(
                "foreach: step %d has %d outputs; %d as in the first were expected"
                % (i, len(steps[-1]), len(steps[0]))
            )
    return _stacked(steps, form), states


def _truth(value, where):
    value = value.asscalar() if isinstance(value, NDArray) else value
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise MXNetValueError(
            "%s: %r is neither true nor false" % (where, value)
        ) from None


def while_loop(cond, func, loop_vars, max_iterations=None, name=None):
    """Calls func(*loop_vars) -> (outputs, loop_vars) while cond(*loop_vars) is true.

    Returns the outputs of all steps, stacked along a new axis 0 of length
    max_iterations (what no step wrote is zero), and the last loop_vars. Where cond is
    false at once there are no outputs: an empty list.
    """
    if max_iterations is None:
        raise MXNetValueError("while_loop: max_iterations should be specified")
    limit = int(_scalar(max_iterations))
    single = isinstance(loop_vars, NDArray)
    current = [loop_vars] if single else list(loop_vars)
    count = len(_flat(current, "while_loop: loop_vars"))
    if count == 0:
        raise MXNetValueError(
            "while_loop: loop_vars should contain at least one element"
        )
    steps, form = [], []
    while len(steps) < limit and _truth(cond(*current), "while_loop: cond"):
        form, current = func(*current)
        current = [current] if isinstance(current, NDArray) else list(current or [])
        if len(_flat(current, "while_loop: loop_vars")) != count:
            raise MXNetValueError(
                "while_loop: func returns %d loop_vars; %d were expected, as it gets"
                % (len(_flat(current, "while_loop: loop_vars")), count)
            )
        steps.append(_flat(form, "while_loop: outputs"))
        if len(steps[-1]) != len(steps[0]):
            raise MXNetValueError(
                "while_loop: a step has %d outputs; %d as in the first were expected"
                % (len(steps[-1]), len(steps[0]))
            )
    outputs = _stacked(steps, form, limit - len(steps)) if steps else []
    return outputs, current[0] if single else current


def _scalar(value):
    return value.asscalar() if isinstance(value, NDArray) else value


def cond(pred, then_func, else_func, name=None):
    """The result of then_func() where pred is true, else that of else_func()."""
    return then_func() if _truth(pred, "cond: pred") else else_func()
