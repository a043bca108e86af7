"""Hybridized blocks in every manner of use: inputs, modes, gradients, files."""

import sys
import warnings

import numpy as np
import pytest
from hybrid_parts import assert_near, check, copied, one_step, pair

import plait as mx
from plait import autograd, gluon, nd
from plait.gluon import nn, rnn


def x(*shape):
    return np.random.RandomState(len(shape)).uniform(-1, 1, shape).astype("float32")


def mlp(dropout=0.0):
    net = nn.HybridSequential()
    net.add(nn.Dense(6, activation="tanh"), nn.BatchNorm(), nn.Dropout(dropout))
    net.add(nn.Dense(2))
    return net


class Mixer(gluon.HybridBlock):
    """Takes nested lists and Nones, and gives nested lists."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.left = nn.Dense(3, flatten=False)
            self.right = nn.Dense(3, flatten=False)

    def hybrid_forward(self, F, first, others, mask=None):
        y = self.left(first) + self.right(others[0])
        z = others[1][0] * others[1][1]
        if mask is not None:
            y = F.broadcast_mul(y, mask)
        return y, [z, [F.sum(y, axis=1), first]]


def test_nested_inputs_and_outputs():
    nested = [x(4, 2), [x(2, 3), x(3, 2).T.copy()]]
    check(Mixer, x(4, 5), nested)
    check(Mixer, x(4, 5), nested, np.abs(x(4, 1)))
    check(Mixer, x(4, 5), nested, None)


def test_structures_of_outputs_are_kept():
    nets = pair(Mixer, [x(4, 5), [x(4, 2), [x(2, 3), x(2, 3)]]])
    for net in nets:
        out = net(*copied([x(4, 5), [x(4, 2), [x(2, 3), x(2, 3)]]]))
        assert isinstance(out[0], nd.NDArray)
        assert [type(v) for v in out[1]] == [nd.NDArray, list]
        assert [v.shape for v in out[1][1]] == [(4,), (4, 5)]


def test_another_structure_of_inputs_is_refused():
    _, net = pair(Mixer, [x(4, 5), [x(4, 2), [x(2, 3), x(2, 3)]]])
    with pytest.raises(ValueError, match="Invalid input format"):
        net(nd.array(x(4, 5)), [nd.array(x(4, 2)), nd.array(x(2, 3))])


def test_inputs_of_two_kinds_or_places_or_none_are_refused():
    class Sum(gluon.HybridBlock):
        def hybrid_forward(self, F, a, b):
            return a + b

    ones = nd.ones((3,))
    for bad in (
        (ones, mx.sym.var("a")),
        (mx.sym.var("a"), ones),
        (None, None),
        (nd.ones((3,), ctx=mx.cpu(1)), nd.ones((3,), ctx=mx.cpu(2))),
    ):
        net = Sum()
        net.hybridize()
        with pytest.raises(ValueError, match="expected"):
            net(*bad)


@pytest.mark.parametrize("options", [{}, {"static_alloc": True, "static_shape": True}])
def test_batch_sizes_change(options):
    plain, hybrid = pair(mlp, [x(4, 5)], **options)
    for size in (4, 1, 7, 4, 2, 7, 1):
        data = [x(size, 5, 1)]
        assert_near(one_step(hybrid, data), one_step(plain, data), 5e-4)
        assert_near([hybrid(nd.array(data[0])).asnumpy()],
                    [plain(nd.array(data[0])).asnumpy()])  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_dtypes_change_by_cast(dtype):
    def make():
        net = nn.HybridSequential()
        net.add(nn.Dense(4, activation="tanh"), nn.LayerNorm(), nn.Dense(2))
        return net

    nets = pair(make, [x(4, 5)])
    for net in nets:
        net.cast(dtype)
    rtol = 1e-10 if dtype == "float64" else 2e-2
    results = [one_step(net, [x(4, 5).astype(dtype)]) for net in nets]
    assert results[1][0][0].dtype == dtype
    assert_near(results[1], results[0], rtol)
    for net in nets:
        net.cast("float32")
    assert_near(*[one_step(net, [x(4, 5)]) for net in nets], 2e-4)


def test_dropout_draws_the_same_numbers():
    plain, hybrid = pair(lambda: nn.Dropout(0.5), [x(30, 20)])
    for seed in (1, 2, 1):
        assert_near(one_step(hybrid, [x(30, 20)], seed=seed),
                    one_step(plain, [x(30, 20)], seed=seed), 0)  # fmt: skip
    data = nd.array(x(30, 20))
    with autograd.record():
        assert (hybrid(data) != hybrid(data)).sum().asscalar() > 0
    assert (hybrid(data) == data).asnumpy().all()


def test_one_forward_has_one_mask_in_both_directions():
    _, net = pair(lambda: nn.Dropout(0.5), [x(30, 20)])
    data = nd.array(x(30, 20))
    data.attach_grad()
    with autograd.record():
        y = net(data)
    y.backward()
    np.testing.assert_allclose(
        y.asnumpy(), data.grad.asnumpy() * data.asnumpy(), rtol=1e-6
    )


def gradient_of(net, data, times, retain):
    data.attach_grad()
    with autograd.record():
        y = net(data)
    found = []
    for i in range(times):
        y.backward(nd.ones_like(y) * (i + 1), retain_graph=retain or i < times - 1)
        found.append(data.grad.asnumpy().copy())
    return found


def test_a_retained_graph_runs_backward_again():
    plain, hybrid = pair(mlp, [x(4, 5)])
    assert_near(
        gradient_of(hybrid, nd.array(x(4, 5)), 3, False),
        gradient_of(plain, nd.array(x(4, 5)), 3, False),
        5e-4,
    )


def test_backward_twice_without_retaining_is_an_error():
    _, net = pair(mlp, [x(4, 5)])
    data = nd.array(x(4, 5))
    data.attach_grad()
    with autograd.record():
        y = net(data)
    y.backward()
    with pytest.raises(mx.MXNetError, match="retain_graph"):
        y.backward()


def test_gradients_are_added_where_that_is_asked_for():
    nets = pair(mlp, [x(4, 5)])
    sums = []
    for net in nets:
        net.collect_params().setattr("grad_req", "add")
        net.collect_params().zero_grad()
        for part in (x(4, 5), x(4, 5) * 2):
            with autograd.record():
                y = net(nd.array(part))
            y.backward()
        params = [p for p in net.collect_params().values() if p.grad_req == "add"]
        sums.append([p.grad().asnumpy() for p in params])
    assert_near(sums[1], sums[0], 5e-4)


def test_parameters_without_gradients_are_left_alone():
    nets = pair(mlp, [x(4, 5)])
    for net in nets:
        net[0].weight.grad_req = "null"
    assert_near(one_step(nets[1], [x(4, 5)]), one_step(nets[0], [x(4, 5)]), 5e-4)


def test_second_derivatives():
    def make():
        net = nn.HybridSequential()
        net.add(nn.Dense(4, activation="tanh"), nn.Dense(1))
        return net

    found = []
    for net in pair(make, [x(3, 2)]):
        data = nd.array(x(3, 2))
        data.attach_grad()
        with autograd.record():
            y = net(data)
            first = autograd.grad(y, data, create_graph=True, retain_graph=True)[0]
            z = (first * first).sum()
        z.backward()
        weights = [p.grad().asnumpy() for p in net.collect_params(".*weight").values()]
        found.append([first.asnumpy(), data.grad.asnumpy(), *weights])
    assert np.abs(found[0][1]).max() > 1e-3
    assert_near(found[1], found[0], 1e-4)


class Loop(gluon.HybridBlock):
    """A layer in every step of a loop."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(5, in_units=5, activation="tanh")

    def hybrid_forward(self, F, data):
        def step(row, total):
            row = F.expand_dims(row, 0)
            return self.dense(row) * total, total + row

        out, _ = F.contrib.foreach(step, data, F.ones((1, 5)))
        return F.reshape(out, (-1, 5))


def test_a_loop_is_the_same_hybridized_but_has_first_derivatives_only():
    check(Loop, x(6, 5))
    _, net = pair(Loop, [x(6, 5)])
    data = nd.array(x(6, 5))
    data.attach_grad()
    with autograd.record():
        first = autograd.grad(net(data), data, create_graph=True)[0]
    with pytest.raises(mx.MXNetError, match="has no gradient"):
        first.backward()


@pytest.mark.parametrize("train_mode", [True, False])
@pytest.mark.parametrize("layer", ["dropout", "norm"])
def test_second_derivatives_see_the_same_masks_and_states(layer, train_mode):
    def make():
        net = nn.HybridSequential()
        net.add(nn.Dense(8, activation="tanh"))
        net.add(nn.Dropout(0.5) if layer == "dropout" else nn.BatchNorm())
        net.add(nn.Dropout(0.2), nn.Dense(2))
        return net

    found = []
    for net in pair(make, [x(6, 5)]):
        mx.random.seed(3)
        data = nd.array(x(6, 5))
        data.attach_grad()
        with autograd.record(train_mode=train_mode):
            y = net(data)
            first = autograd.grad(
                y * y, data, create_graph=True, retain_graph=True, train_mode=train_mode
            )[0]
            z = (first * first).sum()
        z.backward(train_mode=train_mode)
        params = net.collect_params().values()
        grads = [p.grad().asnumpy() for p in params if p.grad_req != "null"]
        states = [p.data().asnumpy() for p in params]
        found.append([first.asnumpy(), data.grad.asnumpy(), grads, states])
    assert_near(found[1], found[0], 2e-4)


def test_several_forwards_before_one_backward():
    found = []
    for net in pair(mlp, [x(4, 5)]):
        parts = [nd.array(x(4, 5) * k) for k in (1, 2, 3)]
        for p in parts:
            p.attach_grad()
        with autograd.record():
            total = sum(net(p).sum() * (k + 1) for k, p in enumerate(parts))
            total = total + net(parts[0]).square().sum()
        total.backward()
        grads = [p.grad.asnumpy() for p in parts]
        params = [p for p in net.collect_params().values() if p.grad_req != "null"]
        found.append(grads + [p.grad().asnumpy() for p in params])
    assert_near(found[1], found[0], 1e-3)


def test_shared_parameters_get_the_sum_of_gradients():
    def make():
        net = nn.HybridSequential()
        first = nn.Dense(4, in_units=4, activation="tanh")
        net.add(first, nn.Dense(4, in_units=4, params=first.params), nn.Dense(1))
        return net

    check(make, x(3, 4))


def test_a_block_called_twice_inside_another():
    class Twice(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.inner = nn.Dense(5, activation="sigmoid", in_units=5)
            self.scale = self.params.get("scale", shape=(1, 5))

        def hybrid_forward(self, F, data, scale):
            return F.broadcast_mul(self.inner(self.inner(data)), scale)

    check(Twice, x(3, 5))


def test_only_inner_blocks_hybridized():
    class Outer(gluon.Block):
        def __init__(self):
            super().__init__()
            self.first, self.second = mlp(), mlp()

        def forward(self, data):
            y = self.first(data)
            return self.second(y * y.shape[0]) + float(y.sum().asscalar() > 1e9)

    check(Outer, x(4, 5), rtol=1e-3)


class Shapely(gluon.HybridBlock):
    """Looks at shapes in hybrid_forward."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, flatten=False)

    def hybrid_forward(self, F, data):
        n, t = data.shape[0], data.shape[1]
        y = self.dense(data)
        return F.reshape(y, (n * t, -1)) / t


class OwnForward(gluon.HybridBlock):
    """A forward() of its own, which looks at shapes and calls operators."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4, flatten=False, activation="tanh")

    def forward(self, data):
        y = self.dense(data)
        half = y.shape[1] // 2
        return nd.concat(y[:, :half], y[:, half:] * 2, dim=1), y.mean(axis=(0, 1))


@pytest.mark.parametrize("make", [Shapely, OwnForward])
def test_code_that_looks_at_shapes(make):
    check(make, x(2, 4, 3))
    plain, hybrid = pair(make, [x(2, 4, 3)])
    for shape in ((2, 4, 3), (5, 2, 3), (2, 4, 3)):
        data = [np.ones(shape, "float32") * x(*shape)]
        assert_near(one_step(hybrid, data), one_step(plain, data), 5e-5)


class Valuable(gluon.HybridBlock):
    """Looks at values."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Dense(4)

    def forward(self, data):
        y = self.dense(data)
        return y * 2 if float(y.sum().asscalar()) > 0 else y - 1


def test_code_that_looks_at_values_runs_as_it_is_and_says_so():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, hybrid = pair(Valuable, [x(2, 3)])
    for sign in (1, -1):
        assert_near(one_step(hybrid, [x(2, 3) * sign]),
                    one_step(plain, [x(2, 3) * sign]))  # fmt: skip
    net = Valuable()
    net.initialize()
    net.hybridize()
    with pytest.warns(UserWarning, match="needs values"):
        net(nd.array(x(2, 3)))


def test_the_error_of_a_layer_names_it():
    net = nn.HybridSequential()
    net.add(nn.Dense(4, in_units=7))
    net.initialize()
    net.hybridize()
    with pytest.raises(mx.MXNetError, match="dense"):
        net(nd.array(x(2, 3)))


def test_hybridizing_again_and_off():
    net = mlp()
    net.initialize()
    data = nd.array(x(4, 5))
    expected = net(data).asnumpy()
    for active in (True, False, True, True, False):
        net.hybridize(active)
        np.testing.assert_allclose(net(data).asnumpy(), expected, rtol=1e-5)
    net.hybridize()
    net(data)
    net.add(nn.Dense(3))  # the graph is made anew
    net[-1].initialize()
    assert net(data).shape == (4, 3)


def test_parameters_set_later_are_seen():
    _, net = pair(mlp, [x(4, 5)])
    data = nd.array(x(4, 5))
    before = net(data).asnumpy()
    net[0].weight.set_data(nd.zeros((6, 5)))
    changed = net(data).asnumpy()
    assert np.abs(before - changed).max() > 1e-3
    net.initialize(mx.init.One(), force_reinit=True)
    assert np.abs(net(data).asnumpy() - changed).max() > 1e-3


# Files.


class TwoInputs(gluon.HybridBlock):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.words = nn.Embedding(9, 4)
            self.lstm = rnn.LSTM(3, layout="NTC")
            self.norm = nn.BatchNorm(axis=-1)
            self.out = nn.Dense(2)

    def hybrid_forward(self, F, words, extra):
        y = self.norm(self.lstm(self.words(words)))
        return self.out(F.concat(F.flatten(y), extra, dim=1)), y


def exported(net, inputs, tmp_path):
    net.initialize()
    net.hybridize()
    for _ in range(2):
        with autograd.record():
            net(*inputs)
    outputs = net(*inputs)
    net.export(str(tmp_path / "net"), epoch=2)
    return outputs, str(tmp_path / "net-symbol.json"), str(tmp_path / "net-0002.params")


def test_an_exported_block_is_imported(tmp_path):
    inputs = [nd.array([[1, 2, 8], [0, 4, 4]]), nd.array(x(2, 3))]
    outputs, symbol, params = exported(TwoInputs(), inputs, tmp_path)
    again = gluon.SymbolBlock.imports(symbol, ["data0", "data1"], params)
    for a, b in zip(again(*inputs), outputs):
        np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())
    with autograd.record():
        y = again(*inputs)[0]
    y.backward()
    weight = next(p for n, p in again.collect_params().items() if "dense" in n)
    assert np.abs(weight.grad().asnumpy()).max() > 0
    assert "running_mean" in " ".join(mx.nd.load(params))


def test_an_imported_block_is_exported_the_same(tmp_path):
    outputs, symbol, params = exported(mlp(), [nd.array(x(4, 5))], tmp_path)
    again = gluon.SymbolBlock.imports(symbol, "data", params)
    again.hybridize()
    np.testing.assert_array_equal(again(nd.array(x(4, 5))).asnumpy(), outputs.asnumpy())
    again.export(str(tmp_path / "again"))
    assert (tmp_path / "again-symbol.json").read_text() == open(symbol).read()
    first, second = nd.load(params), nd.load(str(tmp_path / "again-0000.params"))
    assert sorted(first) == sorted(second)
    assert all((first[n] == second[n]).asnumpy().all() for n in first)


def test_an_imported_block_is_part_of_a_larger_one(tmp_path):
    outputs, symbol, params = exported(mlp(), [nd.array(x(4, 5))], tmp_path)
    net = nn.HybridSequential()
    net.add(gluon.SymbolBlock.imports(symbol, ["data"], params), nn.Dense(3))
    net[1].initialize()
    plain = net(nd.array(x(4, 5))).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(nd.array(x(4, 5))).asnumpy(), plain, rtol=1e-5)
    with autograd.record():
        y = net(nd.array(x(4, 5)))
    y.backward()


def test_an_exported_block_runs_in_a_module(tmp_path):
    outputs, _, _ = exported(mlp(), [nd.array(x(4, 5))], tmp_path)
    module = mx.mod.Module.load(str(tmp_path / "net"), 2, label_names=None)
    module.bind([("data", (4, 5))], for_training=False)
    module.forward(mx.io.DataBatch([nd.array(x(4, 5))]))
    np.testing.assert_allclose(
        module.get_outputs()[0].asnumpy(), outputs.asnumpy(), rtol=1e-5
    )


def test_imports_say_what_is_wrong(tmp_path):
    _, symbol, params = exported(mlp(), [nd.array(x(4, 5))], tmp_path)
    arrays = nd.load(params)
    name = sorted(arrays)[0]
    nd.save(params, {n: a for n, a in arrays.items() if n != name})
    with pytest.raises(Exception, match=name.partition(":")[2]):
        gluon.SymbolBlock.imports(symbol, ["data"], params)
    gluon.SymbolBlock.imports(symbol, ["data"], params, allow_missing=True)
    nd.save(params, dict(arrays, **{"arg:stranger": nd.ones(2)}))
    with pytest.raises(Exception, match="stranger"):
        gluon.SymbolBlock.imports(symbol, ["data"], params)
    gluon.SymbolBlock.imports(symbol, ["data"], params, ignore_extra=True)


def test_a_block_of_internal_outputs():
    net = mlp()
    net.initialize()
    data = mx.sym.var("data")
    internals = net(data).get_internals()
    names = [n for n in internals.list_outputs() if n.endswith("fwd_output")]
    block = gluon.SymbolBlock(
        [internals[n] for n in names], data, params=net.collect_params()
    )
    outputs = block(nd.array(x(4, 5)))
    assert len(outputs) == len(names)
    np.testing.assert_allclose(
        outputs[-1].asnumpy(), net(nd.array(x(4, 5))).asnumpy(), rtol=1e-5
    )


def test_hooks_see_what_operators_read_and_give():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(3, activation="relu", in_units=2), nn.Dense(1, in_units=3))
    net.initialize(mx.init.One())
    x = nd.array([[1, 2], [-3, -4]])
    want = net(x)
    net.hybridize()
    net(x)
    seen = []
    net.register_op_hook(lambda name, op, y: seen.append((name, op, y.asnumpy())))
    x.attach_grad()
    with autograd.record():
        got = net(x)
    got.backward()
    assert (got.asnumpy() == want.asnumpy()).all()
    assert x.grad.asnumpy().tolist() == [[3, 3], [0, 0]]
    names = [
        ("net_dense0_fwd_output", "FullyConnected"),
        ("net_dense0_relu_fwd_output", "Activation"),
        ("net_dense1_fwd_output", "FullyConnected"),
    ]
    assert [row[:2] for row in seen] == names
    assert seen[1][2].tolist() == [[3, 3, 3], [0, 0, 0]]
    assert seen[2][2].tolist() == want.asnumpy().tolist()

    seen.clear()
    net.register_op_hook(lambda name, op, y: seen.append((name, op, y)), True)
    net.hybridize()
    net(x)
    assert [row[0] for row in seen][:6] == [
        "net_dense0_fwd_data", "net_dense0_fwd_weight", "net_dense0_fwd_bias",
        "net_dense0_fwd_output", "net_dense0_relu_fwd_input0",
        "net_dense0_relu_fwd_output",
    ]  # fmt: skip
    assert seen[1][2].shape == (3, 2)


def test_arrays_and_symbols_together_are_refused():
    class Sum(gluon.HybridBlock):
        def hybrid_forward(self, F, a, b):
            return a + b

    for args in ((nd.ones(2), mx.sym.var("b")), (mx.sym.var("a"), nd.ones(2))):
        with pytest.raises(ValueError, match="either arrays or symbols were expected"):
            Sum()(*args)


def test_new_arrays_of_parameters_are_seen():
    net = nn.Dense(2, in_units=3, use_bias=False)
    net.initialize(mx.init.One())
    net.hybridize()
    x = nd.ones((1, 3))
    assert net(x).asnumpy().tolist() == [[3, 3]]
    net.weight.set_data(2 * nd.ones((2, 3)))
    assert net(x).asnumpy().tolist() == [[6, 6]]
    net.initialize(mx.init.Constant(3.0), force_reinit=True)
    assert net(x).asnumpy().tolist() == [[9, 9]]
    net.weight.data()[:] = 4
    assert net(x).asnumpy().tolist() == [[12, 12]]
    net.collect_params().reset_ctx([mx.cpu(0), mx.cpu(1)])
    net.weight.set_data(5 * nd.ones((2, 3)))
    assert net(x).asnumpy().tolist() == [[15, 15]]
    assert net(x.as_in_context(mx.cpu(1))).context == mx.cpu(1)


def test_inputs_are_not_kept_after_a_call():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.hybridize()
    x = nd.ones((1, 3))
    net(x).wait_to_read()
    before = sys.getrefcount(x)
    net(x).wait_to_read()
    assert sys.getrefcount(x) == before
