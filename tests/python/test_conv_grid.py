"""Convolutions as users call them, on a grid of shapes, dtypes and batches, called and
hybridized, against sums in float64."""

import itertools

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd

# channels, filters, size, kernel, stride, dilation, padding, groups
GRID = {
    "3 x 3": (32, 48, (9, 10), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "3 x 3, odd channels": (5, 7, (8, 7), (3, 3), (1, 1), (1, 1), (1, 1), 1),
    "1 x 1": (48, 33, (5, 6), (1, 1), (1, 1), (1, 1), (0, 0), 1),
    "1 x 1, stride 2": (16, 32, (7, 7), (1, 1), (2, 2), (1, 1), (0, 0), 1),
    "uneven": (6, 9, (11, 6), (3, 2), (2, 1), (1, 2), (2, 0), 1),
    "groups": (12, 18, (7, 6), (3, 3), (2, 2), (1, 1), (1, 1), 3),
    "depthwise": (32, 32, (9, 8), (3, 3), (1, 1), (1, 1), (1, 1), 32),
    "first layer": (3, 16, (17, 19), (7, 7), (2, 2), (1, 1), (3, 3), 1),
    "dilated": (16, 16, (12, 11), (3, 3), (1, 1), (3, 2), (2, 2), 1),
    "1-D": (8, 6, (15,), (4,), (3,), (2,), (2,), 2),
    "3-D": (4, 6, (5, 4, 6), (2, 3, 2), (1, 2, 2), (1, 1, 1), (1, 0, 1), 2),
    "whole window": (7, 20, (4, 3), (4, 3), (1, 1), (1, 1), (0, 0), 1),
}
ERRORS = {"float64": 1e-13, "float32": 2e-6, "float16": 2e-3, "bfloat16": 1.6e-2}


def out_size(case):
    _, _, size, kernel, stride, dilate, pad, _ = case
    return [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, d, p in zip(size, kernel, stride, dilate, pad)
    ]


def taps(case):
    """(index in the window, where its values lie in the padded image) of each tap."""
    _, _, _, kernel, stride, dilate, _, _ = case
    for tap in itertools.product(*map(range, kernel)):
        places = zip(tap, dilate, stride, out_size(case))
        at = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, s, n in places]
        yield (..., *tap), (..., *at)


def by_groups(x, axis, groups):
    shape = x.shape[:axis] + (groups, x.shape[axis] // groups) + x.shape[axis + 1 :]
    return x.reshape(shape)


def in_float64(x, w, b, dy, case):
    """y, dx, dw and db."""
    size, pad, groups = case[2], case[6], case[7]
    edges = [(0, 0), (0, 0)] + [(p, p) for p in pad]
    padded = by_groups(np.pad(x, edges), 1, groups)
    grouped, d = by_groups(w, 0, groups), by_groups(dy, 1, groups)
    y, dx, dw = np.zeros_like(d), np.zeros_like(padded), np.zeros_like(grouped)
    axes = "xyz"[: len(size)]
    for tap, at in taps(case):
        y += np.einsum("ngi...,goi->ngo...", padded[at], grouped[tap])
        dx[at] += np.einsum("ngo...,goi->ngi...", d, grouped[tap])
        dw[tap] += np.einsum("ngo%s,ngi%s->goi" % (axes, axes), d, padded[at])
    y = y.reshape(dy.shape) + b.reshape((-1,) + (1,) * len(size))
    inside = tuple(slice(p, p + n) for p, n in zip(pad, size))
    dx = dx[(..., *inside)].reshape(x.shape)
    return y, dx, dw.reshape(w.shape), dy.sum((0, *range(2, dy.ndim)))


class Layer(gluon.HybridBlock):
    """A convolution of arguments."""

    def __init__(self, case):
        super().__init__()
        _, filters, _, kernel, stride, dilate, pad, groups = case
        self.options = {
            "kernel": kernel, "stride": stride, "dilate": dilate, "pad": pad,
            "num_filter": filters, "num_group": groups,
        }  # fmt: skip

    def hybrid_forward(self, F, x, w, b):
        return F.Convolution(x, w, b, **self.options)


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("name", GRID)
def test_convolutions_of_all_dtypes_and_batches(name, dtype):
    case = GRID[name]
    channels, filters, size, kernel, *_, groups = case
    for batch in (0, 1, 3):
        random = np.random.RandomState(batch)

        def numbers(*shape, random=random):
            """Normal, rounded to the dtype, as the array and in float64."""
            x = nd.array(random.normal(size=shape), dtype="float64").astype(dtype)
            return x, x.astype("float64").asnumpy()

        x, x64 = numbers(batch, channels, *size)
        w, w64 = numbers(filters, channels // groups, *kernel)
        b, b64 = numbers(filters)
        dy, dy64 = numbers(batch, filters, *out_size(case))
        wanted = in_float64(x64, w64, b64, dy64, case)
        for hybrid in (False, True):
            block = Layer(case)
            block.hybridize(hybrid)
            for array in (x, w, b):
                array.attach_grad()
            with autograd.record():
                y = block(x, w, b)
            y.backward(dy)
            for got, want in zip((y, x.grad, w.grad, b.grad), wanted):
                assert got.shape == want.shape
                assert mx.base.dtype_name(got.dtype) == dtype
                scale = np.abs(want).max(initial=1e-30)
                error = np.abs(got.astype("float64").asnumpy() - want)
                assert error.max(initial=0) <= ERRORS[dtype] * scale


@pytest.mark.parametrize("dtype", ERRORS)
def test_an_empty_batch_gives_gradients_of_zeros(dtype):
    x, w = nd.zeros((0, 4, 6, 6), dtype=dtype), nd.ones((8, 4, 3, 3), dtype=dtype)
    w.attach_grad()
    w.grad[:] = 7
    with autograd.record():
        y = nd.Convolution(x, w, kernel=(3, 3), num_filter=8, no_bias=True)
    y.backward()
    assert y.shape == (0, 8, 4, 4)
    assert not w.grad.astype("float32").asnumpy().any()


@pytest.mark.parametrize("dtype", ERRORS)
@pytest.mark.parametrize("name", GRID)
def test_transposed_convolutions_are_gradients_by_the_data(name, dtype):
    channels, filters, size, kernel, stride, dilate, pad, groups = case = GRID[name]
    adj = [
        n - ((m - 1) * s - 2 * p + d * (k - 1) + 1)
        for n, m, k, s, d, p in zip(size, out_size(case), kernel, stride, dilate, pad)
    ]
    for batch in (0, 1, 2):
        random = np.random.RandomState(batch)
        shapes = (
            (batch, filters, *out_size(case)),
            (filters, channels // groups, *kernel),
        )
        dy, w = (
            nd.array(random.normal(size=s), dtype="float64").astype(dtype)
            for s in shapes
        )
        x = np.zeros((batch, channels, *size))
        dy64, w64 = (v.astype("float64").asnumpy() for v in (dy, w))
        want = in_float64(x, w64, np.zeros(filters), dy64, case)[1]
        got = nd.Deconvolution(
            dy, w, kernel=kernel, stride=stride, dilate=dilate, pad=pad,
            adj=tuple(adj), num_filter=channels, num_group=groups, no_bias=True,
        )  # fmt: skip
        assert got.shape == want.shape
        error = np.abs(got.astype("float64").asnumpy() - want).max(initial=0)
        assert error <= ERRORS[dtype] * np.abs(want).max(initial=1e-30)
