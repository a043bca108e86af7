"""Attention: the operator against its definition, and the pass that finds it."""

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd
from plait.gluon import nn

attention = nd.contrib.dot_product_attention


def arrays(*shapes, dtype="float64"):
    random = np.random.RandomState(sum(map(len, shapes)))
    return [nd.array(random.normal(size=s), dtype=dtype) for s in shapes]


def naive(q, k, v, scale=None, hidden=None, added=None):
    """By operators that keep all weights. hidden: where weights are 0."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    b, h, t, d = q.shape
    flat = [x.reshape((b * h, x.shape[2], x.shape[3])) for x in (q, k, v)]
    scores = nd.batch_dot(flat[0], flat[1], transpose_b=True) * scale
    scores = scores.reshape((b, h, t, k.shape[2]))
    if added is not None:
        scores = nd.broadcast_add(scores, added)
    if hidden is not None:
        hidden = nd.array(np.broadcast_to(hidden, scores.shape), dtype=q.dtype)
        scores = nd.where(hidden, nd.full(scores.shape, -1e30, dtype=q.dtype), scores)
    weights = nd.softmax(scores, axis=-1)
    if hidden is not None:
        weights = weights * (1 - hidden)
    weights = weights.reshape((b * h, t, k.shape[2]))
    return nd.batch_dot(weights, flat[2]).reshape((b, h, t, v.shape[3]))


def check(q, k, v, dtype_tolerance=1e-12, options=None, added=None, hidden=None):
    """Results and gradients of all inputs, by the operator and by the definition."""
    inputs = [q, k, v] + ([] if added is None else [added])
    head = arrays(q.shape[:3] + v.shape[3:])[0]
    found = []
    for way in (0, 1):
        for x in inputs:
            x.attach_grad()
        with autograd.record():
            if way == 0:
                y = attention(*inputs, **(options or {}))
            else:
                scale = (options or {}).get("scale")
                y = naive(q, k, v, scale, hidden, added)
        y.backward(head)
        found.append([y.asnumpy()] + [x.grad.asnumpy() for x in inputs])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=dtype_tolerance, atol=dtype_tolerance)


SHAPES = [
    # batch, heads, queries, keys, size, size of a value
    (0, 2, 3, 3, 4, 4),
    (1, 1, 1, 1, 1, 1),
    (1, 3, 7, 5, 3, 2),
    (2, 2, 33, 65, 17, 9),
    (1, 2, 130, 270, 8, 8),
    (3, 1, 25, 1, 64, 33),
    (2, 1, 1, 300, 40, 40),
]


@pytest.mark.parametrize("b,h,t,s,d,e", SHAPES)
def test_results_and_gradients_are_those_of_the_definition(b, h, t, s, d, e):
    q, k, v, mask = arrays((b, h, t, d), (b, h, s, d), (b, h, s, e), (h, t, s))
    check(q, k, v)
    check(q, k, v, options={"scale": -0.7})
    causal = np.arange(s) > np.arange(t)[:, None] + s - t
    check(q, k, v, options={"causal": True}, hidden=causal)
    check(q, k, v, options={"use_mask": True}, added=mask)
    check(q, k, v, options={"use_mask": True}, added=mask[:1, :, :1])


def test_lengths_hide_keys():
    q, k, v = arrays((3, 2, 5, 4), (3, 2, 9, 4), (3, 2, 9, 4))
    length = nd.array([9, 0, 4], dtype="int32")
    y = attention(q, k, v, length=length, use_length=True)
    hidden = np.arange(9) >= length.asnumpy()[:, None, None, None]
    np.testing.assert_allclose(y.asnumpy(), naive(q, k, v, hidden=hidden).asnumpy())
    assert np.all(y.asnumpy()[1] == 0)


def test_lengths_of_each_query():
    q, k, v = arrays((3, 2, 5, 4), (3, 2, 9, 4), (3, 2, 9, 4))
    for shape in ((3, 2, 5), (1, 2, 5), (3, 1, 1), (1, 1, 5)):
        length = np.random.RandomState(1).randint(0, 10, shape)
        y = attention(q, k, v, length=nd.array(length), use_length=True, causal=True)
        hidden = np.arange(9) >= length[..., None]
        hidden = hidden | (np.arange(9) > np.arange(5)[:, None] + 4)
        expected = naive(q, k, v, hidden=hidden).asnumpy()
        np.testing.assert_allclose(y.asnumpy(), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool"])
def test_masks_that_are_no_floats_hide_keys_where_they_are_0(dtype):
    q, k, v = arrays((2, 2, 6, 4), (2, 2, 7, 4), (2, 2, 7, 4))
    shown = np.random.RandomState(0).rand(2, 1, 6, 7) > 0.4
    shown[1, 0, 3] = False
    y = attention(q, k, v, nd.array(shown, dtype=dtype), use_mask=True)
    np.testing.assert_allclose(y.asnumpy(), naive(q, k, v, hidden=~shown).asnumpy())
    assert np.all(y.asnumpy()[1, :, 3] == 0)


def test_queries_that_see_nothing_have_no_gradient():
    q, k, v = arrays((1, 1, 4, 3), (1, 1, 2, 3), (1, 1, 2, 3), dtype="float32")
    mask = nd.array([[0, -np.inf], [-np.inf, -np.inf], [0, 0], [-np.inf, 1]])
    for x in (q, k, v):
        x.attach_grad()
    with autograd.record():
        y = attention(q, k, v, mask, use_mask=True, causal=True)
    y.backward()
    for x in (y, q.grad, k.grad, v.grad):
        assert np.all(np.isfinite(x.asnumpy()))
    # Two queries come before the first key, the mask hides one of the rest's keys.
    assert np.all(y.asnumpy()[0, 0, :2] == 0)
    assert np.all(q.grad.asnumpy()[0, 0, :2] == 0)


def test_layouts_differ_in_strides_only():
    q, k, v = arrays((2, 5, 3, 4), (2, 7, 3, 4), (2, 7, 3, 6))
    turned = [x.transpose((0, 2, 1, 3)) for x in (q, k, v)]
    expected = attention(*turned, causal=True).asnumpy().transpose(0, 2, 1, 3)
    y = attention(q, k, v, causal=True, layout="BTHD")
    np.testing.assert_array_equal(y.asnumpy(), expected)
    y = attention(*(x.reshape((0, 0, -1)) for x in (q, k, v)), causal=True, heads=3)
    np.testing.assert_array_equal(y.asnumpy(), expected.reshape(2, 5, 18))


@pytest.mark.parametrize("dtype,tolerance", [("float16", 2e-3), ("bfloat16", 2e-2)])
def test_halves_are_computed_in_float(dtype, tolerance):
    wide = arrays((2, 2, 20, 16), (2, 2, 30, 16), (2, 2, 30, 16), dtype="float32")
    narrow = [x.astype(dtype) for x in wide]
    y = attention(*narrow)
    assert y.dtype == narrow[0].dtype
    expected = attention(*(x.astype("float32") for x in narrow)).asnumpy()
    y = y.astype("float32").asnumpy()
    np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)


def test_dropout_keeps_the_mean_and_backward_draws_the_same():
    q, k, v = arrays((1, 2, 40, 8), (1, 2, 300, 8), (1, 2, 300, 8), dtype="float32")
    v[:] = 1
    v.attach_grad()
    mx.random.seed(3)
    with autograd.record():
        y = attention(q, k, v, dropout=0.5)
    y.backward()
    y = y.asnumpy()
    assert abs(y.mean() - 1) < 0.02 and y.std() > 0.01
    # With values of one, the sum over keys of what each gave is the result's sum.
    assert abs(v.grad.asnumpy().sum() - y.sum()) < 1e-3 * y.sum()
    np.testing.assert_allclose(attention(q, k, v, dropout=0.5).asnumpy(), 1, rtol=1e-5)


def test_weights_can_be_looked_at():
    q, k, v = arrays((1, 2, 4, 8), (1, 2, 6, 8), (1, 2, 6, 8))
    weights = nd.contrib.dot_product_attention_weights(q, k, causal=True)
    assert weights.shape == (1, 2, 4, 6)
    np.testing.assert_allclose(weights.asnumpy().sum(-1), 1)
    y = nd.batch_dot(weights.reshape((2, 4, 6)), v.reshape((2, 6, 8)))
    expected = attention(q, k, v, causal=True).reshape((2, 4, 8))
    np.testing.assert_allclose(y.asnumpy(), expected.asnumpy())


@pytest.mark.parametrize(
    "shapes,options,match",
    [
        ([(2, 3), (2, 3), (2, 3)], {}, r"query \(2, 3\)"),
        (
            [(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 5)],
            {},
            "one size of queries and keys",
        ),
        ([(1, 2, 3, 4), (1, 3, 3, 4), (1, 3, 3, 4)], {}, "do not match"),
        ([(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 6, 4)], {}, "as many keys as values"),
        ([(1, 3, 7)] * 3, {"heads": 2}, "heads 2"),
        ([(1, 3, 8)] * 3, {"heads": 0}, "heads is 0"),
        ([(1, 3, 8)] * 3, {"dropout": 1.5}, "dropout is 1.5"),
        ([(1, 3, 8)] * 3, {"scale": float("inf")}, "scale is inf"),
        (
            [(1, 3, 8)] * 3 + [(2, 3, 3)],
            {"use_mask": True, "heads": 4},
            "mask has shape",
        ),
        ([(2, 3, 8)] * 3 + [(3,)], {"use_length": True}, "length has shape"),
    ],
)
def test_bad_inputs_are_named(shapes, options, match):
    with pytest.raises(ValueError, match=match):
        attention(*(nd.zeros(s) for s in shapes), **options)


def test_mixed_dtypes_are_refused():
    x = nd.zeros((1, 2, 3, 4))
    with pytest.raises(TypeError, match="query is float32, key float64"):
        attention(x, x.astype("float64"), x)


def test_memory_grows_with_the_length_only():
    """Of 1,024 and 4,096 queries; all weights of the latter would be 128 MB."""
    from plait import _plait

    def peak(length):
        x = arrays(*[(1, 2, length, 16)] * 3, dtype="float32")
        for a in x:
            a.attach_grad()
        nd.waitall()
        _plait.memory_reset_peak(1, 0)
        before = _plait.memory_stats(1, 0)["live"]
        with autograd.record():
            y = attention(*x)
        y.backward()
        nd.waitall()
        return _plait.memory_stats(1, 0)["peak"] - before

    small, large = peak(1024), peak(4096)
    assert large < 12 << 20 and large < 5 * small


# ---------------------------------------------------------------- the pass


class Written(gluon.HybridBlock):
    """Attention as models write it."""

    def __init__(self, dropout=0.0, turn_back=True):
        super().__init__()
        self._turn_back = turn_back
        with self.name_scope():
            self.project = nn.Dense(72, flatten=False, in_units=24)
            self.dropout = nn.Dropout(dropout)

    def hybrid_forward(self, F, x, mask=None):
        def heads(z):
            z = F.transpose(F.reshape(z, (0, 0, 4, 6)), (0, 2, 1, 3))
            return F.reshape(z, (-3, 0, 0))

        q, k, v = (heads(z) for z in F.split(self.project(x), 3, axis=2))
        scores = F.batch_dot(q, k, transpose_b=True) / 6**0.5
        if mask is not None:
            scores = F.broadcast_add(scores, mask)
        y = F.batch_dot(self.dropout(F.softmax(scores)), v)
        if not self._turn_back:
            return y
        y = F.transpose(F.reshape(y, (-4, -1, 4, 0, 0)), (0, 2, 1, 3))
        return F.reshape(y, (0, 0, -3))


def step(net, x, mask, train):
    mx.random.seed(5)
    with autograd.record(train_mode=train):
        y = net(x, *mask)
        loss = (y * y).sum()
    loss.backward()
    grads = [x.grad, net.project.weight.grad()] + [
        m.grad for m in mask if m.grad is not None
    ]
    return [z.asnumpy() for z in [y, *grads]]


@pytest.mark.parametrize("turn_back", [True, False])
@pytest.mark.parametrize("mask", [None, (1, 97, 97), (8, 97, 97), (8, 1, 97)])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_hybridized_blocks_give_the_same_with_the_same_draws(turn_back, mask, dropout):
    net = Written(dropout, turn_back=turn_back)
    net.initialize(mx.init.Normal(0.4))
    x = arrays((2, 97, 24), dtype="float32")[0]
    x.attach_grad()
    mask = [] if mask is None else arrays(mask, dtype="float32")
    for train in (True, False):
        net.hybridize(False)
        expected = step(net, x, mask, train)
        net.hybridize()
        for a, b in zip(step(net, x, mask, train), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5 * np.abs(b).max())


def test_softmax_with_lengths_is_found():
    class WithLengths(gluon.HybridBlock):
        def hybrid_forward(self, F, q, k, v, length):
            scores = F.batch_dot(q, k, transpose_b=True) * 0.4
            return F.batch_dot(F.softmax(scores, length, use_length=True), v)

    net = WithLengths()
    q, k, v = arrays((3, 15, 4), (3, 99, 4), (3, 99, 4), dtype="float32")
    q.attach_grad()
    length = nd.array(np.arange(45).reshape(3, 15) * 3 % 100)
    found = []
    for hybridize in (False, True):
        net.hybridize(hybridize)
        with autograd.record():
            y = net(q, k, v, length)
        y.backward()
        found.append([y.asnumpy(), q.grad.asnumpy()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_masks_that_want_gradients_get_them():
    net = Written()
    net.initialize(mx.init.Normal(0.4))
    x, mask = arrays((2, 97, 24), (8, 97, 97), dtype="float32")
    x.attach_grad()
    mask.attach_grad()
    expected = step(net, x, [mask], True)
    net.hybridize()
    for a, b in zip(step(net, x, [mask], True), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5 * np.abs(b).max())
    assert len(expected) == 4


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_second_derivatives_of_hybridized_blocks(dropout):
    net = Written(dropout)
    net.initialize(mx.init.Normal(0.4))
    x = arrays((2, 97, 24), dtype="float32")[0]
    x.attach_grad()
    found = []
    for hybridize in (False, True):
        net.hybridize(hybridize)
        mx.random.seed(9)
        with autograd.record():
            y = (net(x) ** 2).sum()
            g = autograd.grad(y, x, create_graph=True, retain_graph=True)[0]
            z = (g * g).sum()
        z.backward()
        found.append(x.grad.asnumpy())
    largest = np.abs(found[0]).max()
    np.testing.assert_allclose(found[0], found[1], rtol=1e-3, atol=1e-5 * largest)


def test_executors_use_it_and_monitors_still_see_all():
    q, k, v = (mx.sym.var(n) for n in "qkv")
    y = mx.sym.batch_dot(mx.sym.softmax(mx.sym.batch_dot(q, k, transpose_b=True)), v)
    executor = y.simple_bind(mx.cpu(), q=(2, 13, 4), k=(2, 99, 4), v=(2, 99, 6))
    assert "dot_product_attention" in executor.debug_str()
    seen = []
    for name, x in zip("qkv", arrays((2, 13, 4), (2, 99, 4), (2, 99, 6))):
        executor.arg_dict[name][:] = x
    first = executor.forward(is_train=True)[0].asnumpy()
    executor.set_monitor_callback(lambda name, array: seen.append(name))
    again = executor.forward()[0].asnumpy()
    np.testing.assert_allclose(again, first, rtol=1e-5, atol=1e-6)
    assert any("softmax" in name for name in seen)
