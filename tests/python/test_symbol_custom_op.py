"""Custom operators as nodes of graphs: names, inference, both directions, threads."""

import threading

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd, sym


class Softmax(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(axis=1, keepdims=True))
        self.assign(out_data[0], req[0], nd.array(y / y.sum(axis=1, keepdims=True)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        label = in_data[1].asnumpy().astype("int64")
        y = out_data[0].asnumpy().copy()
        y[np.arange(len(label)), label] -= 1
        self.assign(in_grad[0], req[0], nd.array(y))


@mx.operator.register("symbol_softmax")
class SoftmaxProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return Softmax()


class Scale(mx.operator.CustomOp):
    """Keeps a mask between forward and backward, and counts in a state."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, is_train, req, in_data, out_data, aux):
        self.kept = in_data[0] * self.factor  # of the last forward
        self.assign(out_data[0], req[0], in_data[0] * self.kept)
        self.assign(out_data[1], req[1], in_data[0] + 1)
        aux[0][:] += 1

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], 2 * self.kept * out_grad[0] + out_grad[1])


@mx.operator.register("symbol_scale")
class ScaleProp(mx.operator.CustomOpProp):
    def __init__(self, factor="1"):
        super().__init__()
        assert isinstance(factor, str)
        self.factor = float(factor)

    def list_outputs(self):
        return ["scaled", "more"]

    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0], in_shape[0]], [(1,)]

    def create_operator(self, ctx, shapes, dtypes):
        return Scale(self.factor)


class Raises(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        raise KeyError("this is meant")


@mx.operator.register("symbol_raises")
class RaisesProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Raises()


def test_names_and_files():
    net = sym.Custom(sym.var("x"), op_type="symbol_scale", factor=2.5, name="c")
    assert net.list_arguments() == ["x"]
    assert net.list_auxiliary_states() == ["c_count"]
    assert net.list_outputs() == ["c_scaled", "c_more"]
    assert net.attr_dict()["c"] == {"op_type": "symbol_scale", "factor": "2.5"}
    text = net.tojson()
    assert '"node_row_ptr": [0, 1, 2, 4]' in text
    again = sym.load_json(text)
    assert again.tojson() == text and again.list_outputs() == net.list_outputs()


def test_missing_inputs_become_variables():
    net = sym.Custom(data=sym.var("x"), op_type="symbol_softmax", name="softmax")
    assert net.list_arguments() == ["x", "softmax_label"]
    shapes, outs, _ = net.infer_shape(x=(4, 3))
    assert shapes == [(4, 3), (4,)] and outs == [(4, 3)]
    assert net.infer_shape_partial()[0] == [(), ()]
    types, outs, _ = net.infer_type(x="float64")
    assert types[0] == np.float64 and outs == [np.float64]


def test_forward_and_backward_with_a_state():
    net = sym.Custom(sym.var("x") * 2, op_type="symbol_scale", factor=3, name="c")
    total = sym.sum(net[0]) + sym.sum(net[1] * 5)
    x, dx, count = nd.array([1, 2, 3]), nd.ones((3,)), nd.zeros((1,))
    exe = total.bind(mx.cpu(), {"x": x}, {"x": dx}, "add", {"c_count": count})
    y = exe.forward(is_train=True)[0].asscalar()
    exe.backward()
    z = 2 * x.asnumpy()
    assert y == (3 * z * z).sum() + (5 * (z + 1)).sum()
    np.testing.assert_allclose(dx.asnumpy(), 1 + 2 * (6 * z + 5))
    exe.forward(is_train=False)
    assert count.asscalar() == 2


def test_two_forwards_before_a_backward_keep_their_own_operators():
    net = sym.Custom(sym.var("x"), op_type="symbol_scale", factor=3, name="c")
    grads = []
    bound = []
    for value in (1.0, 10.0):
        x, dx = nd.array([value]), nd.zeros((1,))
        exe = net.bind(
            mx.cpu(), {"x": x}, {"x": dx}, "write", {"c_count": nd.zeros((1,))}
        )
        exe.forward(is_train=True)
        bound.append((exe, dx))
    for exe, dx in bound:
        exe.backward([nd.ones((1,)), nd.zeros((1,))])
        grads.append(dx.asscalar())
    assert grads == [6, 60]


def test_module_with_a_custom_loss():
    data = sym.var("data")
    net = sym.FullyConnected(data, num_hidden=3, name="fc")
    net = sym.Custom(data=net, op_type="symbol_softmax", name="softmax")
    x = np.random.RandomState(0).rand(64, 5).astype("float32")
    label = x[:, :3].argmax(axis=1).astype("float32")
    batches = mx.io.NDArrayIter(x, label, 16, label_name="softmax_label")
    module = mx.mod.Module(net)
    module.fit(
        batches,
        num_epoch=40,
        optimizer_params={"learning_rate": 0.1},
        eval_metric="acc",
    )
    assert module.score(batches, "acc")[0][1] > 0.8


class Layer(gluon.HybridBlock):
    def hybrid_forward(self, F, x):
        y = F.Custom(x * 2, op_type="symbol_plus_mean")
        return y * x


class PlusMean(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] + in_data[0].mean())

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] + out_grad[0].mean())


@mx.operator.register("symbol_plus_mean")
class PlusMeanProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return PlusMean()


def test_hybridized_blocks():
    block = Layer()
    x = nd.array([[1, 2], [3, 4]])
    x.attach_grad()
    results = []
    for hybridize in (False, True):
        if hybridize:
            block.hybridize()
        with autograd.record():
            y = block(x)
        y.backward()
        results.append((y.asnumpy(), x.grad.asnumpy()))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_allclose(results[0][1], results[1][1])


def test_in_a_loop():
    out, last = sym.contrib.foreach(
        lambda x, s: (sym.Custom(x + s, op_type="symbol_plus_mean"), s + x),
        sym.var("x"),
        sym.var("s"),
    )
    graph = sym.Group([out, last])
    x, dx = nd.arange(6).reshape((3, 2)), nd.zeros((3, 2))
    exe = graph.bind(mx.cpu(), {"x": x, "s": nd.zeros((2,))}, {"x": dx})
    y = exe.forward(is_train=True)[0].asnumpy()
    sums = np.cumsum(x.asnumpy(), axis=0)
    np.testing.assert_allclose(y, sums + sums.mean(axis=1, keepdims=True))
    exe.backward([nd.ones((3, 2)), nd.zeros((2,))])
    np.testing.assert_allclose(dx.asnumpy(), [[6, 6], [4, 4], [2, 2]])


def test_errors_name_the_operator():
    with pytest.raises(ValueError, match="op_type is 'nothing_like_it'"):
        sym.Custom(sym.var("x"), op_type="nothing_like_it")
    with pytest.raises(TypeError, match="not an input"):
        sym.Custom(dta=sym.var("x"), op_type="symbol_softmax")
    net = sym.Custom(sym.var("x"), op_type="symbol_raises")
    exe = net.bind(mx.cpu(), {"x": nd.ones((2,))})
    with pytest.raises(KeyError, match="this is meant"):
        exe.forward()[0].asnumpy()
    bad = sym.Custom(data=sym.var("x"), label=sym.var("y"), op_type="symbol_softmax")
    with pytest.raises(ValueError, match="label has shape"):
        bad.infer_shape(x=(4, 3), y=(5,))


def test_several_threads_wait_for_each_other_without_a_deadlock():
    net = sym.Custom(sym.var("x"), op_type="symbol_plus_mean") * 2
    failed = []

    def work(number):
        x = nd.full((50,), number)
        exe = net.bind(mx.cpu(), {"x": x})
        for _ in range(20):
            if exe.forward()[0].asnumpy()[0] != 4 * number:
                failed.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not failed and not any(t.is_alive() for t in threads)


def test_arrays_that_python_keeps_stay_alive():
    kept = []

    class Keep(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            kept.append(in_data[0])
            self.assign(out_data[0], req[0], in_data[0] * 2)

    @mx.operator.register("symbol_keep")
    class KeepProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx, shapes, dtypes):
            return Keep()

    net = sym.Custom(sym.var("x") + 1, op_type="symbol_keep")
    exe = net.bind(mx.cpu(), {"x": nd.ones((1000,))})
    exe.forward()[0].wait_to_read()
    del exe
    assert kept[0].shape == (1000,) and kept[0].asnumpy().sum() == 2000


class _NumpyScale(mx.operator.NumpyOp):
    """y = 3 a + b, in NumPy."""

    def list_arguments(self):
        return ["a", "b"]

    def forward(self, in_data, out_data):
        assert all(isinstance(x, np.ndarray) for x in in_data + out_data)
        out_data[0][:] = 3 * in_data[0] + in_data[1]

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = 3 * out_grad[0]
        in_grad[1][:] = out_grad[0]


class _ArraySquare(mx.operator.NDArrayOp):
    """y = x^2, in NDArrays; a loss: backward reads no head gradient."""

    def forward(self, in_data, out_data):
        out_data[0][:] = in_data[0] * in_data[0]

    def backward(self, out_grad, in_data, out_data, in_grad):
        assert out_grad == [None]
        in_grad[0][:] = 2 * in_data[0]


def test_operators_of_mxnets_first_kind_run_in_graphs():
    with pytest.warns(UserWarning, match="deprecated"):
        scale, square = _NumpyScale(), _ArraySquare(need_top_grad=False)
    y = scale(a=mx.sym.var("p"), b=mx.sym.var("q"), name="scaled")
    assert y.list_outputs() == ["scaled_output"]
    y = square.get_symbol(y, name="loss")
    p, q = mx.nd.array([1.0, 2.0]), mx.nd.array([10.0, 20.0])
    grads = {"p": mx.nd.ones(2), "q": mx.nd.ones(2)}
    exe = y.bind(mx.cpu(), {"p": p, "q": q}, grads, grad_req={"p": "write", "q": "add"})
    np.testing.assert_array_equal(exe.forward(True)[0].asnumpy(), [169, 676])
    exe.backward()
    np.testing.assert_array_equal(grads["p"].asnumpy(), [78, 156])
    np.testing.assert_array_equal(grads["q"].asnumpy(), [27, 53])
    with pytest.warns(UserWarning, match="deprecated"):
        alone = mx.operator.PythonOp()
    with pytest.raises(NotImplementedError, match="neither NumpyOp nor NDArrayOp"):
        alone(mx.sym.var("x"))
