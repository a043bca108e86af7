"""Operators written in Python: values, gradients, errors, forks, both engines."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import plait as mx
from plait import autograd, nd


class Add(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] + in_data[1])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0])
        self.assign(in_grad[1], req[1], out_grad[0])


@mx.operator.register("test_add")
class AddProp(mx.operator.CustomOpProp):
    def list_arguments(self):
        return ["a", "b"]

    def create_operator(self, ctx, shapes, dtypes):
        return Add()


class Plus(mx.operator.CustomOp):
    """Adds a number, by way of NumPy: it waits inside."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], nd.array(in_data[0].asnumpy() + self.number))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], nd.array(out_grad[0].asnumpy()))


@mx.operator.register("test_plus")
class PlusProp(mx.operator.CustomOpProp):
    def __init__(self, number="1"):
        super().__init__()
        assert isinstance(number, str)
        self.number = float(number)

    def create_operator(self, ctx, shapes, dtypes):
        return Plus(self.number)


def one_output(name, forward, backward=None, need_top_grad=True, **methods):
    """Registers an operator of one argument from plain functions."""

    class Op(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            forward(is_train, req, in_data, out_data, aux)

        def backward(self, *args):
            backward(*args)

    class Prop(mx.operator.CustomOpProp):
        def __init__(self):
            super().__init__(need_top_grad)

        def create_operator(self, ctx, shapes, dtypes):
            return Op()

    for method, function in methods.items():
        setattr(Prop, method, function)
    mx.operator.register(name)(Prop)


def test_forward_and_backward():
    a, b = nd.array([1, 2, 3]), nd.array([4, 5, 6])
    a.attach_grad()
    b.attach_grad()
    with autograd.record():
        c = nd.Custom(a, b, op_type="test_add")
    c.backward(nd.array([7, 8, 9]))
    assert c.asnumpy().tolist() == [5, 7, 9]
    assert a.grad.asnumpy().tolist() == [7, 8, 9]
    assert b.grad.asnumpy().tolist() == [7, 8, 9]


def test_arrays_by_name_and_in_any_order():
    a, b = nd.array([1.0]), nd.array([10.0])
    one_output(
        "test_minus",
        lambda t, r, x, y, s: y[0].__setitem__(slice(None), x[0] - x[1]),
        list_arguments=lambda self: ["lhs", "rhs"],
    )
    assert nd.Custom(rhs=a, lhs=b, op_type="test_minus").asscalar() == 9
    assert nd.Custom(b, rhs=a, op_type="test_minus", name="m").asscalar() == 9


def test_parameters_arrive_as_strings():
    assert nd.Custom(
        nd.ones(2), op_type="test_plus", number=2.5
    ).asnumpy().tolist() == [3.5, 3.5]


@pytest.mark.parametrize("lazy", [True, False])
def test_a_chain_of_operators_that_wait_inside(lazy):
    before = mx._plait.set_lazy(lazy)
    try:
        x = nd.zeros((3,))
        x.attach_grad()
        with autograd.record():
            y = x
            for _ in range(16):
                y = nd.Custom(y * 1, op_type="test_plus", number=1)
        y.backward()
        assert y.asnumpy().tolist() == [16] * 3
        assert x.grad.asnumpy().tolist() == [1] * 3
    finally:
        mx._plait.set_lazy(before)


@pytest.mark.parametrize("req,expected", [("write", 3.0), ("add", 6.0), ("null", 0.0)])
def test_gradient_requests(req, expected):
    seen = []

    def backward(reqs, dy, x, y, dx, aux):
        seen.append(list(reqs))
        dx[0][:] = dy[0] * 3
        dx[1][:] = dy[0] * 5

    one_output(
        "test_req",
        lambda t, r, x, y, s: y[0].__setitem__(slice(None), x[0] + x[1]),
        backward,
        list_arguments=lambda self: ["a", "b"],
    )
    a, b = nd.ones(2), nd.ones(2)
    a.attach_grad(grad_req=req)
    b.attach_grad()
    for _ in range(2):
        with autograd.record():
            y = nd.Custom(a, b, op_type="test_req")
        y.backward()
    assert a.grad.asnumpy().tolist() == [expected] * 2
    assert b.grad.asnumpy().tolist() == [5, 5]
    assert seen == [["null" if req == "null" else "write", "write"]] * 2


def test_a_gradient_by_two_ways_is_summed():
    x = nd.array([2.0])
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, x, op_type="test_add") * x
    y.backward()
    assert x.grad.asscalar() == 8  # d(2x * x)


def test_auxiliary_states_are_changed_by_forward_and_seen_by_backward():
    def forward(is_train, req, x, y, aux):
        aux[0][:] = aux[0] + 1
        y[0][:] = x[0] * aux[0]

    def backward(req, dy, x, y, dx, aux):
        dx[0][:] = dy[0] * aux[0]

    one_output(
        "test_aux",
        forward,
        backward,
        list_auxiliary_states=lambda self: ["count"],
        infer_shape=lambda self, s: (s, s, s),
    )
    x, count = nd.ones(3), nd.zeros(3)
    x.attach_grad()
    for turn in (1, 2, 3):
        with autograd.record():
            y = nd.Custom(x, count, op_type="test_aux")
        y.backward()
        assert count.asnumpy().tolist() == y.asnumpy().tolist() == [turn] * 3
        assert x.grad.asnumpy().tolist() == [turn] * 3


def test_several_outputs_without_inputs():
    class Op(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            assert in_data == []
            out_data[0][:] = 1
            out_data[1][:] = 2

    @mx.operator.register("test_source")
    class Prop(mx.operator.CustomOpProp):
        def __init__(self, length):
            super().__init__()
            self.length = int(length)

        def list_arguments(self):
            return []

        def list_outputs(self):
            return ["ones", "twos"]

        def infer_shape(self, in_shape):
            return [], [(self.length,), (2, 2)]

        def infer_type(self, in_type):
            return [], [np.float32, np.int64], []

        def create_operator(self, ctx, shapes, dtypes):
            assert ctx == mx.cpu() and shapes == [] and dtypes == []
            return Op()

    ones, twos = nd.Custom(op_type="test_source", length=3)
    assert ones.asnumpy().tolist() == [1, 1, 1] and twos.asnumpy().tolist() == [
        [2, 2],
        [2, 2],
    ]
    assert twos.dtype == np.int64


def test_training_mode_and_modes_inside():
    seen = []

    def forward(is_train, req, x, y, aux):
        seen.append((is_train, autograd.is_recording(), autograd.is_training()))
        y[0][:] = x[0]

    one_output("test_modes", forward)
    x = nd.ones(1)
    nd.Custom(x, op_type="test_modes").wait_to_read()
    with autograd.record():
        nd.Custom(x, op_type="test_modes").wait_to_read()
        assert autograd.is_recording() and autograd.is_training()
    assert seen == [(False, False, False), (True, False, True)]


def test_recording_inside_a_callback():
    def backward(req, dy, x, y, dx, aux):
        z = x[0].copy()
        z.attach_grad()
        with autograd.record():
            w = z**3
        w.backward(dy[0])
        dx[0][:] = z.grad

    one_output(
        "test_inner",
        lambda t, r, x, y, s: y[0].__setitem__(slice(None), x[0] ** 3),
        backward,
    )
    x = nd.array([2.0, 3.0])
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="test_inner")
    y.backward()
    assert x.grad.asnumpy().tolist() == [12, 27]


def test_a_loss_needs_no_head_gradient():
    seen = []

    def backward(req, dy, x, y, dx, aux):
        seen.extend([x[0] is None, y[0] is not None])
        dx[0][:] = y[0] - 1

    one_output(
        "test_loss",
        lambda t, r, x, y, s: y[0].__setitem__(slice(None), x[0] * 2),
        backward,
        need_top_grad=False,
        declare_backward_dependency=lambda self, g, i, o: o,
    )
    x = nd.array([4.0])
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="test_loss")
    y.backward()
    assert x.grad.asscalar() == 7 and seen == [True, True]


def test_out_is_overwritten():
    out = nd.zeros(3)
    assert nd.Custom(nd.ones(3), op_type="test_plus", out=out) is out
    assert out.asnumpy().tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match=r"out has shapes \[\(4,\)\]"):
        nd.Custom(nd.ones(3), op_type="test_plus", out=nd.zeros(4))


def test_later_writes_of_an_input_wait_for_the_call():
    release = threading.Event()
    one_output(
        "test_slow",
        lambda t, r, x, y, s: (release.wait(0.05), y[0].__setitem__(slice(None), x[0])),
    )
    x = nd.ones(4)
    y = nd.Custom(x, op_type="test_slow")
    x[:] = 9
    assert y.asnumpy().tolist() == [1] * 4 and x.asnumpy().tolist() == [9] * 4


def raising(error):
    def forward(is_train, req, x, y, aux):
        raise error

    return forward


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("zero"),
        KeyError("key"),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "bad"),
        mx.error.MXNetValueError("own"),
    ],
)
def test_an_exception_is_raised_once_at_the_first_wait(error):
    one_output("test_raise", raising(error))
    y = nd.Custom(nd.ones(2), op_type="test_raise")
    z = y + 1
    with pytest.raises(mx.MXNetError, match="test_raise, forward") as info:
        z.asnumpy()
    if not isinstance(error, UnicodeDecodeError):
        assert isinstance(info.value, type(error))
    assert "in forward" in str(info.value)  # with the callback's own lines
    assert np.isnan(y.asnumpy()).all()
    nd.waitall()
    assert nd.Custom(nd.ones(2), op_type="test_plus").asnumpy().tolist() == [2, 2]


def test_an_exception_in_backward_is_raised_at_the_gradient():
    def backward(*args):
        raise ZeroDivisionError("in backward")

    one_output(
        "test_raise_back",
        lambda t, r, x, y, s: y[0].__setitem__(slice(None), x[0]),
        backward,
    )
    x = nd.ones(2)
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="test_raise_back")
    y.backward()
    with pytest.raises(ZeroDivisionError, match="in backward"):
        x.grad.asnumpy()


def test_an_error_of_work_that_a_callback_left_under_way():
    def forward(is_train, req, x, y, aux):
        y[0][:] = nd.random.normal(0, -1, shape=(2,))

    one_output("test_left", forward)
    y = nd.Custom(nd.ones(2), op_type="test_left")
    with pytest.raises(mx.MXNetError):
        y.asnumpy()


def test_waitall_raises_the_exception_of_a_callback():
    one_output("test_raise", raising(ZeroDivisionError("zero")))
    y = nd.Custom(nd.ones(2), op_type="test_raise")
    with pytest.raises(ZeroDivisionError):
        nd.waitall()
    nd.waitall()
    del y


def test_wrong_calls():
    with pytest.raises(ValueError, match="op_type is 'no_such'"):
        nd.Custom(nd.ones(1), op_type="no_such")
    with pytest.raises(ValueError, match="2 were expected"):
        nd.Custom(nd.ones(1), op_type="test_add")
    with pytest.raises(ValueError, match="2 were expected"):
        nd.Custom(nd.ones(1), c=nd.ones(1), op_type="test_add")
    with pytest.raises(TypeError, match="an NDArray was expected"):
        nd.Custom(np.ones(1), op_type="test_plus")
    with pytest.raises(TypeError, match="constructor of PlusProp"):
        nd.Custom(nd.ones(1), op_type="test_plus", nosuch=1)
    with pytest.raises(TypeError, match="CustomOpProp was expected"):
        mx.operator.register("bad")(Add)
    one_output("test_shapes", None, infer_shape=lambda self, s: ([(7,)], s, []))
    with pytest.raises(ValueError, match=r"data has shape \(1,\); \(7,\) was expected"):
        nd.Custom(nd.ones(1), op_type="test_shapes")
    one_output("test_shapes", None, infer_shape=lambda self, s: (s, [], []))
    with pytest.raises(ValueError, match="got 0 shapes for 1 arrays"):
        nd.Custom(nd.ones(1), op_type="test_shapes")


def test_no_second_gradient():
    x = nd.ones(1)
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="test_plus")
        dx = autograd.grad(y, [x], create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="has no gradient itself"):
        dx.backward()


def test_nothing_is_kept_alive():
    import weakref

    class Op(Plus):
        pass

    made = []

    class Prop(PlusProp):
        def create_operator(self, ctx, shapes, dtypes):
            op = Op(1)
            made.append(weakref.ref(op))
            return op

    mx.operator.register("test_alive")(Prop)
    x = nd.ones(2)
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="test_alive")
    y.backward()
    x.grad.wait_to_read()
    del y
    nd.waitall()  # lets go of what ended operations held
    assert made[0]() is None


def test_many_threads_call_at_once():
    failures = []

    def work(k):
        for i in range(20):
            y = nd.Custom(nd.full((3,), i), op_type="test_plus", number=k)
            if y.asnumpy().tolist() != [i + k] * 3:
                failures.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []


def in_child(work):
    """Runs work in a forked child; its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_in_a_forked_child():
    test_forward_and_backward()

    def work():
        test_forward_and_backward()
        test_a_chain_of_operators_that_wait_inside(True)

    assert in_child(work) == 0
    test_forward_and_backward()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_while_callbacks_run():
    for _ in range(10):
        y = nd.ones(3)
        for _ in range(5):
            y = nd.Custom(y, op_type="test_plus")
        assert in_child(test_forward_and_backward) == 0
        assert y.asnumpy().tolist() == [6] * 3


SCRIPT = """
    import plait as mx
    from plait import autograd, nd

    class Op(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            out_data[0][:] = nd.array(in_data[0].asnumpy()) + 1
        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            in_grad[0][:] = out_grad[0] * 2

    @mx.operator.register("op")
    class Prop(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Op()

    x = nd.zeros((2,))
    x.attach_grad()
    with autograd.record():
        y = x
        for _ in range(16):
            y = nd.Custom(y, op_type="op")
    y.backward()
"""


def run_script(text, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        timeout=60,
        capture_output=True,
        text=True,
        env=dict(os.environ, **environment),
    )


@pytest.mark.parametrize(
    "environment",
    [
        {"PLAIT_ENGINE": "serial"},
        {"PLAIT_WORKERS": "1"},
        {"MXNET_CPU_WORKER_NTHREADS": "1"},
    ],
)
def test_engines_agree(environment):
    done = run_script(
        SCRIPT + "    print(y.asnumpy(), x.grad.asnumpy())\n", **environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[16. 16.] [65536. 65536.]\n"


def test_calls_under_way_at_exit_are_finished():
    done = run_script(SCRIPT)
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_lists_of_operators():
    names = mx.operator.get_all_registered_operators()
    assert "FullyConnected" in names and "dot" in names
    groups = mx.operator.get_all_registered_operators_grouped()
    assert all(name in group for name, group in groups.items())
    found = mx.operator.get_operator_arguments("FullyConnected")
    assert found.narg == len(found.names) == len(found.types)
    assert found.names[:3] == ["data", "weight", "bias"] and "num_hidden" in found.names
    found = mx.operator.get_operator_arguments("Activation")
    kinds = "{'relu', 'sigmoid', 'softrelu', 'softsign', 'tanh'}, required"
    assert found == (2, ["data", "act_type"], ["NDArray-or-Symbol", kinds])
