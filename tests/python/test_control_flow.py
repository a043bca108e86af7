"""Loops and branches over arrays: foreach, while_loop, cond."""

import numpy as np
import pytest

from plait import autograd, nd


def test_foreach_sums_and_stacks():
    data = nd.arange(6).reshape((3, 2))
    outs, total = nd.contrib.foreach(lambda x, s: (x * 2, s + x), data, nd.zeros((2,)))
    assert outs.asnumpy().tolist() == [[0, 2], [4, 6], [8, 10]]
    assert total.asnumpy().tolist() == [6, 9]


def test_foreach_keeps_the_nesting():
    data = [nd.ones((3, 2)), [nd.zeros((3, 1))]]

    def body(x, states):
        a, (b,) = x
        return [a + 1, [b]], [states[0] + 1]

    (first, (second,)), (state,) = nd.contrib.foreach(body, data, [nd.zeros((1,))])
    assert first.shape == (3, 2) and second.shape == (3, 1)
    assert state.asscalar() == 3


def test_gradients_flow_through_foreach():
    x, w = nd.array([[1.0], [2.0], [3.0]]), nd.array([2.0])
    x.attach_grad()
    w.attach_grad()
    with autograd.record():
        _, y = nd.contrib.foreach(lambda x, s: ([], s * w + x), x, nd.zeros((1,)))
    y.backward()
    assert x.grad.asnumpy().ravel().tolist() == [4, 2, 1]
    assert w.grad.asscalar() == 1 * 2 * 2 + 2


def test_while_loop_pads_its_outputs():
    outs, (i, total) = nd.contrib.while_loop(
        lambda i, s: i <= 3,
        lambda i, s: (i * 10, (i + 1, s + i)),
        (nd.array([1]), nd.array([0])),
        max_iterations=5,
    )
    assert outs.shape == (5, 1)
    assert outs[:3].asnumpy().ravel().tolist() == [10, 20, 30]
    assert (i.asscalar(), total.asscalar()) == (4, 6)


def test_while_loop_that_never_runs_or_has_no_outputs():
    one = nd.array([1])
    outs, last = nd.contrib.while_loop(
        lambda i: i > 5, lambda i: (i, i + 1), one, max_iterations=4
    )
    assert outs == [] and last is one
    outs, last = nd.contrib.while_loop(
        lambda i: i < 5, lambda i: (None, i + 1), one, max_iterations=2
    )
    assert outs == [] and last.asscalar() == 3


def test_gradients_flow_through_while_loop():
    x = nd.array([3.0])
    x.attach_grad()
    with autograd.record():
        _, (_, y) = nd.contrib.while_loop(
            lambda i, y: i < 3,
            lambda i, y: ([], [i + 1, y * x]),
            [nd.array([0]), x],
            max_iterations=10,
        )
    y.backward()
    assert x.grad.asscalar() == 4 * 27


@pytest.mark.parametrize(
    "pred", [nd.array([1]), nd.array([0]), True, 0, np.bool_(True)]
)
def test_cond_runs_one_branch(pred):
    ran = []
    result = nd.contrib.cond(
        pred, lambda: ran.append("then") or 1, lambda: ran.append("else") or 2
    )
    truth = bool(pred.asscalar() if isinstance(pred, nd.NDArray) else pred)
    assert (ran, result) == ((["then"], 1) if truth else (["else"], 2))


def test_wrong_loops():
    x = nd.ones((2, 2))
    with pytest.raises(TypeError, match="foreach: data must be"):
        nd.contrib.foreach(lambda x, s: (x, s), 3, [])
    with pytest.raises(ValueError, match="one length of axis 0"):
        nd.contrib.foreach(lambda x, s: (x[0], s), [x, nd.ones((3, 2))], [])
    with pytest.raises(ValueError, match="max_iterations should be specified"):
        nd.contrib.while_loop(lambda i: True, lambda i: (i, i), x)
    with pytest.raises(ValueError, match="at least one element"):
        nd.contrib.while_loop(lambda: True, lambda: ([], []), [], max_iterations=1)
    with pytest.raises(ValueError, match="2 loop_vars; 1 were expected"):
        nd.contrib.while_loop(
            lambda i: nd.ones(1), lambda i: ([], [i, i]), x, max_iterations=2
        )
    with pytest.raises(ValueError):
        nd.contrib.cond(x, lambda: 1, lambda: 2)
