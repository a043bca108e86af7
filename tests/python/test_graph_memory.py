"""Memory of hybridized networks: what may pile up, and what may exist twice."""

from plait import _plait, autograd, nd
from plait.gluon import nn

MB = 1 << 20


def grown(run):
    """Bytes of arrays at the peak of run(), beyond those before it."""
    nd.waitall()
    before = _plait.memory_stats(1, 0)["live"]
    _plait.memory_reset_peak(1, 0)
    run()
    nd.waitall()
    return _plait.memory_stats(1, 0)["peak"] - before


def step(net, x):
    with autograd.record():
        y = net(x).sum()
    y.backward()


def test_steps_of_ever_new_shapes_do_not_pile_up():
    net = nn.HybridSequential()
    net.add(nn.Dense(64, flatten=False, activation="relu", in_units=16))
    net.add(nn.Dense(8, flatten=False, in_units=64))
    net.initialize()
    net.hybridize()

    def run():
        for length in range(1, 600):
            step(net, nd.ones((2, length, 16)))

    assert grown(run) < 40 * MB


def test_gradients_are_written_where_they_belong():
    net = nn.Dense(2048, in_units=2048, use_bias=False)  # 16 MB of weights
    net.initialize()
    net.hybridize()
    x = nd.ones((2, 2048))
    step(net, x)
    assert grown(lambda: step(net, x)) < 4 * MB


def test_each_forward_keeps_its_values_until_its_backward():
    net = nn.HybridSequential()
    net.add(nn.Dense(4, activation="tanh", in_units=3), nn.Dense(2, in_units=4))
    net.initialize()
    inputs = [nd.random.normal(shape=(5, 3)) for _ in range(3)]

    def gradients():
        result = []
        for x in inputs:
            x.attach_grad()
        with autograd.record():
            outputs = [net(x).sum() for x in inputs]
        for y, x in reversed(list(zip(outputs, inputs))):
            y.backward()
            result.append(x.grad.asnumpy())
        return result

    plain = gradients()
    net.hybridize()
    for a, b in zip(plain, gradients(), strict=True):
        assert (a == b).all()
