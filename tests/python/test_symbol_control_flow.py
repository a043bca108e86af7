"""foreach, while_loop and cond as nodes of graphs: values, gradients, files."""

import json
import pathlib
from collections import defaultdict

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd, sym
from plait.attribute import AttrScope

GOLDEN = pathlib.Path(__file__).parent.parent / "golden"
FOREACH_JSON = (GOLDEN / "mxnet-1.9.1-foreach.json").read_text()


def flat(value):
    if isinstance(value, (list, tuple)):
        return [x for part in value for x in flat(part)]
    return [value]


def check(symbolic, imperative, grad_req="write", **arrays):
    """Values and gradients of both forms, and of the symbol's file."""
    graph = sym.Group(flat(symbolic(**{k: sym.var(k) for k in arrays})))
    text = graph.tojson()
    again = sym.load_json(text)
    assert again.tojson() == text
    inputs = {k: nd.array(v) for k, v in arrays.items()}
    for x in inputs.values():
        x.attach_grad()
    with autograd.record():
        expected = flat(imperative(**inputs))
        heads = [nd.array(np.random.rand(*y.shape)) for y in expected]
    autograd.backward(expected, heads)
    for s in (graph, again):
        args = {k: nd.array(arrays[k]) for k in s.list_arguments()}
        grads = {k: nd.ones(args[k].shape) for k in args}
        exe = s.bind(mx.cpu(), args, grads, grad_req)
        got = exe.forward(is_train=True)
        exe.backward(heads)
        predicted = [y.asnumpy() for y in s.bind(mx.cpu(), args).forward()]
        for y, p, e in zip(got, predicted, expected):
            np.testing.assert_allclose(y.asnumpy(), e.asnumpy(), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(p, e.asnumpy(), rtol=1e-5, atol=1e-6)
        for k, x in inputs.items():
            add = 1 if grad_req == "add" else 0
            np.testing.assert_allclose(
                grads[k].asnumpy(), x.grad.asnumpy() + add, rtol=1e-4, atol=1e-5
            )


def rand(*shape):
    return np.random.rand(*shape).astype("float32")


def test_foreach_is_written_as_mxnet_writes_it():
    AttrScope._subgraph_names = defaultdict(int)
    with mx.name.NameManager():
        sym.var("a") + sym.var("b")  # takes the name _plus0
        out = sym.contrib.foreach(
            lambda d, s: (d + s, d + s), sym.Variable("d"), sym.Variable("s")
        )
    assert sym.Group(list(out)).tojson() == FOREACH_JSON


@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_foreach_with_states_and_captured_values(grad_req):
    def run(F):
        def compute(x, h, w, b):
            def body(item, states):
                new = F.tanh(F.dot(item, w) + states[0] * b)
                return [new, new * 2], [new]

            return F.contrib.foreach(body, x, [h])

        return compute

    check(
        run(sym),
        run(nd),
        grad_req,
        x=rand(4, 2, 3),
        h=rand(2, 3),
        w=rand(3, 3),
        b=rand(2, 3),
    )


def test_foreach_over_numbers_and_several_data():
    def run(F):
        def compute(x, y, s):
            def body(items, s):
                return items[0] * items[1], s + items[0]

            return F.contrib.foreach(body, [x, y], s)

        return compute

    check(run(sym), run(nd), x=rand(5), y=rand(5), s=rand(1))


def test_foreach_of_no_steps_keeps_the_states():
    out, state = sym.contrib.foreach(
        lambda x, s: (x + s, s * 2), sym.var("x"), sym.var("s")
    )
    exe = sym.Group([out, state]).bind(
        mx.cpu(), {"x": nd.zeros((0, 2)), "s": nd.array([3, 4])}
    )
    out, state = exe.forward()
    assert out.shape == (0, 2) and state.asnumpy().tolist() == [3, 4]


@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_while_loop_with_states_and_captured_values(grad_req):
    def run(F):
        def compute(i, s, w, n):
            return F.contrib.while_loop(
                lambda i, s: i < n,
                lambda i, s: ([s * w, i + s], [i + 1, s * w + i]),
                [i, s],
                max_iterations=6,
            )

        return compute

    arrays = {
        "i": np.zeros(1, "f4"),
        "s": rand(1),
        "w": rand(1),
        "n": np.full(1, 4, "f4"),
    }
    check(run(sym), run(nd), grad_req, **arrays)


def test_while_loop_that_does_not_run():
    out, last = sym.contrib.while_loop(
        lambda i: i > 5, lambda i: (i, i + 1), sym.var("i"), max_iterations=3
    )
    i, di = nd.array([1]), nd.array([7])
    exe = sym.Group([out, last]).bind(mx.cpu(), {"i": i}, {"i": di})
    out, last = exe.forward(is_train=True)
    assert out.asnumpy().ravel().tolist() == [0, 0, 0] and last.asscalar() == 1
    exe.backward([nd.ones((3, 1)), nd.array([5])])
    assert di.asscalar() == 5


@pytest.mark.parametrize("a", [1.0, 9.0])
def test_cond_takes_one_branch(a):
    def run(F):
        def compute(a, b, c):
            return F.contrib.cond(a < b, lambda: a * c + b, lambda: (a - 5) * b)

        return compute

    check(run(sym), run(nd), a=np.array([a]), b=np.array([4.0]), c=np.array([3.0]))


def test_loops_nest():
    def run(F):
        def compute(x, s, w):
            def inner(item, state):
                new = F.contrib.cond(
                    F.sum(state) > 3, lambda: state + item * w, lambda: state * w
                )
                return new * 2, new

            def outer(row, state):
                out, last = F.contrib.foreach(inner, row, state)
                return F.sum(out, axis=0), last

            return F.contrib.foreach(outer, x, s)

        return compute

    check(run(sym), run(nd), x=rand(3, 4, 2), s=rand(2), w=rand(2))


class Scan(gluon.HybridBlock):
    """A cell along axis 0, and a loop whose length depends on values."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.cell = gluon.rnn.LSTMCell(4)
            self.dense = gluon.nn.Dense(4, flatten=False)

    def hybrid_forward(self, F, x, h, c):
        out, states = F.contrib.foreach(self.cell, x, [h, c])
        _, (_, grown) = F.contrib.while_loop(
            lambda i, s: i < 3,
            lambda i, s: ([], [i + 1, s + self.dense(s)]),
            [F.zeros((1,)), states[0]],
            max_iterations=5,
        )
        return out, grown


def test_hybridized_blocks_with_loops():
    block = Scan()
    block.initialize(mx.init.Xavier())
    x, h = nd.array(rand(5, 2, 3)), nd.zeros((2, 4))
    x.attach_grad()
    results = []
    for hybridize in (False, True):
        if hybridize:
            block.hybridize()
        with autograd.record():
            out, grown = block(x, h, h)
            loss = (out * out).sum() + grown.sum()
        loss.backward()
        params = [p.grad().asnumpy() for p in block.collect_params().values()]
        results.append([out.asnumpy(), grown.asnumpy(), x.grad.asnumpy()] + params)
    for plain, hybrid in zip(*results):
        np.testing.assert_allclose(plain, hybrid, rtol=1e-4, atol=1e-5)


def test_exported_loops_are_imported(tmp_path):
    block = Scan()
    block.initialize(mx.init.Xavier())
    block.hybridize()
    x, h = nd.array(rand(5, 2, 3)), nd.zeros((2, 4))
    expected = block(x, h, h)[0].asnumpy()
    block.export(str(tmp_path / "scan"))
    again = gluon.SymbolBlock.imports(
        str(tmp_path / "scan-symbol.json"),
        ["data0", "data1", "data2"],
        str(tmp_path / "scan-0000.params"),
    )
    np.testing.assert_allclose(again(x, h, h)[0].asnumpy(), expected, rtol=1e-5)


def test_dropout_in_a_loop_is_the_same_in_both_directions():
    out, _ = sym.contrib.foreach(
        lambda x, s: (sym.Dropout(x * s, p=0.5), s), sym.var("x"), sym.var("s")
    )
    x, dx = nd.ones((6, 50)), nd.zeros((6, 50))
    exe = out.bind(mx.cpu(), {"x": x, "s": nd.ones((50,))}, {"x": dx})
    y = exe.forward(is_train=True)[0].asnumpy()
    exe.backward(nd.ones(y.shape))
    assert set(np.unique(y)) == {0, 2}
    assert (y[0] != y[1]).any()  # each step draws anew
    assert (dx.asnumpy() == y).all()


def test_batch_norm_in_a_loop_moves_its_averages_once():
    def body(x, s):
        return sym.BatchNorm(x, name="bn", fix_gamma=False, momentum=0.5), s + 1

    out, state = sym.contrib.foreach(body, sym.var("x"), sym.var("s"))
    graph = sym.Group([out, state])
    x = np.random.rand(1, 8, 3).astype("float32")
    args = {
        "x": nd.array(x),
        "s": nd.zeros((1,)),
        "bn_gamma": nd.ones((3,)),
        "bn_beta": nd.zeros((3,)),
        "bn_moving_mean": nd.zeros((3,)),
        "bn_moving_var": nd.ones((3,)),
    }
    grads = {"x": nd.zeros(x.shape)}
    exe = graph.bind(mx.cpu(), args, grads)
    exe.forward(is_train=True)
    exe.backward([nd.ones(x.shape), nd.zeros((1,))])
    np.testing.assert_allclose(
        args["bn_moving_mean"].asnumpy(), 0.5 * x[0].mean(axis=0), rtol=1e-5
    )


def test_shapes_flow_through_bodies():
    out, state = sym.contrib.foreach(
        lambda x, s: (sym.FullyConnected(x, num_hidden=4, name="fc"), s + 1),
        sym.var("x"),
        sym.var("s"),
    )
    graph = sym.Group([out, state])
    shapes, outs, _ = graph.infer_shape(x=(7, 2, 3), s=(2,))
    assert dict(zip(graph.list_arguments(), shapes))["fc_weight"] == (4, 3)
    assert outs == [(7, 2, 4), (2,)]
    types, _, _ = graph.infer_type(x="float16", s="float32")
    assert dict(zip(graph.list_arguments(), types))["fc_weight"] == np.float16


@pytest.mark.parametrize(
    "change",
    [
        lambda node: node["attrs"].update(in_data_locs="[7]"),
        lambda node: node["attrs"].update(in_state_locs="[0]"),
        lambda node: node["attrs"].update(num_outputs="3"),
        lambda node: node["attrs"].update(num_out_data="-1"),
        lambda node: node["attrs"].pop("remain_locs"),
        lambda node: node.pop("subgraphs"),
        lambda node: node["subgraphs"].append(node["subgraphs"][0]),
        lambda node: node["subgraphs"][0].update(heads=[]),
        lambda node: node["attrs"].update(num_outputs="1000000000"),
    ],
)
def test_damaged_loops_are_refused(change):
    graph = json.loads(FOREACH_JSON)
    change(graph["nodes"][2])
    with pytest.raises(ValueError):
        sym.load_json(json.dumps(graph))


def test_mistakes_are_explained():
    x, s = sym.var("x"), sym.var("s")
    with pytest.raises(ValueError, match="not used in the body"):
        sym.contrib.foreach(lambda x, s: (s, s), x, s)
    with pytest.raises(ValueError, match="one form"):
        sym.contrib.foreach(lambda x, s: (x, [s + 1]), x, s)
    with pytest.raises(ValueError, match="max_iterations"):
        sym.contrib.while_loop(lambda s: s < 1, lambda s: (s, s), s)
    with pytest.raises(ValueError, match="as many were expected"):
        sym.contrib.cond(s < 1, lambda: [s, s], lambda: s)
    out, _ = sym.contrib.foreach(lambda x, s: (x, s + x), x, s)
    with pytest.raises(ValueError, match="node _foreach"):
        out.bind(mx.cpu(), {"x": nd.ones((2, 3)), "s": nd.ones((1,))})
