"""Recording and gradients: flags, requests, graphs that are kept, views, threads."""

import gc
import json
import threading

import numpy as np
import pytest

import plait as mx
from plait import _plait, autograd, nd


def leaf(values, req="write", dtype="float32"):
    x = nd.array(values, dtype=dtype)
    x.attach_grad(req)
    return x


def equal(x, expected):
    np.testing.assert_allclose(x.asnumpy(), expected, rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------- flags


def flags():
    return autograd.is_recording(), autograd.is_training()


def test_scopes_set_and_restore_the_flags():
    assert flags() == (False, False)
    with autograd.record():
        assert flags() == (True, True)
        with autograd.pause():
            assert flags() == (False, False)
            with autograd.train_mode():
                assert flags() == (False, True)
        with autograd.predict_mode():
            assert flags() == (True, False)
        with autograd.pause(train_mode=True):
            assert flags() == (False, True)
        assert flags() == (True, True)
    with autograd.record(train_mode=False):
        assert flags() == (True, False)
    with autograd.train_mode():
        assert flags() == (False, True)
        with autograd.record(train_mode=None):
            assert flags() == (True, True)
    assert flags() == (False, False)


def test_scopes_restore_the_flags_after_an_error():
    with pytest.raises(KeyError), autograd.record():
        raise KeyError
    assert flags() == (False, False)


def test_a_scope_can_be_entered_again():
    scope = autograd.record()
    for _ in range(2):
        with scope:
            assert flags() == (True, True)
        assert flags() == (False, False)


def test_setters_return_the_state_before():
    assert autograd.set_recording(True) is False
    assert autograd.set_recording(False) is True
    assert autograd.set_training(True) is False
    assert autograd.set_training(False) is True


def test_the_flags_belong_to_the_thread():
    seen = []
    with autograd.record():
        thread = threading.Thread(target=lambda: seen.append(flags()))
        thread.start()
        thread.join()
    assert seen == [(False, False)]


def test_dropout_follows_the_training_flag():
    x = nd.ones((1000,))
    assert (nd.Dropout(x, p=0.5) == x).asnumpy().all()
    with autograd.train_mode():
        assert (nd.Dropout(x, p=0.5) == 0).asnumpy().any()
    with autograd.record(train_mode=False):
        assert (nd.Dropout(x, p=0.5) == x).asnumpy().all()


# ---------------------------------------------------------------- requests


def test_write_overwrites_and_add_accumulates():
    x, y = leaf([1, 2]), leaf([3, 4], "add")
    for _ in range(3):
        with autograd.record():
            z = x * y
        z.backward()
    equal(x.grad, [3, 4])
    equal(y.grad, [3, 6])
    y.grad[:] = 0
    with autograd.record():
        z = x * y
    z.backward()
    equal(y.grad, [1, 2])


def test_null_gets_nothing_and_stops_nothing():
    x, y = leaf([1, 2]), leaf([3, 4], "null")
    with autograd.record():
        z = x * y
    z.backward()
    equal(x.grad, [3, 4])
    equal(y.grad, [0, 0])


def test_a_leaf_used_often_is_summed_once():
    x = leaf([2.0])
    with autograd.record():
        y = x
        for _ in range(20):
            y = y + x * x
    y.backward()
    equal(x.grad, [1 + 20 * 4])


def test_gradients_are_zero_before_and_none_without_attaching():
    x = nd.ones((2,))
    assert x.grad is None
    x.attach_grad()
    equal(x.grad, [0, 0])
    assert x.grad.dtype == x.dtype and x.grad.shape == x.shape


def test_the_gradient_array_stays_the_same():
    x = leaf([1.0, 2.0])
    gradient = x.grad
    for factor in (2, 3):
        with autograd.record():
            y = x * factor
        y.backward()
        equal(gradient, [factor, factor])


def test_attaching_cuts_the_history():
    x = leaf([1.0])
    with autograd.record():
        y = x * 2
        y.attach_grad()
        z = y * 3
    z.backward()
    equal(y.grad, [3])
    equal(x.grad, [0])


def test_detach_and_zero_gradients_cut_the_history():
    x = leaf([2.0])
    with autograd.record():
        y = x * 3
        z = y.detach() * x + nd.BlockGrad(y)
    z.backward()
    equal(x.grad, [6])
    assert y.detach().grad is None


def test_paused_calls_are_constants():
    x = leaf([2.0])
    with autograd.record():
        with autograd.pause():
            c = x * 5
        y = x * c
    y.backward()
    equal(x.grad, [10])


def test_mark_variables():
    x, y = nd.array([1.0, 2.0]), nd.array([3.0, 4.0])
    dx, dy = nd.zeros((2,)), nd.ones((2,))
    autograd.mark_variables([x, y], [dx, dy], ["write", "add"])
    with autograd.record():
        z = x * y
    autograd.backward([z])
    equal(dx, [3, 4])
    equal(dy, [2, 3])
    autograd.mark_variables(x, dx)
    with autograd.record():
        z = x * 7
    z.backward()
    equal(dx, [7, 7])


@pytest.mark.parametrize(
    "gradients, requests",
    [
        ([nd.zeros((3,))], "write"),
        ([nd.zeros((2,)), nd.zeros((2,))], "write"),
        ([nd.zeros((2,))], ["write", "add"]),
        ([nd.zeros((2,))], "sometimes"),
    ],
)
def test_mark_variables_checks_what_it_is_given(gradients, requests):
    with pytest.raises(ValueError):
        autograd.mark_variables([nd.ones((2,))], gradients, requests)


# ---------------------------------------------------------------- heads


def test_head_gradients():
    x = leaf([1.0, 2.0])
    with autograd.record():
        y = x * x
    y.backward(nd.array([10, 100]))
    equal(x.grad, [20, 400])


def test_several_heads_with_and_without_gradients():
    x = leaf([1.0, 2.0])
    with autograd.record():
        y, z = x * 2, x * x
    autograd.backward([y, z], [None, nd.array([1, 10])])
    equal(x.grad, [2 + 2, 2 + 40])


def test_a_head_may_be_a_leaf_or_inside_of_another():
    x = leaf([3.0])
    with autograd.record():
        y = x * 2
        z = y * y
    autograd.backward([x, y, z])
    equal(x.grad, [1 + 2 + 24])


def test_only_one_output_of_several():
    x = leaf([[1.0, 2.0, 3.0, 4.0]])
    with autograd.record():
        _, b = nd.split(x, num_outputs=2, axis=1)
        y = b * b
    y.backward()
    equal(x.grad, [[0, 0, 6, 8]])


def test_errors_of_backward():
    x = leaf([1.0])
    with autograd.record():
        y = x * 2
        constant = nd.ones((1,)) * 2
    with pytest.raises(mx.MXNetError, match="recorded one was expected"):
        constant.backward()
    with pytest.raises(ValueError, match="head gradient has shape"):
        y.backward(nd.ones((2,)))
    z = leaf([1.0], "null")
    with autograd.record():
        w = z * 2
    with pytest.raises(mx.MXNetError, match="wants a gradient"):
        w.backward()


def test_a_graph_is_freed_unless_it_is_retained():
    x = leaf([3.0], "add")
    with autograd.record():
        y = x * x
    y.backward(retain_graph=True)
    y.backward()
    equal(x.grad, [12])
    with pytest.raises(mx.MXNetError, match="retain_graph=True"):
        y.backward()


def test_integer_indices_get_no_gradient():
    x, i = leaf([1.0, 2.0, 3.0]), nd.array([2, 0], dtype="int32")
    with autograd.record():
        y = nd.take(x, i)
    y.backward()
    equal(x.grad, [1, 0, 1])


# ---------------------------------------------------------------- grad


def test_grad_returns_and_leaves_the_attached_alone():
    x, y = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    with autograd.record():
        z = x * x * y
    dx, dy = autograd.grad(z, [x, y], head_grads=nd.array([1, 10]))
    equal(dx, [6, 160])
    equal(dy, [1, 40])
    equal(x.grad, [0, 0])


def test_grad_of_a_value_in_between():
    x = leaf([2.0])
    with autograd.record():
        y = x * 3
        z = y * y
    (dy,) = autograd.grad([z], [y], retain_graph=True)
    equal(dy, [12])
    (dx,) = autograd.grad([z], [x])
    equal(dx, [36])


@pytest.mark.parametrize(
    "function, derivatives",
    [
        (lambda x: x**3, [lambda x: 3 * x**2, lambda x: 6 * x, lambda x: 6 + 0 * x]),
        (nd.exp, [np.exp, np.exp, np.exp]),
        (nd.sin, [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)]),
        (
            lambda x: nd.tanh(x),
            [
                lambda x: 1 - np.tanh(x) ** 2,
                lambda x: -2 * np.tanh(x) * (1 - np.tanh(x) ** 2),
            ],
        ),
        (
            lambda x: nd.log(x),
            [lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3],
        ),
    ],
    ids=["cube", "exp", "sin", "tanh", "log"],
)
def test_create_graph_gives_higher_derivatives(function, derivatives):
    a = np.array([0.3, 0.7, 1.9], np.float32)
    x = leaf(a)
    with autograd.record():
        y = function(x)
        for k, derivative in enumerate(derivatives):
            last = k == len(derivatives) - 1
            (y,) = autograd.grad(y, [x], create_graph=not last, retain_graph=True)
            np.testing.assert_allclose(y.asnumpy(), derivative(a), rtol=1e-4)


def test_a_gradient_penalty():
    x, w = nd.array([[1.0, 2.0]]), leaf([[3.0], [4.0]])
    x.attach_grad()
    with autograd.record():
        y = nd.dot(x, w)
        (dx,) = autograd.grad(y, [x], create_graph=True, retain_graph=True)
        penalty = (dx**2).sum()
    penalty.backward()
    equal(w.grad, [[6], [8]])


def test_grad_of_a_variable_that_does_not_matter_is_zero():
    x, y = leaf([1.0]), leaf([2.0, 3.0])
    with autograd.record():
        z = x * 2
    equal(autograd.grad(z, [y])[0], [0, 0])


# ---------------------------------------------------------------- views


@pytest.mark.parametrize(
    "select",
    [
        lambda x: x[1],
        lambda x: x[1:3],
        lambda x: x[:, 1],
        lambda x: x[::-1],
        lambda x: x[1, 2],
        lambda x: x[None],
        lambda x: x[[0, 2, 0]],
        lambda x: x[nd.array([2, 0])],
        lambda x: x.reshape((4, 3)),
        lambda x: x.reshape((-1,))[2:7],
        lambda x: x.T,
        lambda x: x.flatten(),
        lambda x: x.expand_dims(1),
        lambda x: x.slice(begin=(0, 1), end=(2, 3)),
        lambda x: x.copy(),
        lambda x: x.astype("float64"),
        lambda x: x.broadcast_to((2, 3, 4)),
        lambda x: x[1:][1:][0],
    ],
)
def test_gradients_flow_through_views(select):
    """d sum(w * select(x)) / dx adds up w where x was selected."""
    x = leaf(np.arange(12).reshape(3, 4))
    with autograd.record():
        y = select(x)
        w = nd.array(np.arange(1, y.size + 1).reshape(y.shape), dtype=y.dtype)
        z = (y * w).sum()
    z.backward()
    expected = np.zeros(12)
    np.add.at(expected, y.asnumpy().astype(int).ravel(), w.asnumpy().ravel())
    equal(x.grad, expected.reshape(3, 4))


def test_in_place_calls_on_what_is_recorded_are_refused():
    x = leaf([1.0, 2.0])
    with autograd.record():
        y = x * 2
        for array in (x, y):
            with pytest.raises(mx.MXNetError, match="Inplace operations"):
                array += 1
            with pytest.raises(mx.MXNetError, match="Inplace operations"):
                array[:] = 1
            with pytest.raises(mx.MXNetError, match="Inplace operations"):
                array[0] = 1
    y.backward()
    equal(x.grad, [2, 2])
    x += 1
    equal(x, [2, 3])


def test_a_write_after_recording_does_not_change_the_gradient_of_saved_values():
    x = leaf([1.0, 2.0])
    with autograd.record():
        y = nd.exp(x)
        z = y * y
    a = np.exp([1.0, 2.0])
    x[:] = 100  # exp keeps its output, not its input
    z.backward()
    equal(x.grad, 2 * a * a)


def test_training_by_hand():
    rng = np.random.RandomState(0)
    data = nd.array(rng.rand(64, 3))
    target = nd.dot(data, nd.array([[1.0], [-2.0], [0.5]]))
    w = leaf(np.zeros((3, 1)))
    for _ in range(300):
        with autograd.record():
            loss = ((nd.dot(data, w) - target) ** 2).mean()
        loss.backward()
        w -= 0.5 * w.grad
    np.testing.assert_allclose(w.asnumpy().ravel(), [1, -2, 0.5], atol=0.05)


# ---------------------------------------------------------------- threads, depth


def test_threads_record_their_own_graphs():
    results, failures = {}, []

    def work(k):
        try:
            x = leaf(np.full((50,), k + 1))
            for _ in range(20):
                with autograd.record():
                    y = x
                    for _ in range(k + 1):
                        y = y * x
                y.backward()
            results[k] = x.grad.asnumpy()
        except Exception as e:  # shown by the main thread
            failures.append(e)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    for k in range(4):
        np.testing.assert_allclose(
            results[k], (k + 2) * (k + 1.0) ** (k + 1), rtol=1e-5
        )


def test_a_graph_recorded_in_one_thread_is_walked_in_another():
    x = leaf([2.0])
    with autograd.record():
        y = x * x
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join()
    equal(x.grad, [4])


def test_deep_graphs_are_walked_and_freed_without_recursion():
    x = leaf([1.0])
    with autograd.record():
        y = x
        for _ in range(20000):
            y = y + 1
    y.backward()
    equal(x.grad, [1])
    with autograd.record():
        y = x
        for _ in range(20000):
            y = nd.relu(y)
    del y  # freed without backward


def test_graphs_are_freed_with_their_results():
    x = leaf(np.ones(100000))

    def step():
        with autograd.record():
            y = nd.exp(nd.exp(x) * 0.1).sum()
        y.backward()
        return y.asscalar()

    step()
    nd.waitall()
    before = _plait.memory_stats("cpu", 0)["live"]
    for _ in range(10):
        step()
    gc.collect()
    nd.waitall()
    assert _plait.memory_stats("cpu", 0)["live"] <= before + 100000


def test_recorded_calls_as_a_symbol():
    x, w = nd.array([[1, 2]]), nd.array([[3, 4], [5, 6]])
    x.attach_grad()
    with autograd.record():
        h = nd.FullyConnected(x, w, no_bias=True, num_hidden=2)
        y = nd.split(nd.tanh(h) * h + x * 2, num_outputs=2)[1]
    symbol = autograd.get_symbol(y)
    assert symbol.list_arguments() == ["var0", "var1"]
    values = {"var0": x, "var1": w}
    again = symbol.bind(mx.cpu(), values).forward()[0]
    np.testing.assert_allclose(again.asnumpy(), y.asnumpy())
    y.backward()
    with pytest.raises(ValueError, match="no result of recorded calls"):
        autograd.get_symbol(x * 2)
    with autograd.record():
        y = x
        for _ in range(5000):
            y = y + x
    assert len(autograd.get_symbol(y).list_arguments()) == 1

    class Twice(autograd.Function):
        def forward(self, x):
            return 2 * x

        def backward(self, dy):
            return 2 * dy

    with autograd.record():
        y = Twice()(x)
    with pytest.raises(NotImplementedError, match="recorded as one call"):
        autograd.get_symbol(y)


def test_symbols_of_calls_of_hybridized_blocks_are_those_of_their_operators():
    net = mx.gluon.nn.HybridSequential()
    for _ in range(3):
        net.add(mx.gluon.nn.Dense(5), mx.gluon.nn.BatchNorm())
    net.initialize()
    x = nd.random.uniform(shape=(4, 5))
    found = []
    for hybridize in (False, True):
        net.hybridize(hybridize)
        with autograd.record():
            first, second = nd.split(net(x), 2, axis=0)
            y = first * 2 + second
        symbol = autograd.get_symbol(y)
        found.append([n["op"] for n in json.loads(symbol.tojson())["nodes"]])
        y.backward()
    assert sorted(found[0]) == sorted(found[1])
    assert found[1].count("FullyConnected") == 3
    names = symbol.list_arguments() + symbol.list_auxiliary_states()
    assert len(names) == 1 + 3 * 6
