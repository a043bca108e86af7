"""Checks of symbols: values and gradients against expected ones, finite differences,
and other devices or dtypes.
"""

import time

import numpy as np

from .. import ndarray as nd
from ..error import MXNetTypeError, MXNetValueError, check
from .compare import assert_almost_equal
from .tolerance import default_context, default_numeric_eps, get_tolerance, get_tols

__all__ = [
    "numeric_grad",
    "check_symbolic_forward",
    "check_symbolic_backward",
    "simple_forward",
    "check_consistency",
    "check_speed",
    "same_symbol_structure",
]

_FLOATS = (np.float16, np.float32, np.float64)


def is_symbol(value):
    """Whether a value is a Symbol (and not a function of arrays)."""
    return hasattr(value, "list_arguments")


def _array(value, ctx, dtype):
    """An NDArray; dtype "asnumpy": that of the value."""
    if isinstance(value, nd.NDArray):
        return value
    value = np.asarray(value)
    return nd.array(value, ctx=ctx, dtype=value.dtype if dtype == "asnumpy" else dtype)


def _named(what, names, values, ctx, dtype):
    """A dict of arrays, in the order of names, from a dict or a list of values."""
    if not isinstance(values, dict):
        values = dict(zip(names, values))
    elif set(values) != set(names):
        raise MXNetValueError(
            "%s of the symbol are %s; got %s" % (what, sorted(names), sorted(values))
        )
    return {n: _array(values[n], ctx, dtype) for n in names if n in values}


def _inputs(sym, location, aux_states, ctx, dtype):
    """(arguments, auxiliary states or None), as dicts of NDArrays."""
    check(
        dtype == "asnumpy" or dtype in _FLOATS,
        "dtype is %r; expected a float type, or 'asnumpy'",
        dtype,
    )
    arguments = _named("arguments", sym.list_arguments(), location, ctx, dtype)
    if aux_states is not None:
        names = sym.list_auxiliary_states()
        aux_states = _named("auxiliary states", names, aux_states, ctx, dtype)
    return arguments, aux_states


def simple_forward(sym, ctx=None, is_train=False, **inputs):
    """The outputs of a symbol as NumPy arrays: one, or a list of several."""
    arguments = {name: nd.array(value) for name, value in inputs.items()}
    executor = sym.bind(ctx or default_context(), args=arguments)
    executor.forward(is_train=is_train)
    outputs = [out.asnumpy() for out in executor.outputs]
    return outputs[0] if len(outputs) == 1 else outputs


def numeric_grad(
    executor,
    location,
    aux_states=None,
    eps=1e-4,
    use_forward_train=True,
    dtype=np.float32,
):
    """Gradients, by name, of the sum of an executor's first output, by central
    differences at `location`, a dict of NumPy arrays.
    """

    def set_argument(name, value):
        array = nd.array(value, dtype=dtype)
        target = executor.arg_dict[name]
        target[:] = array if target.stype == "default" else array.tostype(target.stype)

    def output():
        for name, value in (aux_states or {}).items():
            executor.aux_dict[name][:] = value
        executor.forward(is_train=use_forward_train)
        return executor.outputs[0].asnumpy()

    gradients = {}
    points = {name: np.array(value, order="C") for name, value in location.items()}
    for name, point in points.items():
        set_argument(name, point)
    for name, point in points.items():
        gradient = gradients[name] = np.zeros(point.shape, dtype=dtype)
        if point.dtype.kind != "f":
            continue
        for place in np.ndindex(*point.shape):
            middle, ends = point[place], []
            for step in (eps / 2.0, -eps / 2.0):
                point[place] = middle + step
                set_argument(name, point)
                ends.append(output())
            point[place] = middle
            gradient[place] = (ends[0] - ends[1]).sum() / eps
        set_argument(name, point)
    return gradients


def check_numeric_gradient_of_symbol(
    sym,
    location,
    aux_states,
    numeric_eps,
    rtol,
    atol,
    grad_nodes,
    use_forward_train,
    ctx,
    grad_stype_dict,
    dtype,
):
    """check_numeric_gradient() for symbols: a random projection of the output."""
    from .. import symbol

    ctx = ctx or default_context()
    location, aux_states = _inputs(sym, location, aux_states, ctx, dtype)
    if grad_nodes is None:
        grad_nodes = sym.list_arguments()
    requests = (
        grad_nodes
        if isinstance(grad_nodes, dict)
        else (dict.fromkeys(grad_nodes, "write"))
    )
    points = {name: array.asnumpy() for name, array in location.items()}
    states = aux_states and {name: a.asnumpy() for name, a in aux_states.items()}
    _, shapes, _ = sym.infer_shape(**{n: p.shape for n, p in points.items()})
    projection = symbol.Variable("__random_proj")
    executor_of = symbol.make_loss(sym * projection)
    weights = np.random.rand(*shapes[0]) + 0.1
    arguments = {**location, "__random_proj": nd.array(weights, ctx=ctx, dtype=dtype)}
    before = {n: np.random.normal(0, 0.01, arguments[n].shape) for n in requests}
    gradients = {
        n: nd.zeros(g.shape, ctx, dtype, stype=(grad_stype_dict or {}).get(n))
        if (grad_stype_dict or {}).get(n, "default") != "default"
        else nd.array(g, ctx=ctx, dtype=dtype)
        for n, g in before.items()
    }
    executor = executor_of.bind(
        ctx,
        args=arguments,
        args_grad=gradients,
        grad_req=dict(requests),
        aux_states=aux_states,
    )
    executor.forward(is_train=True)
    check(len(executor.outputs) == 1, "check_numeric_gradient: one output is wanted")
    eps = get_tolerance(executor.outputs[0], numeric_eps, default_numeric_eps())
    executor.backward()
    found = {n: gradients[n].asnumpy() for n in requests}
    numeric = numeric_grad(executor, points, states, eps, use_forward_train, dtype)
    for name, request in requests.items():
        labels = ("NUMERICAL_%s" % name, "BACKWARD_%s" % name)
        _check_request(
            name, request, numeric[name], before[name], found[name], rtol, atol, labels
        )


def _check_request(
    name, request, expected, before, found, rtol, atol, labels, equal_nan=False
):
    """Compares a gradient with what its request leaves: written, added or nothing."""
    if request == "add":
        found = found.asnumpy() if isinstance(found, nd.NDArray) else found
        found = found - before.astype(found.dtype)
    elif request == "null":
        expected = before
    elif request != "write":
        raise MXNetValueError(
            "grad_req of %s is %r; expected 'write', 'add' or 'null'" % (name, request)
        )
    assert_almost_equal(expected, found, rtol, atol, labels, equal_nan=equal_nan)


def check_symbolic_forward(
    sym,
    location,
    expected,
    rtol=None,
    atol=None,
    aux_states=None,
    ctx=None,
    equal_nan=False,
    dtype=np.float32,
):
    """Asserts the values of a symbol's outputs; gives them.

    location: the arguments, a list or a dict; expected: likewise the outputs.
    """
    ctx = ctx or default_context()
    location, aux_states = _inputs(sym, location, aux_states, ctx, dtype)
    names = sym.list_outputs()
    if isinstance(expected, dict):
        expected = [expected[name] for name in names]
    gradients = {n: nd.zeros(a.shape, ctx, a.dtype) for n, a in location.items()}
    executor = sym.bind(
        ctx=ctx, args=location, args_grad=gradients, aux_states=aux_states
    )
    executor.forward(is_train=False)
    for name, value, out in zip(names, expected, executor.outputs):
        labels = ("EXPECTED_%s" % name, "FORWARD_%s" % name)
        assert_almost_equal(value, out, rtol, atol, labels, equal_nan=equal_nan)
    return executor.outputs


def check_symbolic_backward(
    sym,
    location,
    out_grads,
    expected,
    rtol=None,
    atol=None,
    aux_states=None,
    grad_req="write",
    ctx=None,
    grad_stypes=None,
    equal_nan=False,
    dtype=np.float32,
):
    """Asserts the gradients of a symbol's arguments for those of its outputs; gives a
    dict of them.
    """
    ctx = ctx or default_context()
    location, aux_states = _inputs(sym, location, aux_states, ctx, dtype)
    names = sym.list_arguments()
    if not isinstance(expected, dict):
        expected = dict(zip(names, expected))
    before = {n: np.random.normal(size=expected[n].shape) for n in sorted(expected)}
    gradients = {}
    for name, value in before.items():
        kind = expected[name].dtype if dtype == "asnumpy" else dtype
        stype = (grad_stypes or {}).get(name) or "default"
        gradients[name] = (
            nd.array(value, ctx=ctx, dtype=kind)
            if stype == "default"
            else nd.zeros(value.shape, ctx, kind, stype=stype)
        )
    if isinstance(grad_req, str):
        grad_req = dict.fromkeys(names, grad_req)
    elif isinstance(grad_req, (list, tuple)):
        grad_req = dict(zip(names, grad_req))
    executor = sym.bind(
        ctx=ctx,
        args=location,
        args_grad=gradients,
        aux_states=aux_states,
        grad_req=grad_req,
    )
    executor.forward(is_train=True)
    if isinstance(out_grads, dict):
        out_grads = {n: _array(g, ctx, dtype) for n, g in out_grads.items()}
    elif out_grads is not None:
        out_grads = [_array(g, ctx, dtype) for g in out_grads]
    executor.backward(out_grads)
    for name, value in expected.items():
        labels = ("EXPECTED_%s" % name, "BACKWARD_%s" % name)
        _check_request(
            name, grad_req[name], value, before[name], gradients[name], rtol, atol,
            labels, equal_nan,
        )  # fmt: skip
    return gradients


def check_speed(
    sym, location=None, ctx=None, N=20, grad_req=None, typ="whole", **kwargs
):
    """Seconds of one forward and backward pass (typ="whole") or forward pass
    (typ="forward"), the mean of N. Without location, kwargs are the shapes.
    """
    if typ not in ("whole", "forward"):
        raise MXNetValueError(
            "check_speed: typ is %r; expected 'whole' or 'forward'" % (typ,)
        )
    if location is not None:
        if not isinstance(location, dict):
            raise MXNetTypeError(
                "check_speed: location is a %s; expected a dict"
                % type(location).__name__
            )
        kwargs = {name: value.shape for name, value in location.items()}
    executor = sym.simple_bind(
        ctx=ctx or default_context(), grad_req=grad_req or "write", **kwargs
    )
    for name, array in executor.arg_dict.items():
        value = (location or {}).get(name)
        if location is None:
            value = np.random.normal(size=array.shape)
        if value is not None:
            array[:] = value.astype(array.dtype)

    def step():
        executor.forward(is_train=typ == "whole")
        if typ == "whole":
            executor.backward(out_grads=executor.outputs)

    step()
    nd.waitall()
    begin = time.time()
    for _ in range(N):
        step()
    nd.waitall()
    return (time.time() - begin) / N


def same_symbol_structure(sym1, sym2):
    """Whether two symbols apply the same operators in the same order to the same
    inputs, as far as both go: nodes that only one of them has at its end do not count.
    Names do not matter.
    """

    def structure(sym):
        import json

        nodes = json.loads(sym.tojson())["nodes"]
        return [(n["op"], [entry[:2] for entry in n["inputs"]]) for n in nodes]

    return all(a == b for a, b in zip(structure(sym1), structure(sym2)))


# Consistency between devices and dtypes.


def _narrower(a, b):
    return a if np.dtype(a).itemsize < np.dtype(b).itemsize else b


def check_consistency(
    sym,
    ctx_list,
    scale=1.0,
    grad_req="write",
    arg_params=None,
    aux_params=None,
    rtol=None,
    atol=None,
    raise_on_err=True,
    ground_truth=None,
    equal_nan=False,
    use_uniform=False,
    rand_type=np.float64,
):
    """Asserts that a symbol, or several of the same form, give the same values and
    gradients wherever they are bound; gives those of the widest dtype.

    ctx_list: dicts of simple_bind()'s arguments: ctx, shapes, type_dict.
    """
    check(len(ctx_list) > 1, "check_consistency: ctx_list has less than two entries")
    syms = [sym] * len(ctx_list) if is_symbol(sym) else list(sym)
    arg_names, output_names = syms[0].list_arguments(), syms[0].list_outputs()
    for other in syms:
        check(
            (other.list_arguments(), other.list_outputs()) == (arg_names, output_names),
            "check_consistency: the symbols differ in arguments or outputs",
        )
    executors = [
        s.simple_bind(grad_req=grad_req, **where) for s, where in zip(syms, ctx_list)
    ]
    _fill(executors, arg_params, aux_params, scale, use_uniform, rand_type)
    for executor in executors:
        executor.forward(is_train=False)
        if grad_req == "add":
            for gradient in executor.grad_arrays:
                gradient[:] = 0
    widths = [np.dtype(e.outputs[0].dtype) for e in executors]
    widest = int(np.argmax(widths))

    def results(executor):
        values = dict(zip(output_names, executor.outputs))
        if grad_req != "null":
            values.update(executor.grad_dict)
        return values

    def compare(names, truth, what):
        for i, executor in enumerate(executors):
            values = results(executor)
            for name in names if i != widest else ():
                _compare_one(
                    values[name], truth[name], (widths[i], widths[widest]), rtol, atol,
                    equal_nan, raise_on_err, "%s: %s, %d against %d"
                    % (what, name, i, widest),
                )  # fmt: skip

    truth = ground_truth or results(executors[widest])
    compare(output_names, truth, "predict")
    if grad_req == "null":
        return truth
    for executor in executors:
        executor.forward(is_train=True)
    heads = []
    for outputs in zip(*[e.outputs for e in executors]):
        kind = outputs[0].dtype
        for out in outputs:
            kind = _narrower(out.dtype, kind)
        heads.append(outputs[0].astype(kind).asnumpy())
    for executor, where in zip(executors, ctx_list):
        executor.backward(
            [
                nd.array(head, ctx=where["ctx"], dtype=out.dtype)
                for head, out in zip(heads, executor.outputs)
            ]
        )
    truth = ground_truth or results(executors[widest])
    compare(output_names + arg_names, truth, "train")
    return truth


def _fill(executors, arg_params, aux_params, scale, use_uniform, rand_type):
    """Gives all executors the same arguments (random ones where none are given)."""
    values = dict(arg_params or {})
    for name, array in sorted(executors[0].arg_dict.items()):
        if name not in values:
            values[name] = (
                np.random.uniform(-0.92 * scale, 0.92 * scale, array.shape)
                if use_uniform
                else np.random.normal(size=array.shape, scale=scale)
            ).astype(rand_type)
    for executor in executors:
        for name, array in executor.arg_dict.items():
            array[:] = values[name]
        for name, array in executor.aux_dict.items():
            array[:] = (aux_params or {}).get(name, 0)


def _compare_one(value, truth, widths, rtol, atol, equal_nan, raise_on_err, what):
    if truth is None:
        check(value is None, "%s: one has a value, the other has none", what)
        return
    # An array may be wider than the outputs of its network, and no more exact.
    kinds = [_narrower(a.dtype, w) for a, w in zip((value, truth), widths)]
    rtol, atol = get_tols(value.astype(kinds[0]), truth.astype(kinds[1]), rtol, atol)
    try:
        assert_almost_equal(value, truth, rtol, atol, equal_nan=equal_nan)
    except AssertionError as e:
        if raise_on_err:
            raise AssertionError("%s\n%s" % (what, e)) from None
        print(what)
        print(e)
