"""Symbols, data and files that the tests of modules share."""

import numpy as np

import plait as mx


def mlp(hidden=8, classes=3):
    """A two-layer classifier."""
    x = mx.sym.Variable("data")
    x = mx.sym.FullyConnected(x, num_hidden=hidden, name="fc1")
    x = mx.sym.Activation(x, act_type="relu", name="relu1")
    x = mx.sym.FullyConnected(x, num_hidden=classes, name="fc2")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def blobs(count=120, width=6, classes=3):
    """Well separated clusters: (data, labels)."""
    rng = np.random.RandomState(7)
    labels = rng.randint(0, classes, count)
    centres = 4 * rng.normal(size=(classes, width))
    data = centres[labels] + rng.normal(size=(count, width))
    return data.astype("float32"), labels.astype("float32")


def iterator(batch_size=20, **kwargs):
    """An NDArrayIter over the clusters."""
    return mx.io.NDArrayIter(*blobs(), batch_size, **kwargs)


def bound(symbol=None, batch=4, width=6, **kwargs):
    """A Module of the classifier, bound and initialized."""
    module = mx.mod.Module(symbol or mlp(), **kwargs)
    module.bind([("data", (batch, width))], [("softmax_label", (batch,))])
    module.init_params(mx.init.Xavier())
    return module


def a_batch(batch=4, width=6, classes=3):
    """One batch of random data."""
    data = mx.nd.array(np.random.normal(size=(batch, width)))
    label = mx.nd.array(np.random.randint(0, classes, batch))
    return mx.io.DataBatch([data], [label])


def values(params):
    """NumPy copies of a dict of arrays."""
    return {name: array.asnumpy().copy() for name, array in params.items()}


def assert_same(a, b, **tolerance):
    """Two dicts of arrays are equal, or near."""
    assert set(a) == set(b)
    for name in a:
        np.testing.assert_allclose(a[name], b[name], err_msg=name, **tolerance)
