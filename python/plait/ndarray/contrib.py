"""plait.nd.contrib: operators of MXNet's contrib namespace."""

import math

import numpy as np

from .. import _plait
from ..error import MXNetValueError
from ._core import device_of
from ._core import op as _op
from ._namespaces import install as _install
from .control_flow import cond, foreach, while_loop  # noqa: F401

_install({"contrib": globals()})


def isnan(data):
    """1 where an element is NaN, else 0."""
    return data != data


def isinf(data):
    """1 where an element is infinite, else 0."""
    return _op("abs")(data) == float("inf")


def isfinite(data):
    """1 where an element is neither NaN nor infinite, else 0."""
    return _op("abs")(data) < float("inf")


def getnnz(data, axis=None, out=None):
    """How many values a csr array stores, in all (an array of one number) or (axis 1)
    in each row.
    """
    from ._sparse_math import getnnz as count

    result = count([data], {"axis": axis})
    return result if out is None else result.copyto(out)


def boolean_mask(data, index, axis=0, out=None):
    """The slices of data along its first axis where index is not zero.

    Waits for index: its values decide about the shape of the result.
    """
    if axis != 0 or index.ndim != 1 or index.shape[0] != data.shape[0]:
        raise MXNetValueError(
            "boolean_mask: index of shape %s and axis %r do not fit data %s; axis 0 "
            "and one number a slice were expected" % (index.shape, axis, data.shape)
        )
    chosen = np.flatnonzero(index.asnumpy()).astype(np.int64)
    rows = _plait.from_buffer(chosen, None, *device_of(data.context))
    return _op("take")(data, rows, axis=0, out=out)


def rand_zipfian(true_classes, num_sampled, range_max, ctx=None):
    """Draws classes by an approximate Zipf law: P(k) = log((k+2)/(k+1)) / log(n+1).

    Returns the drawn classes (int64, with replacement), and how often the true and the
    drawn classes are expected among them (float64). The classes of a vocabulary of
    range_max words are to be in descending order of frequency.
    """
    from .random import uniform

    log_range = math.log(range_max + 1)
    draws = uniform(0, log_range, shape=(num_sampled,), dtype="float64", ctx=ctx)
    sampled = (_op("exp")(draws) - 1).astype("int64") % range_max

    def expected(classes):
        k = classes.astype("float64")
        return _op("log")((k + 2) / (k + 1)) / log_range * num_sampled

    return sampled, expected(true_classes), expected(sampled)


def _scale(rescale_grad, like):
    """rescale_grad as an array: operators take it as an input, so that a NaN in it
    skips the update."""
    from ..ndarray import NDArray, full

    if isinstance(rescale_grad, NDArray):
        return rescale_grad.as_in_context(like.context)
    return full((1,), rescale_grad, ctx=like.context)


def adamw_update(weight, grad, mean, var, rescale_grad, lr, eta, out=None, **kwargs):
    """One step of AdamW; skipped where rescale_grad, a number or array, is no number,
    infinite or 0."""
    inputs = weight, grad, mean, var, _scale(rescale_grad, weight)
    return _op("_adamw_update")(*inputs, lr=lr, eta=eta, out=out, **kwargs)


def mp_adamw_update(
    weight, grad, mean, var, weight32, rescale_grad, lr, eta, out=None, **kwargs
):
    """adamw_update() of a weight in half precision beside its float32 copy."""
    inputs = weight, grad, mean, var, weight32, _scale(rescale_grad, weight)
    return _op("_mp_adamw_update")(*inputs, lr=lr, eta=eta, out=out, **kwargs)


def _interleaved(lists, name):
    """The first arrays of all lists, then the second ones, ..."""
    if len({len(items) for items in lists}) != 1:
        raise MXNetValueError(
            "%s: got lists of %s arrays; lists of one length were expected"
            % (name, [len(items) for items in lists])
        )
    return [array for row in zip(*lists) for array in row]


def _multi_adamw(name, lists, rescale_grad, lrs, wds, etas, size, kwargs):
    arrays = _interleaved(lists, name) + [_scale(rescale_grad, lists[0][0])]
    return _op("_" + name)(
        *arrays,
        num_weights=size or len(lists[0]),
        lrs=lrs,
        wds=wds,
        etas=etas,
        **kwargs,
    )


def multi_adamw_update(
    weights, grads, mean, var, rescale_grad, lrs, wds, etas, size=0, **kwargs
):
    """adamw_update() of several weights in one call."""
    lists = weights, grads, mean, var
    return _multi_adamw(
        "multi_adamw_update", lists, rescale_grad, lrs, wds, etas, size, kwargs
    )


def multi_mp_adamw_update(
    weights, grads, mean, var, weights32, rescale_grad, lrs, wds, etas, size=0, **kwargs
):
    """mp_adamw_update() of several weights in one call."""
    lists = weights, grads, mean, var, weights32
    return _multi_adamw(
        "multi_mp_adamw_update", lists, rescale_grad, lrs, wds, etas, size, kwargs
    )


def _multi_lamb(name, lists, step_count, lrs, wds, num_tensors, kwargs):
    return _op("_" + name)(
        *_interleaved(lists, name),
        num_tensors=num_tensors or len(lists[0]),
        step_count=step_count,
        learning_rates=lrs,
        wds=wds,
        **kwargs,
    )


def multi_lamb_update(
    weights, grads, mean, var, step_count, lrs, wds, num_tensors=0, **kwargs
):
    """One step of LAMB for several weights; step_count, lrs, wds: one for each."""
    lists = weights, grads, mean, var
    return _multi_lamb(
        "multi_lamb_update", lists, step_count, lrs, wds, num_tensors, kwargs
    )


def multi_mp_lamb_update(
    weights, grads, mean, var, weights32, step_count, lrs, wds, num_tensors=0, **kwargs
):
    """multi_lamb_update() of weights in half precision beside their float32 copies."""
    lists = weights, grads, mean, var, weights32
    return _multi_lamb(
        "multi_mp_lamb_update", lists, step_count, lrs, wds, num_tensors, kwargs
    )
