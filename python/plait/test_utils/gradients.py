"""Checks of gradients by finite differences, and of hybridized against plain blocks."""

import numpy as np

from .. import autograd, initializer
from .. import ndarray as nd
from ..util import use_np
from .compare import assert_almost_equal
from .symbolic import check_numeric_gradient_of_symbol, is_symbol
from .tolerance import default_context, default_numeric_eps

__all__ = [
    "check_numeric_gradient",
    "check_gluon_hybridize_consistency",
]


def check_numeric_gradient(
    sym,
    location,
    aux_states=None,
    numeric_eps=None,
    rtol=None,
    atol=None,
    grad_nodes=None,
    use_forward_train=True,
    ctx=None,
    grad_stype_dict=None,
    dtype=np.float32,
):
    """Asserts that gradients agree with finite differences.

    sym: a symbol, or a function of NDArrays; location: its arguments, array-like. A
    random projection of the output is differentiated. grad_nodes: the arguments to
    check, all by default: names (or a dict from names to requests) for a symbol,
    positions for a function.
    """
    if is_symbol(sym):
        check_numeric_gradient_of_symbol(
            sym, location, aux_states, numeric_eps, rtol, atol, grad_nodes,
            use_forward_train, ctx, grad_stype_dict, dtype,
        )  # fmt: skip
        return
    ctx = ctx or default_context()
    eps = numeric_eps or default_numeric_eps()[np.dtype(dtype)]
    rtol = 1e-2 if rtol is None else rtol
    atol = 1e-4 if atol is None else atol
    points = [
        np.array(a.asnumpy() if hasattr(a, "asnumpy") else a, dtype=dtype)
        for a in location
    ]
    inputs = [nd.array(p, ctx=ctx, dtype=dtype) for p in points]
    for x in inputs:
        x.attach_grad()
    with autograd.record(train_mode=use_forward_train):
        out = sym(*inputs)
        weight = nd.array(
            np.random.RandomState(0).normal(size=out.shape), ctx=ctx, dtype=dtype
        )
        total = (out * weight).sum()
    total.backward()

    def value(arguments):
        mode = autograd.train_mode() if use_forward_train else autograd.predict_mode()
        with mode:
            result = sym(*[nd.array(a, ctx=ctx, dtype=dtype) for a in arguments])
        return float(
            (
                result.asnumpy().astype("float64") * weight.asnumpy().astype("float64")
            ).sum()
        )

    for i in range(len(inputs)) if grad_nodes is None else grad_nodes:
        expected = np.zeros(points[i].shape)
        for place in np.ndindex(*points[i].shape):
            ends = []
            for step in (eps / 2, -eps / 2):
                moved = [p.copy() for p in points]
                moved[i][place] += step
                ends.append(value(moved))
            expected[place] = (ends[0] - ends[1]) / eps
        assert_almost_equal(
            expected,
            inputs[i].grad.asnumpy(),
            rtol,
            atol,
            ("numeric gradient of argument %d" % i, "gradient"),
        )


class _FromDict(initializer.Initializer):
    """Values by parameter name."""

    def __init__(self, values):
        super().__init__()
        self._values = values

    def _init_weight(self, name, arr):
        arr[()] = self._values[name]


@use_np
def check_gluon_hybridize_consistency(
    net_builder, data_l, numpy_func=None, test_grad=True, rtol=1e-4, atol=1e-4
):
    """Asserts that a block gives the same values and gradients hybridized and not."""
    init, values, gradients = None, None, None
    for hybridize in (False, True):
        for recording in (False, True) if test_grad else (False,):
            net = net_builder(prefix="net_")
            net.initialize(init) if init else net.initialize()
            if hybridize:
                net.hybridize()
            inputs = [x.copy() for x in data_l]
            if recording:
                for x in inputs:
                    x.attach_grad()
                with autograd.record():
                    out = net(*inputs)
                out.backward(out)
            else:
                out = net(*inputs)
            init = init or _FromDict(
                {k: p.data().asnumpy() for k, p in net.collect_params().items()}
            )
            values = out.asnumpy() if values is None else values
            assert_almost_equal(out.asnumpy(), values, rtol=rtol, atol=atol)
            if recording:
                found = [x.grad.asnumpy() for x in inputs]
                gradients = gradients or found
                for a, b in zip(found, gradients):
                    assert_almost_equal(a, b, rtol=rtol, atol=atol)
    if numpy_func is not None:
        assert_almost_equal(
            values, numpy_func(*[x.asnumpy() for x in data_l]), rtol=rtol, atol=atol
        )
