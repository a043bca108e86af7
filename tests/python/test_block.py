"""Blocks and parameters: names, deferred shapes, files, hooks, lifetime."""

import gc
import warnings
import weakref

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd
from plait.gluon import nn


def mlp(**kwargs):
    net = nn.HybridSequential(**kwargs)
    with net.name_scope():
        net.add(nn.Dense(5, activation="relu"), nn.Dense(3))
    return net


def test_names_follow_the_scopes():
    net = mlp(prefix="net_")
    assert list(net.collect_params()) == [
        "net_dense0_weight",
        "net_dense0_bias",
        "net_dense1_weight",
        "net_dense1_bias",
    ]
    assert net.name == "net" and net[0].prefix == "net_dense0_"
    with net.name_scope():
        net.add(nn.Dense(2))
    assert net[2].name == "net_dense2"
    with mx.name.NameManager():
        assert [nn.Dense(1).name for _ in range(2)] == ["dense0", "dense1"]


def test_select_parameters_by_name():
    net = mlp(prefix="net_")
    assert list(net.collect_params(".*bias")) == ["net_dense0_bias", "net_dense1_bias"]


def test_deferred_shapes_are_found_at_the_first_call():
    net = mlp()
    net.initialize()
    with pytest.raises(gluon.DeferredInitializationError, match="deferred"):
        net[0].weight.data()
    assert net(nd.ones((2, 7))).shape == (2, 3)
    assert net[0].weight.shape == (5, 7) and net[1].weight.shape == (3, 5)
    assert net[0].weight.data().shape == (5, 7)


def test_deferred_shapes_of_a_users_block():
    class Own(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.w = self.params.get("w", shape=(4, 0), allow_deferred_init=True)
                self.g = self.params.get("g", shape=(0,), allow_deferred_init=True)

        def hybrid_forward(self, F, x, w, g):
            y = F.FullyConnected(x, w, no_bias=True, num_hidden=4)
            return F.LeakyReLU(y, gamma=g, act_type="prelu")

    net = Own()
    net.initialize(mx.init.One())
    assert net(nd.ones((2, 3))).asnumpy().tolist() == [[3.0] * 4] * 2
    assert net.w.shape == (4, 3) and net.g.shape == (4,)


def test_a_shape_that_does_not_follow_is_an_error_with_its_name():
    class Own(gluon.HybridBlock):
        def __init__(self):
            super().__init__(prefix="own_")
            self.w = self.params.get("w", shape=(0,), allow_deferred_init=True)

        def hybrid_forward(self, F, x, w):
            return F.broadcast_mul(x, w)

    net = Own()
    net.initialize()
    with pytest.raises(ValueError, match="own_w"):
        net(nd.ones((2, 3)))


def test_use_before_initialize_is_an_error():
    with pytest.raises(RuntimeError, match="has not been initialized"):
        nn.Dense(2, in_units=3)(nd.ones((1, 3)))


def test_infer_shape_makes_parameters():
    net = mlp()
    net.initialize()
    net.infer_shape(nd.ones((1, 4)))
    assert net[0].weight.data().shape == (5, 4)


def test_children_of_hybrid_blocks_must_be_hybrid():
    with pytest.raises(ValueError, match="must also be HybridBlock"):
        nn.HybridSequential().add(nn.Sequential())


def test_attributes_keep_their_kind():
    net = gluon.Block()
    net.layer = nn.Dense(2)
    with pytest.raises(TypeError, match="Changing attribute type"):
        net.layer = 3


def test_blocks_in_a_list_are_warned_of():
    net = gluon.Block()
    net.layers = [nn.Dense(2)]
    with pytest.warns(UserWarning, match="unregistered container"):
        net.collect_params()


def test_hooks_are_called_and_detached():
    net = nn.Dense(2, in_units=3)
    net.initialize()
    calls = []
    before = net.register_forward_pre_hook(lambda b, x: calls.append("before"))
    with net.register_forward_hook(lambda b, x, y: calls.append(y.shape)):
        net(nd.ones((1, 3)))
    before.detach()
    before.detach()
    net(nd.ones((1, 3)))
    assert calls == ["before", (1, 2)]


def test_files_by_structural_names(tmp_path):
    path = str(tmp_path / "net.params")
    net, other = mlp(), mlp()
    net.initialize()
    net(nd.ones((1, 4)))
    net.save_parameters(path)
    assert sorted(nd.load(path)) == ["0.bias", "0.weight", "1.bias", "1.weight"]
    other.load_parameters(path)
    x = nd.random.normal(shape=(2, 4))
    assert (net(x).asnumpy() == other(x).asnumpy()).all()


def test_files_by_full_names_load_too(tmp_path):
    path = str(tmp_path / "net.params")
    net, other = mlp(prefix="a_"), mlp(prefix="b_")
    net.initialize()
    x = nd.ones((1, 4))
    net(x)
    net.collect_params().save(path, strip_prefix="a_")
    other.load_parameters(path)
    assert (net(x).asnumpy() == other(x).asnumpy()).all()
    arrays = {"arg:" + p.name: p.data() for p in net.collect_params().values()}
    nd.save(path, arrays)
    other = mlp(prefix="a_")
    other.load_parameters(path)
    assert (net(x).asnumpy() == other(x).asnumpy()).all()


def test_a_single_layer_saves_and_loads(tmp_path):
    path = str(tmp_path / "dense.params")
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.save_parameters(path)
    other = nn.Dense(2, in_units=3)
    other.load_parameters(path)
    assert (net.weight.data().asnumpy() == other.weight.data().asnumpy()).all()


def test_wrong_files_name_what_is_wrong(tmp_path):
    path = str(tmp_path / "net.params")
    net = mlp()
    net.initialize()
    net(nd.ones((1, 4)))
    arrays = {k: p.data() for k, p in net._collect_params_with_prefix().items()}
    nd.save(path, {k: v for k, v in arrays.items() if k != "1.bias"})
    with pytest.raises(AssertionError, match="'1.bias' is missing"):
        mlp().load_parameters(path)
    mlp().load_parameters(path, allow_missing=True)
    nd.save(path, dict(arrays, **{"1.biasx": arrays["1.bias"]}))
    with pytest.raises(ValueError, match="'1.biasx'.*nearest name is '1.bias'"):
        mlp().load_parameters(path)
    mlp().load_parameters(path, ignore_extra=True)
    nd.save(path, dict(arrays, **{"1.bias": nd.ones((4,))}))
    with pytest.raises(ValueError, match="shape incompatible"):
        mlp().load_parameters(path)
    half = {k: v.astype("float16") for k, v in arrays.items()}
    nd.save(path, half)
    with pytest.raises(ValueError, match="dtype incompatible"):
        mlp().load_parameters(path)
    other = mlp()
    other.load_parameters(path, cast_dtype=True)
    assert other[0].weight.data().dtype == np.float32
    other.load_parameters(path, cast_dtype=True, dtype_source="saved")
    assert other[0].weight.data().dtype == np.float16


def test_shared_parameters_are_saved_once(tmp_path):
    path = str(tmp_path / "net.params")

    def shared():
        net = nn.HybridSequential()
        net.add(nn.Dense(4, in_units=4))
        net.add(nn.Dense(4, in_units=4, params=net[0].params))
        return net

    net = shared()
    net.initialize()
    assert net[0].weight is net[1].weight
    net.save_parameters(path, deduplicate=True)
    assert sorted(nd.load(path)) == ["1.bias", "1.weight"]
    other = shared()
    other.load_parameters(path)
    x = nd.ones((1, 4))
    assert (net(x).asnumpy() == other(x).asnumpy()).all()


def test_save_and_load_of_names(tmp_path):
    prefix = str(tmp_path / "m")
    net = mlp()
    net.initialize()
    x = nd.ones((1, 4))
    net(x)
    net.save(prefix)
    other = mlp()
    other.load(prefix)
    assert (net(x).asnumpy() == other(x).asnumpy()).all()
    with pytest.raises(ValueError, match="structure"):
        nn.Dense(3).load(prefix)


def test_cast_changes_values_and_results():
    net = mlp()
    net.initialize()
    net(nd.ones((1, 4)))
    net.cast("float64")
    assert net(nd.ones((1, 4), dtype="float64")).dtype == np.float64


def test_grad_req_can_change():
    p = gluon.Parameter("p", shape=(2,))
    p.initialize(init="ones")
    p.grad_req = "null"
    with pytest.raises(RuntimeError, match="grad_req='null'"):
        p.grad()
    p.grad_req = "add"
    for _ in range(2):
        with autograd.record():
            y = (p.data() * 3).sum()
        y.backward()
    assert p.grad().asnumpy().tolist() == [6, 6]
    p.zero_grad()
    assert p.grad().asnumpy().tolist() == [0, 0]
    with pytest.raises(AssertionError, match="grad_req must be one of"):
        p.grad_req = "sometimes"


def test_parameters_live_on_several_contexts():
    p = gluon.Parameter("p", shape=(2, 2))
    p.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    first, second = p.list_data()
    assert (first.asnumpy() == second.asnumpy()).all()
    assert p.data(mx.cpu(1)).context == mx.cpu(1)
    with pytest.raises(RuntimeError, match="was not initialized on context cpu"):
        p.data(mx.cpu(2))
    p.set_data(nd.ones((2, 2)))
    assert p.data(mx.cpu(1)).asnumpy().sum() == 4
    p.reset_ctx(mx.cpu(2))
    assert p.list_ctx() == [mx.cpu(2)] and p.data().asnumpy().sum() == 4
    assert p.data(mx.cpu(2)) is p.data()


def test_a_block_computes_where_its_input_is():
    net = nn.Dense(2, in_units=3)
    net.initialize(ctx=[mx.cpu(0), mx.cpu(1)])
    x = nd.ones((1, 3)).as_in_context(mx.cpu(1))
    assert net(x).context == mx.cpu(1)


def test_second_initialize_warns_unless_forced():
    p = gluon.Parameter("p", shape=(2,))
    p.initialize(init="ones")
    with pytest.warns(UserWarning, match="already initialized"):
        p.initialize(init="zeros")
    assert p.data().asnumpy().tolist() == [1, 1]
    p.initialize(init="zeros", force_reinit=True)
    assert p.data().asnumpy().tolist() == [0, 0]


def test_own_initializers_go_before_the_models():
    net = nn.Dense(2, in_units=2, weight_initializer="ones", bias_initializer="ones")
    net.initialize(mx.init.Constant(7))
    assert net(nd.ones((1, 2))).asnumpy().tolist() == [[3, 3]]


def test_constants_are_left_alone():
    class Scaled(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.scale = self.params.get_constant("scale", [[2.0]])

        def hybrid_forward(self, F, x, scale):
            return F.broadcast_mul(x, scale)

    net = Scaled()
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd")
    x = nd.ones((1, 2))
    x.attach_grad()
    with autograd.record():
        y = net(x)
    y.backward()
    trainer.step(1)
    assert y.asnumpy().tolist() == [[2, 2]] and x.grad.asnumpy().tolist() == [[2, 2]]
    with pytest.warns(UserWarning, match="does not support grad_req"):
        net.scale.grad_req = "write"
    with pytest.raises(ValueError, match="doesn't match new value"):
        net.params.get_constant("scale", [[3.0]])


def test_get_with_other_attributes_is_an_error():
    params = gluon.ParameterDict("p_")
    params.get("w", shape=(0, 3))
    assert params.get("w", shape=(2, 3)).shape == (2, 3)
    with pytest.raises(ValueError, match="does not match"):
        params.get("w", shape=(4, 3))


def test_hybridize_changes_no_result():
    net = mlp()
    net.initialize()
    x = nd.random.normal(shape=(3, 4))
    before = net(x).asnumpy()
    net.hybridize(static_alloc=True, static_shape=True)
    assert (net(x).asnumpy() == before).all()
    net.hybridize(False)
    assert (net(x).asnumpy() == before).all()


def test_export_needs_a_graph_and_inputs_are_arrays(tmp_path):
    net = mlp()
    with pytest.raises(RuntimeError, match="call block.hybridize"):
        net.export(str(tmp_path / "x"))
    with pytest.raises(OSError, match="x.json"):
        gluon.SymbolBlock.imports(str(tmp_path / "x.json"), ["data"])
    with pytest.raises(ValueError, match="must be .*NDArray"):
        net(3)


def test_summary_counts_parameters(capsys):
    net = mlp()
    net.initialize()
    net.summary(nd.ones((1, 4)))
    assert "Total params: 43" in capsys.readouterr().out  # 4*5+5 + 5*3+3


def test_repr_shows_layers():
    text = repr(mlp())
    assert "(0): Dense(None -> 5, Activation(relu))" in text


def test_a_net_dies_with_its_last_reference():
    gc.collect()
    gc.disable()
    try:
        net = mlp()
        net.initialize()
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"momentum": 0.9})
        with autograd.record():
            loss = net(nd.ones((2, 4))).sum()
        loss.backward()
        trainer.step(2)
        refs = [weakref.ref(net), weakref.ref(trainer), weakref.ref(net[0].weight)]
        del net, trainer, loss
        assert [r() for r in refs] == [None, None, None]
    finally:
        gc.enable()


def test_apply_visits_all_blocks():
    seen = []
    mlp().apply(lambda block: seen.append(type(block).__name__))
    assert seen == ["Activation", "Dense", "Dense", "HybridSequential"]


def test_slices_of_sequentials_share_layers():
    net = mlp()
    assert len(net[0:1]) == 1 and net[0:1][0] is net[0]


def test_sequential_of_hybrids_suggests_hybrid_sequential():
    net = nn.Sequential()
    net.add(nn.Dense(2))
    with pytest.warns(UserWarning, match="HybridSequential"):
        net.hybridize()


def test_no_warnings_in_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        net = mlp()
        net.initialize()
        net(nd.ones((1, 4)))
