"""Checkpoints: there and back, those of the real MXNet 1.9.1, and damaged ones.

tests/golden/mxnet-1.9.1-module.npz is made by tools/golden_module.py.
"""

from pathlib import Path

import numpy as np
import pytest
from module_parts import a_batch, assert_same, bound, values

import plait as mx
from plait import nd

GOLDEN = np.load(Path(__file__).parent.parent / "golden" / "mxnet-1.9.1-module.npz")
OPTIMIZERS = {
    "mlp": ("sgd", {"learning_rate": 0.1, "momentum": 0.9}),
    "convnet": ("adam", {"learning_rate": 0.05}),
    "lstm": ("rmsprop", {"centered": True, "wd": 0.01}),
}


def unpacked(case, folder):
    """The files of a case of MXNet's; gives their prefix."""
    prefix = str(folder / case)
    for part in ("symbol.json", "0001.params", "0001.states"):
        content = GOLDEN["%s/%s" % (case, part)].tobytes()
        Path("%s-%s" % (prefix, part)).write_bytes(content)
    return prefix


@pytest.mark.parametrize("case", OPTIMIZERS)
def test_mxnets_checkpoints_go_on_as_in_mxnet(case, tmp_path):
    prefix = unpacked(case, tmp_path)
    data, label = GOLDEN[case + "/data"], GOLDEN[case + "/label"]
    module = mx.mod.Module.load(prefix, 1, load_optimizer_states=True)
    module.bind([("data", data.shape)], [("softmax_label", label.shape)])
    name, params = OPTIMIZERS[case]
    module.init_optimizer(optimizer=name, optimizer_params=params)
    batch = mx.io.DataBatch([nd.array(data)], [nd.array(label)])

    def outputs():
        module.forward(batch, is_train=False)
        return module.get_outputs()[0].asnumpy()

    near = {"rtol": 2e-4, "atol": 2e-5}
    np.testing.assert_allclose(outputs(), GOLDEN[case + "/outputs"], **near)
    module.forward_backward(batch)
    module.update()
    np.testing.assert_allclose(outputs(), GOLDEN[case + "/outputs_after"], **near)
    expected = {
        key.split("/")[2]: GOLDEN[key]
        for key in GOLDEN.files
        if key.startswith(case + "/after/")
    }
    assert_same(values(module.get_params()[0]), expected, **near)


@pytest.mark.parametrize("form", ["plait", "mxnet"])
def test_a_checkpoint_goes_on_where_it_was_saved(form, tmp_path):
    prefix = str(tmp_path / "net")
    module = bound()
    settings = {"learning_rate": 0.2, "momentum": 0.9}
    module.init_optimizer(optimizer_params=settings)
    module.forward_backward(a_batch())
    module.update()
    module.save_checkpoint(prefix, 7, True, states_format=form)
    again = mx.mod.Module.load(prefix, 7, load_optimizer_states=True)
    again.bind(module.data_shapes, module.label_shapes)
    again.init_optimizer(optimizer_params=settings)
    assert again.symbol.tojson() == module.symbol.tojson()
    for _ in range(2):
        batch = a_batch()
        for m in (module, again):
            m.forward_backward(batch)
            m.update()
    a, b = (values(m.get_params()[0]) for m in (module, again))
    assert_same(a, b)


def test_the_default_states_hold_no_pickle(tmp_path):
    module = bound()
    module.init_optimizer(optimizer="adam")
    module.save_optimizer_states(str(tmp_path / "states"))
    assert b"plait-optimizer-1" in (tmp_path / "states").read_bytes()
    with pytest.raises(ValueError, match="unknown format 'xml'"):
        module.save_optimizer_states(str(tmp_path / "states"), format="xml")


def test_checkpoints_of_functions_and_callbacks(tmp_path):
    module = bound()
    args, auxs = module.get_params()
    prefix = str(tmp_path / "net")
    mx.callback.do_checkpoint(prefix, 2)(0, module.symbol, args, auxs)
    assert not list(tmp_path.iterdir())
    mx.callback.do_checkpoint(prefix, 2)(1, module.symbol, args, auxs)
    symbol, loaded, aux = mx.model.load_checkpoint(prefix, 2)
    assert symbol.list_arguments() == module.symbol.list_arguments() and aux == {}
    assert_same(values(loaded), values(args))
    module.init_optimizer()
    mx.callback.module_checkpoint(module, prefix, 1, True)(4)
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == [
        "net-0002.params", "net-0005.params", "net-0005.states", "net-symbol.json",
    ]  # fmt: skip


def test_parameters_alone(tmp_path):
    module, other = bound(), bound()
    name = str(tmp_path / "params")
    module.save_params(name)
    assert sorted(nd.load(name))[0] == "arg:fc1_bias"
    other.load_params(name)
    assert_same(values(module.get_params()[0]), values(other.get_params()[0]))


def test_bad_files_say_what_is_wrong(tmp_path):
    module, name = bound(), str(tmp_path / "params")
    nd.save(name, {"fc1_bias": nd.ones(8)})
    with pytest.raises(ValueError, match="an array named 'fc1_bias'; expected arg:"):
        module.load_params(name)
    nd.save(name, [nd.ones(8)])
    with pytest.raises(ValueError, match="holds 1 arrays without names"):
        module.load_params(name)
    nd.save(name, {"arg:fc1_bias": nd.ones(8)})
    with pytest.raises(mx.MXNetError, match="there is no value for 'fc1_weight'"):
        module.load_params(name)
    prefix = str(tmp_path / "net")
    module.save_checkpoint(prefix, 0)
    nd.save(prefix + "-0000.params", {"arg:fc1_bias": nd.ones(9)})
    loaded = mx.mod.Module.load(prefix, 0)
    with pytest.raises(mx.MXNetError):
        loaded.bind([("data", (4, 6))], [("softmax_label", (4,))])
    with pytest.raises(OSError, match="net-0001.params"):
        mx.mod.Module.load(prefix, 1)
    with pytest.raises(OSError, match="nowhere-symbol.json"):
        mx.mod.Module.load(str(tmp_path / "nowhere"), 0)
