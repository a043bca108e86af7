"""Sparse values in graphs: their storage, and that values are those of calls."""

import numpy as np
import pytest

import plait as mx
from plait import autograd, nd
from plait.ndarray import _sparse_calls, sparse
from plait.ndarray._core import op as call_of
from plait.symbol._op import op as symbol_of


def csr(shape, seed=0, density=0.4):
    random = np.random.RandomState(seed)
    values = random.randn(*shape) * (random.rand(*shape) < density)
    return nd.array(values).tostype("csr")


def rows(shape, seed=0):
    random = np.random.RandomState(seed)
    values = random.randn(*shape)
    values[random.rand(shape[0]) < 0.5] = 0
    return nd.array(values).tostype("row_sparse")


MADE = {
    "csr": csr,
    "row_sparse": rows,
    "default": lambda s, seed=0: nd.array(np.random.RandomState(seed).randn(*s)),
}

# Operators of two inputs, or one, with the params of a call.
CALLS = [
    ("abs", 1, {}),
    ("_mul_scalar", 1, {"scalar": 2.0}),
    ("_plus_scalar", 1, {"scalar": 2.0}),
    ("_plus_scalar", 1, {"scalar": 0.0}),
    ("_scatter_plus_scalar", 1, {"scalar": 2.0}),
    ("_scatter_minus_scalar", 1, {"scalar": 2.0}),
    ("clip", 1, {"a_min": -1.0, "a_max": 1.0}),
    ("clip", 1, {"a_min": 0.5, "a_max": 1.0}),
    ("_contrib_quadratic", 1, {"a": 1.0, "b": 2.0}),
    ("_contrib_quadratic", 1, {"a": 1.0, "b": 2.0, "c": 3.0}),
    ("zeros_like", 1, {}),
    ("sigmoid", 1, {}),
    ("cast_storage", 1, {"stype": "default"}),
    ("slice", 1, {"begin": (1,), "end": (3,)}),
    ("sum", 1, {"axis": 1}),
    ("norm", 1, {}),
    ("_square_sum", 1, {"axis": 1, "keepdims": True}),
    ("_square_sum", 1, {"axis": 0}),
    ("elemwise_add", 2, {}),
    ("elemwise_sub", 2, {}),
    ("elemwise_mul", 2, {}),
    ("elemwise_div", 2, {}),
    ("_scatter_elemwise_div", 2, {}),
    ("_maximum", 2, {}),
    ("_minimum", 2, {}),
    ("_hypot", 2, {}),
    ("add_n", 2, {}),
    ("Concat", 2, {"dim": 0}),
    ("Concat", 2, {"dim": 1}),
    ("dot", 2, {"transpose_a": True}),
    ("dot", 2, {"transpose_b": True}),
]


@pytest.mark.parametrize("name, count, params", CALLS)
def test_storage_is_inferred_as_calls_give_it(name, count, params):
    stypes = list(MADE)
    for left in stypes:
        for right in stypes if count == 2 else [None]:
            arrays = [MADE[left]((4, 3))]
            variables = [mx.sym.Variable("x", stype=left)]
            if count == 2:
                arrays.append(MADE[right]((4, 3), 1))
                variables.append(mx.sym.Variable("y", stype=right))
            called = call_of(name)
            result = called(*arrays, **params)
            made = symbol_of(name)
            symbol = made(*variables, **params)
            _, (inferred,), _ = symbol.infer_storage_type()
            assert inferred == result.stype, (name, left, right)
            executor = symbol.bind(mx.cpu(), arrays)
            (output,) = executor.forward()
            assert output.stype == inferred and output is executor.outputs[0]
            np.testing.assert_array_equal(output.asnumpy(), result.asnumpy())
            dense = [x.tostype("default") for x in arrays]
            if not name.startswith("_scatter"):
                expected = called(*dense, **params).asnumpy()
                np.testing.assert_allclose(output.asnumpy(), expected, 1e-5, 1e-6)


def test_every_rule_stands_beside_its_function():
    for name, (function, rule) in _sparse_calls._TABLE.items():
        assert callable(function) and callable(rule), name
        assert name in mx._plait.op_names(), name


def test_variables_and_given_storages():
    x = mx.sym.Variable("x", stype="csr")
    w = mx.sym.Variable("w")
    y = mx.sym.dot(x, w)
    z = mx.sym.dot(x, y, transpose_a=True)
    both = mx.sym.Group([y, z])
    assert both.infer_storage_type() == (
        ["csr", "default"], ["default", "row_sparse"], [],
    )  # fmt: skip
    assert both.infer_storage_type(x="default")[1] == ["default", "default"]
    with pytest.raises(mx.MXNetError, match="no variable 'q'"):
        both.infer_storage_type(q="csr")


def wide_and_deep():
    x = mx.sym.Variable("x", stype="csr")
    w = mx.sym.Variable("w", stype="row_sparse")
    hidden = mx.sym.dot(x, w) + mx.sym.dot(mx.sym.square(x), w)
    hidden = mx.sym.Activation(mx.sym.BatchNorm(hidden, name="bn"), act_type="tanh")
    out = mx.sym.FullyConnected(hidden, num_hidden=2, name="fc")
    return mx.sym.SoftmaxOutput(out, name="softmax")


def test_a_network_behind_sparse_data_is_the_dense_one():
    symbol = wide_and_deep()
    staged = symbol.simple_bind(mx.cpu(), x=(6, 20), w=(20, 8), softmax_label=(6,))
    assert staged.arg_dict["x"].stype == "csr"
    assert staged.arg_dict["w"].stype == "row_sparse"
    assert staged.grad_dict["w"].stype == "row_sparse"
    dense = symbol.bind(
        mx.cpu(),
        {n: nd.zeros(x.shape) for n, x in staged.arg_dict.items()},
        {n: nd.zeros(x.shape) for n, x in staged.arg_dict.items()},
        aux_states={n: nd.zeros(x.shape) for n, x in staged.aux_dict.items()},
    )
    random = np.random.RandomState(3)
    for name, array in staged.arg_dict.items():
        value = nd.array(random.randn(*array.shape))
        value = csr(array.shape) if name == "x" else value
        array[:] = value
        dense.arg_dict[name][:] = value.tostype("default")
    for executor in (staged, dense):
        executor.aux_dict["bn_moving_var"][:] = 1
    for step in range(2):
        for executor in (staged, dense):
            executor.forward(is_train=True, x=csr((6, 20), step))
            executor.backward()
        np.testing.assert_allclose(
            staged.outputs[0].asnumpy(), dense.outputs[0].asnumpy(), 1e-5, 1e-6
        )
        for name in ("w", "fc_weight", "bn_beta"):
            np.testing.assert_allclose(
                staged.grad_dict[name].asnumpy(),
                dense.grad_dict[name].asnumpy(),
                1e-4,
                1e-5,
            )
        for name, array in staged.aux_dict.items():
            expected = dense.aux_dict[name].asnumpy()
            np.testing.assert_allclose(array.asnumpy(), expected, 1e-5, 1e-6)
    used = np.flatnonzero(csr((6, 20), 1).asnumpy().any(axis=0))
    assert set(staged.grad_dict["w"].indices.asnumpy()) <= set(used)
    staged.forward(is_train=False)
    dense.forward(is_train=False)
    np.testing.assert_allclose(
        staged.outputs[0].asnumpy(), dense.outputs[0].asnumpy(), 1e-5, 1e-6
    )


def test_dense_operators_are_few_compiled_graphs():
    from plait.symbol.staged import StagedGraph

    stages = StagedGraph(wide_and_deep(), {})._stages
    names = [stage.__name__ for stage in stages]
    assert names == ["call"] * 3 + ["run"], names  # dot, square, dot, and the rest


def test_a_monitor_sees_what_operators_give():
    seen = {}
    executor = wide_and_deep().simple_bind(
        mx.cpu(), x=(6, 20), w=(20, 8), softmax_label=(6,)
    )
    executor.set_monitor_callback(lambda name, x: seen.__setitem__(name, x.stype))
    executor.forward(is_train=True)
    squares = [stype for name, stype in seen.items() if name.startswith("square")]
    assert squares == ["csr"]
    assert "softmax_output" in seen and "fc_output" in seen


def test_requests_of_gradients():
    x, w = mx.sym.Variable("x", stype="csr"), mx.sym.Variable("w")
    symbol = mx.sym.dot(x, w)
    data, weight = csr((5, 7)), nd.ones((7, 2))
    head = nd.ones((5, 2))
    expected = data.asnumpy().T @ head.asnumpy()
    for stype in ("default", "row_sparse"):
        for request in ("write", "add", "null"):
            grad = nd.ones((7, 2)).tostype(stype)
            executor = symbol.bind(
                mx.cpu(),
                {"x": data, "w": weight},
                {"w": grad},
                {"x": "null", "w": request},
            )
            for _ in range(2):
                executor.forward(is_train=True)
                executor.backward(head)
            factor, start = {"write": (1, 0), "add": (2, 1), "null": (0, 1)}[request]
            got = grad.asnumpy()
            np.testing.assert_allclose(got, factor * expected + start, 1e-5, 1e-6)
            assert grad.stype == stype


def test_embedding_gradients_are_as_sparse_grad_says():
    for sparse_grad in (True, False):
        for stype in ("default", "row_sparse"):
            w = mx.sym.Variable("w", stype=stype)
            symbol = mx.sym.Embedding(
                mx.sym.Variable("x"), w, input_dim=9, output_dim=2,
                sparse_grad=sparse_grad,
            )  # fmt: skip
            executor = symbol.simple_bind(mx.cpu(), {"x": "null", "w": "write"}, x=(3,))
            grad = executor.grad_dict["w"]
            assert grad.stype == ("row_sparse" if sparse_grad else "default")
            executor.forward(is_train=True, x=nd.array([3, 5, 3]))
            executor.backward(nd.ones((3, 2)))
            expected = np.zeros((9, 2))
            expected[3], expected[5] = 2, 1
            np.testing.assert_array_equal(grad.asnumpy(), expected)
            if sparse_grad:
                assert grad.indices.asnumpy().tolist() == [3, 5]


def test_out_is_no_input_of_a_symbol():
    x, y = mx.sym.Variable("x"), mx.sym.Variable("y")
    assert (x + y).list_arguments() == mx.sym.elemwise_add(x, y, out=x).list_arguments()


def test_batch_norm_with_fixed_gamma_takes_no_sparse_arrays():
    x = rows((4, 3))
    ones = nd.ones((3,))
    with pytest.raises(mx.MXNetError, match="fix_gamma"):
        nd.BatchNorm(x, ones, ones, ones, ones)
    symbol = mx.sym.BatchNorm(mx.sym.Variable("x", stype="row_sparse"))
    with pytest.raises(mx.MXNetError, match="fix_gamma"):
        symbol.infer_storage_type()


def test_states_of_any_storage_are_written():
    x, ones = rows((4, 3)), nd.ones((3,))
    dense, sparse_states = (
        [nd.zeros((3,)).tostype(s), nd.ones((3,)).tostype(s)]
        for s in ("default", "row_sparse")
    )
    symbol = mx.sym.BatchNorm(
        mx.sym.Variable("x", stype="row_sparse"), fix_gamma=False, name="bn"
    )
    executor = symbol.bind(
        mx.cpu(),
        [x, ones, nd.zeros((3,))],
        aux_states=[s.copy() for s in sparse_states],
    )
    with autograd.train_mode():
        for states in (dense, sparse_states):
            nd.BatchNorm(x, ones, nd.zeros((3,)), *states, fix_gamma=False)
        executor.forward(is_train=True)
    for one, other, third in zip(dense, sparse_states, executor.aux_arrays):
        assert other.stype == "row_sparse"
        np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())
        np.testing.assert_array_equal(one.asnumpy(), third.asnumpy())
    assert abs(dense[0].asnumpy()).max() > 0


def test_scatter_operators_touch_stored_values_only():
    x = csr((4, 5))
    y = mx.nd._internal._scatter_plus_scalar(x, scalar=3.0)
    assert y.stype == "csr"
    np.testing.assert_array_equal(y.data.asnumpy(), x.data.asnumpy() + 3)
    zeros = nd.zeros((4, 5))
    y = mx.nd._internal._scatter_elemwise_div(rows((4, 5)), zeros)
    assert y.indices.asnumpy().tolist() == rows((4, 5)).indices.asnumpy().tolist()


def test_module_trains_from_sparse_batches():
    random = np.random.RandomState(0)
    data = random.randn(64, 30) * (random.rand(64, 30) < 0.2)
    labels = (data @ random.randn(30) > 0).astype("float32")
    w = mx.sym.Variable("weight", stype="row_sparse", shape=(30, 2))
    symbol = mx.sym.SoftmaxOutput(
        mx.sym.dot(mx.sym.Variable("data", stype="csr"), w), name="softmax"
    )
    iterator = mx.io.NDArrayIter(
        sparse.csr_matrix(nd.array(data).tostype("csr")), labels, 16,
        last_batch_handle="discard",
    )  # fmt: skip
    module = mx.mod.Module(symbol)
    metric = mx.metric.Accuracy()
    module.fit(
        iterator,
        num_epoch=12,
        optimizer_params={"learning_rate": 1.0},
        initializer=mx.init.Zero(),
        eval_metric=metric,
    )
    assert module._exec_group.execs[0].arg_dict["data"].stype == "csr"
    assert metric.get()[1] > 0.9
    with autograd.pause():
        assert module.get_params()[0]["weight"].stype == "row_sparse"


class Wide(mx.gluon.HybridBlock):
    """dot of sparse data, and an embedding, before dense layers."""

    def __init__(self, sparse_grad):
        super().__init__()
        kind = "row_sparse" if sparse_grad else "default"
        with self.name_scope():
            self.table = self.params.get("table", shape=(30, 4), grad_stype=kind)
            self.words = mx.gluon.nn.Embedding(20, 4, sparse_grad=sparse_grad)
            self.out = mx.gluon.nn.HybridSequential()
            self.out.add(mx.gluon.nn.Dense(5, activation="tanh"), mx.gluon.nn.Dense(2))

    def hybrid_forward(self, F, x, words, table):
        return self.out(F.dot(x, table) + self.words(words).sum(axis=1))


@pytest.mark.parametrize("sparse_grad", [True, False])
@pytest.mark.parametrize("sparse_data", [True, False])
def test_hybridized_blocks_are_as_they_were(sparse_grad, sparse_data):
    results = []
    for hybrid in (False, True):
        mx.random.seed(4)
        net = Wide(sparse_grad)
        net.initialize(mx.init.Uniform(0.5))
        if hybrid:
            net.hybridize()
        trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
        random = np.random.RandomState(1)
        for step in range(4):
            x = csr((6, 30), step)
            x = x if sparse_data else x.tostype("default")
            words = nd.array(random.randint(0, 20, (6, 3)))
            with autograd.record():
                loss = (net(x, words) ** 2).sum()
            loss.backward()
            trainer.step(6)
        params = [p for _, p in sorted(net.collect_params().items())]
        grads = [p.grad() for p in params]
        assert [g.stype for g in grads].count("row_sparse") == 2 * sparse_grad
        if sparse_grad:
            table = net.words.weight.grad()
            used = np.unique(words.asnumpy()).astype(int).tolist()
            assert table.indices.asnumpy().tolist() == used
        results.append([p.data().asnumpy() for p in params])
    for eager, graph in zip(*results):
        np.testing.assert_allclose(eager, graph, 1e-5, 1e-6)
