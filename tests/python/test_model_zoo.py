"""The model zoo: names, sizes, outputs, files of weights."""

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd
from plait.gluon.model_zoo import model_store, vision

# Numbers of parameters, running statistics among them, of MXNet 1.9.1's models.
SIZES = {
    "alexnet": 61100840,
    "squeezenet1.1": 1235496,
    "mobilenet0.25": 475544,
    "mobilenetv2_0.25": 1526856,
    "resnet18_v1": 11699112,
    "resnet18_v2": 11695796,
    "densenet121": 8062504,
    # Of the papers; the running statistics come on top.
    "googlenet": 6998552,
    "inception_bn": 11285224 + 20032,
    "resnext50_32x4d": 25028904 + 68224,
    "resnext101_32x4d": 44177704 + 137856,
    "resnext101_64x4d": 83455272 + 202880,
}


def count(net):
    return sum(int(np.prod(p.shape)) for p in net.collect_params().values())


@pytest.mark.parametrize("name", ["squeezenet1.1", "mobilenet0.25", "resnet18_v1"])
def test_small_models_compute(name):
    net = vision.get_model(name, classes=7)
    net.initialize()
    x = nd.random.uniform(shape=(1, 3, 224, 224))
    with autograd.record():
        out = net(x)
    out.backward()
    assert out.shape == (1, 7) and np.isfinite(out.asnumpy()).all()


@pytest.mark.parametrize("name", ["resnet18_v1", "mobilenetv2_0.25", "squeezenet1.0"])
def test_parameters_save_and_load(name, tmp_path):
    net = vision.get_model(name, classes=3)
    net.initialize()
    x = nd.random.uniform(shape=(1, 3, 224, 224))
    want = net(x).asnumpy()
    net.save_parameters(str(tmp_path / "weights.params"))
    other = vision.get_model(name, classes=3)
    other.load_parameters(str(tmp_path / "weights.params"))
    np.testing.assert_allclose(other(x).asnumpy(), want, rtol=1e-5, atol=1e-6)


def test_names_follow_the_path_of_blocks():
    net = vision.resnet18_v1(prefix="net_")
    names = list(net.collect_params())
    assert names[0] == "net_conv0_weight"
    assert "net_stage2_conv2_weight" in names  # the short cut's
    assert names[-1] == "net_dense0_bias"
    assert net.features[1] is not None and net.output.weight.shape == (1000, 512)


def test_unknown_models():
    with pytest.raises(ValueError, match="resnet18_v1"):
        vision.get_model("resnet19_v1")


def test_weights_come_from_local_files(tmp_path):
    root = str(tmp_path)
    with pytest.raises(FileNotFoundError, match="Plait downloads nothing"):
        vision.squeezenet1_1(pretrained=True, root=root)
    net = vision.squeezenet1_1()
    net.initialize()
    net(nd.zeros((1, 3, 224, 224)))
    net.save_parameters(str(tmp_path / "squeezenet1.1.params"))
    loaded = vision.squeezenet1_1(pretrained=True, root=root)
    x = nd.random.uniform(shape=(1, 3, 224, 224))
    np.testing.assert_allclose(net(x).asnumpy(), loaded(x).asnumpy(), rtol=1e-5)
    published = tmp_path / (
        "squeezenet1.1-%s.params" % model_store.short_hash("squeezenet1.1")
    )
    published.write_bytes(b"something else")
    with pytest.raises(ValueError, match="SHA-1"):
        vision.squeezenet1_1(pretrained=True, root=root)
    model_store.purge(root)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="not available"):
        model_store.short_hash("lenet")
    with pytest.raises(FileNotFoundError, match="nobody published any"):
        vision.googlenet(pretrained=True, root=root)
    net = vision.googlenet(classes=2)
    net.initialize()
    net(nd.zeros((1, 3, 64, 64)))
    net.save_parameters(str(tmp_path / "googlenet.params"))
    loaded = vision.googlenet(pretrained=True, root=root, classes=2)
    x = nd.random.uniform(shape=(1, 3, 64, 64))
    np.testing.assert_allclose(net(x).asnumpy(), loaded(x).asnumpy(), rtol=1e-5)


@pytest.mark.parametrize("name", sorted(SIZES))
def test_sizes(name):
    net = vision.get_model(name)
    out = net(mx.sym.var("data"))
    shapes, outputs, states = out.infer_shape(data=(1, 3, 224, 224))
    assert sum(int(np.prod(s)) for s in shapes[1:] + states) == SIZES[name]
    assert outputs == [(1, 1000)]


@pytest.mark.parametrize("name", sorted(vision._table()))
def test_symbols_are_saved_and_loaded(name, tmp_path):
    net = vision.get_model(name, classes=5, prefix="net_")
    out = net(mx.sym.var("data"))
    out.save(str(tmp_path / "net-symbol.json"))
    loaded = mx.sym.load(str(tmp_path / "net-symbol.json"))
    assert loaded.tojson() == out.tojson()
    names = set(loaded.list_inputs()) - {"data"}
    assert names == set(net.collect_params())
    size = 299 if name == "inceptionv3" else 224
    shapes, outputs, _ = loaded.infer_shape(data=(2, 3, size, size))
    assert outputs == [(2, 5)]
    known = net.collect_params()
    for variable, shape in zip(loaded.list_arguments()[1:], shapes[1:]):
        given = known[variable].shape
        assert all(a in (0, b) for a, b in zip(given, shape, strict=True))


def test_networks_of_papers_learn():
    """Small ones: a first layer for small images, few blocks."""
    mx.random.seed(2)
    net = vision.ResNeXt((1, 1, 1, 1), 4, 2, classes=2, thumbnail=True)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    x = nd.random.uniform(-1, 1, shape=(8, 3, 16, 16))
    y = nd.array([0, 1] * 4)
    losses = []
    for _ in range(6):
        with autograd.record():
            loss = loss_of(net(x), y)
        loss.backward()
        trainer.step(8)
        losses.append(float(loss.mean().asscalar()))
    assert losses[-1] < losses[0] / 2
    with pytest.raises(ValueError, match="number of layers: 30"):
        vision.get_resnext(30)


def test_exported_networks_run(tmp_path):
    import subprocess
    import sys
    from pathlib import Path

    tool = Path(__file__).parents[2] / "tools" / "export_models.py"
    command = [sys.executable, str(tool), str(tmp_path), "--params", "--classes", "3"]
    done = subprocess.run(command + ["squeezenet1.1"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    net = gluon.SymbolBlock.imports(
        str(tmp_path / "squeezenet1.1-symbol.json"),
        ["data"],
        str(tmp_path / "squeezenet1.1-0000.params"),
    )
    assert net(nd.ones((1, 3, 224, 224))).shape == (1, 3)


def test_fine_tuning_the_last_layer():
    base = vision.squeezenet1_1()
    base.initialize()
    net = gluon.nn.HybridSequential()
    net.add(base.features, gluon.nn.GlobalAvgPool2D(), gluon.nn.Dense(2))
    net[2].initialize()
    assert net(nd.zeros((1, 3, 64, 64))).shape == (1, 2)
