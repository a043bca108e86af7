"""Running the same block hybridized and not."""

import numpy as np

import plait as mx
from plait import autograd, nd


def flat(values):
    """The arrays among nested lists, without Nones."""
    if isinstance(values, nd.NDArray):
        return [values]
    if isinstance(values, (list, tuple)):
        return [a for v in values for a in flat(v)]
    return []


def copied(values):
    """Nested lists of NumPy arrays as NDArrays that want gradients."""
    if isinstance(values, (list, tuple)):
        return [copied(v) for v in values]
    if values is None:
        return None
    array = nd.array(values, dtype=values.dtype)
    if values.dtype.kind == "f":
        array.attach_grad()
    return array


def numpys(arrays):
    return [a.asnumpy() for a in flat(arrays)]


def pair(make, inputs, **options):
    """The block that make() gives, twice: plain, and hybridized before its first call;
    with the same parameters."""
    nets = []
    for hybrid in (False, True):
        mx.random.seed(11)
        net = make()
        net.initialize(mx.init.Uniform(0.6))
        if hybrid:
            net.hybridize(**options)
        net(*copied(inputs))
        nets.append(net)
    plain, hybrid = (n.collect_params().values() for n in nets)
    assert len(plain) == len(hybrid)
    for p, q in zip(plain, hybrid):
        assert p.shape == q.shape and p.dtype == q.dtype
        q.set_data(p.data())
    return nets


def one_step(net, inputs, train_mode=True, seed=5):
    """(outputs, gradients of inputs, gradients and values of parameters)."""
    mx.random.seed(seed)
    arrays = copied(inputs)
    with autograd.record(train_mode=train_mode):
        outputs = flat(net(*arrays))
    heads = [
        nd.array(np.cos(np.arange(y.size)).reshape(y.shape), dtype=y.dtype)
        for y in outputs
    ]
    tracked = [p for p in net.collect_params().values() if p.grad_req != "null"]
    wanted = [a for a in flat(arrays) if a.grad is not None]
    if tracked or wanted:
        autograd.backward(outputs, heads, train_mode=train_mode)
    return (
        numpys(outputs),
        [a.grad.asnumpy() for a in wanted],
        [p.grad().asnumpy() for p in tracked],
        [p.data().asnumpy() for p in net.collect_params().values()],
    )


def assert_near(found, expected, rtol=2e-5, as_vectors=False):
    """as_vectors: the lengths of differences are compared, for networks in which a
    rounding error may turn a rectifier on or off."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        if isinstance(a, list):
            assert_near(a, b, rtol, as_vectors)
            continue
        assert a.shape == b.shape and a.dtype == b.dtype
        if as_vectors:
            assert np.linalg.norm(a - b) <= rtol * np.linalg.norm(b) + 1e-6
            continue
        scale = np.abs(b.astype("float64")).max() if b.size else 0
        np.testing.assert_allclose(a, b, rtol=rtol, atol=max(rtol * float(scale), 1e-7))


def check(make, *inputs, rtol=2e-5, as_vectors=False, **options):
    """The same outputs, gradients and states, in training and prediction, twice."""
    plain, hybrid = pair(make, inputs, **options)
    for step in range(2):
        assert_near(
            one_step(hybrid, inputs, seed=step),
            one_step(plain, inputs, seed=step),
            rtol,
            as_vectors,
        )
        found, expected = hybrid(*copied(inputs)), plain(*copied(inputs))
        assert_near(numpys(found), numpys(expected), rtol, as_vectors)
    assert_near(
        one_step(hybrid, inputs, False),
        one_step(plain, inputs, False),
        rtol,
        as_vectors,
    )
