"""Attention as GluonNLP's models write it: interleaved projections, lengths that are
repeated for each head, and masks by `where`."""

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd
from plait.gluon import nn


class SelfAttention(gluon.HybridBlock):
    """The cell of GluonNLP's BERT: (length, batch, units)."""

    def __init__(self, units, heads, dropout=0.0):
        super().__init__()
        self._heads = heads
        with self.name_scope():
            self.project = nn.Dense(3 * units, flatten=False, in_units=units)
            self.dropout = nn.Dropout(dropout)

    def hybrid_forward(self, F, x, valid_length=None):
        qkv = self.project(x)
        score = F.contrib.interleaved_matmul_selfatt_qk(qkv, heads=self._heads)
        if valid_length is None:
            weights = F.softmax(score, axis=-1)
        else:
            each = F.expand_dims(valid_length, axis=1)
            each = F.broadcast_axis(each, axis=1, size=self._heads)
            each = F.reshape(each, shape=(-1, 0), reverse=True)
            weights = F.softmax(score, length=each, use_length=True, axis=-1)
        return F.contrib.interleaved_matmul_selfatt_valatt(
            qkv, self.dropout(weights), heads=self._heads
        )


class CrossAttention(gluon.HybridBlock):
    """Attention to another sequence, with a mask that is added or fills in."""

    def __init__(self, units, heads, dropout=0.0, mask=None):
        super().__init__()
        self._heads, self._mask = heads, mask
        with self.name_scope():
            self.query = nn.Dense(units, flatten=False, in_units=units)
            self.memory = nn.Dense(2 * units, flatten=False, in_units=units)
            self.dropout = nn.Dropout(dropout)

    def hybrid_forward(self, F, x, memory, mask=None):
        q, kv = self.query(x), self.memory(memory)
        score = F.contrib.interleaved_matmul_encdec_qk(q, kv, heads=self._heads)
        if self._mask == "added":
            score = F.broadcast_add(score, (1 - mask) * -1e4)
        elif self._mask == "filled":
            score = F.where(mask, score, -1e18 * F.ones_like(score))
        weights = F.softmax(score, axis=-1)
        return F.contrib.interleaved_matmul_encdec_valatt(
            kv, self.dropout(weights), heads=self._heads
        )


class MultiHeadAttention(gluon.HybridBlock):
    """GluonNLP's older cell: (batch, length, units), and a softmax with a mask."""

    def __init__(self, units, heads, dropout=0.0):
        super().__init__()
        self._heads = heads
        with self.name_scope():
            self.query = nn.Dense(units, flatten=False, in_units=units)
            self.key = nn.Dense(units, flatten=False, in_units=units)
            self.value = nn.Dense(units, flatten=False, in_units=units)
            self.dropout = nn.Dropout(dropout)

    def split(self, F, x):
        x = F.transpose(F.reshape(x, (0, 0, self._heads, -1)), (0, 2, 1, 3))
        return F.reshape(x, (-1, 0, 0), reverse=True)

    def hybrid_forward(self, F, x, valid_length):
        steps = F.contrib.arange_like(x, axis=1)
        ones = F.ones_like(steps)
        mask = F.broadcast_lesser(
            F.reshape(steps, (1, -1)), F.reshape(valid_length, (-1, 1))
        )
        mask = F.broadcast_mul(F.expand_dims(mask, axis=1), F.reshape(ones, (-1, 1)))
        mask = F.broadcast_axis(F.expand_dims(mask, axis=1), axis=1, size=self._heads)
        mask = F.reshape(mask, (-1, 0, 0), reverse=True)
        query = F.contrib.div_sqrt_dim(self.split(F, self.query(x)))
        key, value = self.split(F, self.key(x)), self.split(F, self.value(x))
        score = F.batch_dot(query, key, transpose_b=True)
        score = F.where(mask, score, -1e18 * F.ones_like(score))
        weights = self.dropout(F.softmax(score, axis=-1) * mask)
        y = F.reshape(
            F.batch_dot(weights, value), (-1, self._heads, 0, 0), reverse=True
        )
        return F.reshape(F.transpose(y, (0, 2, 1, 3)), (0, 0, -1))


def uniform(*shape):
    return nd.random.uniform(-1, 1, shape=shape)


def step(net, data, train):
    mx.random.seed(5)
    data[0].attach_grad()
    with autograd.record(train_mode=train):
        y = net(*data)
        loss = (y * y * y).sum()
    loss.backward()
    params = net.collect_params()
    grads = [data[0].grad] + [params[name].grad() for name in params]
    return [a.asnumpy() for a in (y, *grads)]


def graph_of(net, req="write", **data):
    """The graph of a block after the passes; `req`: the gradient by its first input."""
    y = net(*(mx.sym.var(name) for name in data))
    reqs = {name: "null" for name in y.list_arguments()}
    reqs[next(iter(data))] = req
    shapes = {name: x.shape for name, x in data.items()}
    return y.simple_bind(mx.cpu(), grad_req=reqs, **shapes).debug_str()


def check_same(net, data, rtol=3e-5):
    net.initialize(mx.init.Normal(0.3))
    for train in (True, False):
        net.hybridize(False)
        expected = step(net, data, train)
        net.hybridize()
        largest = max(np.abs(want).max() for want in expected)
        for got, want in zip(step(net, data, train), expected, strict=True):
            # Some gradients, as that of a bias of keys, are sums that are 0.
            error = 2e-5 * max(np.abs(want).max(), 0.05 * largest)
            np.testing.assert_allclose(got, want, rtol=rtol, atol=error)
    return expected


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("lengths", [False, True])
def test_interleaved_self_attention_is_found(lengths, dropout):
    net = SelfAttention(24, 4, dropout)
    data = [uniform(101, 2, 24)]
    if lengths:
        data.append(nd.array(np.repeat([[101], [37]], 101, axis=1)))
    check_same(net, data)
    text = graph_of(net, **dict(zip(["data", "length"], data)))
    assert "_interleaved_attention" in text and "softmax" not in text


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("mask", [None, "added", "filled"])
def test_interleaved_attention_to_another_sequence_is_found(mask, dropout):
    net = CrossAttention(12, 3, dropout, mask)
    data = [uniform(15, 2, 12), uniform(98, 2, 12)]
    if mask:
        data.append((uniform(6, 15, 98) > -0.5).astype("float32"))
        data[-1][:, :, 5] = 1
    if mask == "filled":
        data[-1][0, 3] = 0  # all keys of a query are hidden: then none is
    check_same(net, data)
    named = dict(zip(["data", "memory", "mask"], data))
    # Where all are hidden, what was filled in has no gradient by the scores.
    text = graph_of(net, "null" if mask == "filled" else "write", **named)
    assert "_interleaved_attention" in text and "softmax" not in text


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_softmax_with_a_mask_as_a_factor_is_found(dropout):
    net = MultiHeadAttention(24, 4, dropout)
    data = [uniform(3, 97, 24), nd.array([97, 13, 0])]
    y = check_same(net, data)[0]
    assert not y[2].any()  # nothing is seen
    text = graph_of(net, data=data[0], length=data[1])
    assert "dot_product_attention" in text and "softmax" not in text


def test_a_factor_that_is_no_mask_is_left_alone():
    class Weighted(gluon.HybridBlock):
        def hybrid_forward(self, F, q, k, v, mask):
            score = F.batch_dot(q, k, transpose_b=True)
            score = F.where(mask, score, -1e18 * F.ones_like(score))
            return F.batch_dot(F.softmax(score) * mask, v)

    net = Weighted()
    q, k, v = uniform(2, 99, 4), uniform(2, 99, 4), uniform(2, 99, 4)
    mask = uniform(2, 99, 99) + 2  # any numbers
    found = []
    for hybridize in (False, True):
        net.hybridize(hybridize)
        found.append(net(q, k, v, mask).asnumpy())
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


def test_numbers_that_do_not_hide_are_left_alone():
    """Scores do not vanish beside -1e4: where all keys are hidden, they count alike."""

    class Filled(gluon.HybridBlock):
        def hybrid_forward(self, F, q, k, v, mask):
            score = F.batch_dot(q, k, transpose_b=True)
            score = F.where(mask, score, -1e4 * F.ones_like(score))
            return F.batch_dot(F.softmax(score), v)

    net = Filled()
    q, k, v = uniform(2, 99, 4), uniform(2, 99, 4), uniform(2, 99, 4)
    mask = nd.zeros((2, 99, 99))
    net.hybridize()
    want = np.broadcast_to(v.asnumpy().mean(axis=1, keepdims=True), (2, 99, 4))
    np.testing.assert_allclose(net(q, k, v, mask).asnumpy(), want, rtol=1e-4, atol=1e-6)


def test_masks_that_want_gradients_get_them():
    net = CrossAttention(12, 3, mask="added")
    net.initialize(mx.init.Normal(0.3))
    x, memory, mask = uniform(15, 2, 12), uniform(98, 2, 12), uniform(6, 15, 98)
    found = []
    for hybridize in (False, True):
        net.hybridize(hybridize)
        mask.attach_grad()
        with autograd.record():
            y = (net(x, memory, mask) ** 2).sum()
        y.backward()
        found.append(mask.grad.asnumpy())
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-5 * np.abs(found[0]).max())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_found_too(dtype):
    net = SelfAttention(24, 4)
    net.initialize(mx.init.Normal(0.3))
    x = uniform(101, 2, 24)
    want = net(x).asnumpy()
    net.cast(dtype)
    net.hybridize()
    got = net(x.astype(dtype)).astype("float32").asnumpy()
    np.testing.assert_allclose(got, want, atol=0.03 * np.abs(want).max())


def test_second_derivatives_go_by_the_operators_as_they_were_written():
    net = SelfAttention(12, 3, 0.3)
    net.initialize(mx.init.Normal(0.3))
    x = uniform(97, 1, 12)
    found = []
    for hybridize in (False, True):
        net.hybridize(hybridize)
        mx.random.seed(9)
        x.attach_grad()
        with autograd.record():
            y = (net(x) ** 2).sum()
            g = autograd.grad(y, x, create_graph=True, retain_graph=True)[0]
            z = (g * g).sum()
        z.backward()
        found.append(x.grad.asnumpy())
    np.testing.assert_allclose(*found, rtol=1e-3, atol=1e-5 * np.abs(found[0]).max())


def test_memory_does_not_grow_with_the_square_of_the_length():
    """All weights of 2,048 steps would be 64 MB."""
    from plait import _plait

    net = SelfAttention(32, 4)
    net.initialize()
    net.hybridize()

    def peak(length):
        x = uniform(length, 1, 32)
        x.attach_grad()
        for _ in range(2):  # the first call compiles
            nd.waitall()
            _plait.memory_reset_peak(1, 0)
            before = _plait.memory_stats(1, 0)["live"]
            with autograd.record():
                y = net(x)
            y.backward()
            nd.waitall()
            grown = _plait.memory_stats(1, 0)["peak"] - before
        return grown

    small, large = peak(512), peak(2048)
    assert large < 12 << 20 and large < 6 * small
