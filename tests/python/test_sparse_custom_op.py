"""Custom operators with sparse arrays: calls, graphs, states, and what goes wrong."""

import numpy as np
import pytest

import plait as mx
from plait import autograd, nd
from plait.ndarray import sparse


class Square(mx.operator.CustomOp):
    """On the stored values; counts its calls in a state."""

    def forward(self, is_train, req, in_data, out_data, aux):
        (x,) = in_data
        assert x.stype == out_data[0].stype
        if x.stype == "csr":
            y = sparse.csr_matrix((x.data * x.data, x.indices, x.indptr), x.shape)
        else:
            y = sparse.row_sparse_array((x.data * x.data, x.indices), x.shape)
        self.assign(out_data[0], req[0], y)
        self.assign(aux[0], "write", aux[0] + 1)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        assert in_grad[0].stype == in_data[0].stype
        self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])
        self.assign(aux[0], "write", aux[0] + 10)


@mx.operator.register("sparse_square")
class SquareProp(mx.operator.CustomOpProp):
    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return in_shape, in_shape, [(1,)]

    def infer_storage_type(self, in_stype):
        return in_stype, in_stype, ["default"]

    def infer_storage_type_backward(self, ograd, in_stype, out_stype, igrad, aux):
        return in_stype, in_stype, out_stype, in_stype, aux

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Square()


def values_of(stype):
    random = np.random.RandomState(0)
    values = random.randn(5, 4) * (random.rand(5, 4) < 0.5)
    values[2] = 0
    return nd.array(values).tostype(stype)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_calls_take_and_give_sparse_arrays(stype):
    x, count = values_of(stype), nd.zeros((1,))
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, count, op_type="sparse_square")
        assert y.stype == stype and count.asscalar() == 1
        z = y * 3
    z.backward()
    assert x.grad.stype == stype and count.asscalar() == 11
    np.testing.assert_allclose(y.asnumpy(), x.asnumpy() ** 2, 1e-6)
    np.testing.assert_allclose(x.grad.asnumpy(), 6 * x.asnumpy(), 1e-6)
    out = nd.zeros((5, 4))
    nd.Custom(x, count, op_type="sparse_square", out=out)
    np.testing.assert_allclose(out.asnumpy(), x.asnumpy() ** 2, 1e-6)


@pytest.mark.parametrize("stype", ["csr", "row_sparse"])
def test_graphs_have_them_too(stype):
    data = mx.sym.Variable("data", stype=stype)
    node = mx.sym.Custom(data=data, op_type="sparse_square", name="square")
    symbol = mx.sym.sum(node * mx.sym.Variable("w"), axis=1)
    assert node.infer_storage_type() == ([stype], [stype], ["default"])
    x, w = values_of(stype), nd.array(np.random.RandomState(1).randn(5, 4))
    grads = {"data": values_of(stype), "w": nd.zeros((5, 4))}
    count = nd.zeros((1,))
    executor = symbol.bind(mx.cpu(), [x, w], grads, aux_states=[count])
    for step in range(2):
        (y,) = executor.forward(is_train=True)
        executor.backward(nd.ones((5,)))
        assert count.asscalar() == 11 * (step + 1)
    np.testing.assert_allclose(
        y.asnumpy(), (x.asnumpy() ** 2 * w.asnumpy()).sum(1), 1e-5
    )
    np.testing.assert_allclose(
        grads["data"].asnumpy(), 2 * x.asnumpy() * w.asnumpy(), 1e-5
    )
    np.testing.assert_allclose(grads["w"].asnumpy(), x.asnumpy() ** 2, 1e-5)
    assert grads["data"].stype == stype


class Halves(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] / 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] / 2)


@mx.operator.register("dense_halves")
class HalvesProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Halves()


def test_others_get_dense_arrays():
    x = values_of("csr")
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="dense_halves")
    y.backward()
    assert y.stype == "default" and (x.grad.asnumpy() == 0.5).all()


def wrong(name, forward, backward=None):
    class Prop(HalvesProp):
        def infer_storage_type(self, in_stype):
            return forward

        def infer_storage_type_backward(self, *stypes):
            return backward

    mx.operator.register(name)(Prop)


wrong("wrong_count", (["csr"], ["csr", "csr"], []))
wrong("wrong_word", (["csr"], ["coo"], []))
wrong("wrong_backward", (["csr"], ["csr"], []), (["csr"],))


def test_storages_that_cannot_be_name_the_operator():
    x = values_of("csr")
    with pytest.raises(mx.MXNetError, match="wrong_count.*gives 2 storages"):
        nd.Custom(x, op_type="wrong_count")
    with pytest.raises(mx.MXNetError, match="wrong_word.*'coo'"):
        nd.Custom(x, op_type="wrong_word")
    with pytest.raises(mx.MXNetError, match="wrong_word.*'coo'"):
        mx.sym.Custom(
            mx.sym.Variable("x", stype="csr"), op_type="wrong_word"
        ).infer_storage_type()
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="wrong_backward")
    with pytest.raises(mx.MXNetError, match="wrong_backward.*gives 1 lists"):
        y.backward()
        x.grad.wait_to_read()


def test_what_forward_raises_comes_at_the_call():
    @mx.operator.register("sparse_fails")
    class Prop(SquareProp):
        def create_operator(self, ctx, in_shapes, in_dtypes):
            class Fails(mx.operator.CustomOp):
                def forward(self, *args):
                    raise KeyError("no luck")

            return Fails()

    with pytest.raises(mx.MXNetError, match="(?s)sparse_fails, forward.*no luck"):
        nd.Custom(values_of("csr"), nd.zeros((1,)), op_type="sparse_fails")
