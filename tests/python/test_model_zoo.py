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


@pytest.mark.parametrize("name", sorted(SIZES))
def test_sizes(name):
    net = vision.get_model(name)
    net.initialize(mx.init.Zero())
    net(nd.zeros((1, 3, 224, 224)))
    assert count(net) == SIZES[name]


def test_fine_tuning_the_last_layer():
    base = vision.squeezenet1_1()
    base.initialize()
    net = gluon.nn.HybridSequential()
    net.add(base.features, gluon.nn.GlobalAvgPool2D(), gluon.nn.Dense(2))
    net[2].initialize()
    assert net(nd.zeros((1, 3, 64, 64))).shape == (1, 2)
