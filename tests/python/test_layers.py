"""Layers of gluon.nn and gluon.contrib.nn against NumPy."""

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd
from plait.gluon import nn


def normal(*shape):
    return np.random.normal(size=shape).astype("float32")


def close(a, b, tolerance=1e-5):
    np.testing.assert_allclose(a.asnumpy(), b, rtol=tolerance, atol=tolerance)


def made(layer, init=None):
    layer.initialize(init or mx.init.Normal(0.5))
    return layer


def test_dense_flattens_or_not():
    x = normal(2, 3, 4)
    layer = made(nn.Dense(5))
    y = layer(nd.array(x))
    w, b = layer.weight.data().asnumpy(), layer.bias.data().asnumpy()
    close(y, x.reshape(2, 12) @ w.T + b)
    layer = made(nn.Dense(5, flatten=False, use_bias=False, activation="tanh"))
    y = layer(nd.array(x))
    close(y, np.tanh(x @ layer.weight.data().asnumpy().T))
    assert layer.bias is None and layer.weight.shape == (5, 4)


def conv_reference(x, w, stride, pad, groups=1):
    """A plain convolution over the last two axes."""
    n, c, height, width = x.shape
    out, _, kh, kw = w.shape
    x = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    rows = (height + 2 * pad - kh) // stride + 1
    columns = (width + 2 * pad - kw) // stride + 1
    y = np.zeros((n, out, rows, columns))
    each_in, each_out = c // groups, out // groups
    for o in range(out):
        g = o // each_out
        part = x[:, g * each_in : (g + 1) * each_in]
        for i in range(rows):
            for j in range(columns):
                si, sj = i * stride, j * stride
                window = part[:, :, si : si + kh, sj : sj + kw]
                y[:, o, i, j] = (window * w[o]).sum(axis=(1, 2, 3))
    return y


@pytest.mark.parametrize("stride,pad,groups", [(1, 0, 1), (2, 1, 1), (1, 1, 2)])
def test_conv2d(stride, pad, groups):
    x = normal(2, 4, 7, 6)
    layer = made(nn.Conv2D(6, 3, stride, pad, groups=groups))
    y = layer(nd.array(x))
    w, b = layer.weight.data().asnumpy(), layer.bias.data().asnumpy()
    expected = conv_reference(x, w, stride, pad, groups) + b[:, None, None]
    close(y, expected, 1e-4)
    assert layer.weight.shape == (6, 4 // groups, 3, 3)


def test_conv_shapes():
    cases = [
        (nn.Conv1D(4, 3, padding=1), (2, 3, 8), (2, 4, 8)),
        (nn.Conv3D(4, 2), (1, 2, 4, 5, 6), (1, 4, 3, 4, 5)),
        (nn.Conv1DTranspose(4, 3, strides=2), (2, 3, 5), (2, 4, 11)),
        (
            nn.Conv2DTranspose(4, 3, strides=2, output_padding=1),
            (1, 2, 4, 4),
            (1, 4, 10, 10),
        ),
        (nn.MaxPool1D(2), (1, 2, 7), (1, 2, 3)),
        (nn.MaxPool2D(3, 2, ceil_mode=True), (1, 1, 6, 6), (1, 1, 3, 3)),
        (nn.AvgPool3D(2), (1, 1, 4, 4, 4), (1, 1, 2, 2, 2)),
        (nn.GlobalAvgPool2D(), (2, 3, 5, 4), (2, 3, 1, 1)),
        (nn.GlobalMaxPool1D(), (2, 3, 5), (2, 3, 1)),
        (nn.ReflectionPad2D(2), (1, 1, 4, 4), (1, 1, 8, 8)),
    ]
    for layer, before, after in cases:
        layer.initialize()
        assert layer(nd.ones(before)).shape == after, layer


def test_transposed_convolution_is_the_gradient_of_convolution():
    x, w = normal(1, 2, 5, 5), normal(2, 3, 3, 3)
    up = nn.Conv2DTranspose(3, 3, strides=2, use_bias=False)
    up.initialize()
    up(nd.array(x))
    up.weight.set_data(nd.array(w))
    y = up(nd.array(x))
    z = nd.random.normal(shape=y.shape)
    z.attach_grad()
    with autograd.record():
        s = nd.Convolution(
            z, nd.array(w), kernel=(3, 3), stride=(2, 2), num_filter=2, no_bias=True
        )
    s.backward(nd.array(x))
    close(y, z.grad.asnumpy(), 1e-4)


def test_wrong_layouts_and_kernels_are_refused():
    with pytest.raises(AssertionError, match="layout"):
        nn.Conv2D(2, 3, layout="CHWN")
    with pytest.raises(AssertionError, match="kernel_size must be"):
        nn.Conv2D(2, (3, 3, 3))


def test_pooling_values():
    x = nd.array(np.arange(16.0).reshape(1, 1, 4, 4))
    assert nn.MaxPool2D(2)(x).asnumpy().tolist() == [[[[5, 7], [13, 15]]]]
    assert nn.AvgPool2D(2)(x).asnumpy().tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
    padded = nn.AvgPool2D(2, 2, 1, count_include_pad=False)(x).asnumpy()
    assert padded[0, 0, 0].tolist() == [0, 1.5, 3]


def test_batch_norm_follows_the_batch_in_training():
    x = normal(8, 3, 4, 4) * 2 + 1
    layer = made(nn.BatchNorm(momentum=0.9, epsilon=1e-5), mx.init.One())
    with autograd.record():
        y = layer(nd.array(x))
    y.backward()
    mean, var = x.mean(axis=(0, 2, 3)), x.var(axis=(0, 2, 3))
    shape = (1, 3, 1, 1)
    expected = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5)
    close(y, expected, 1e-4)
    close(layer.running_mean.data(), 0.1 * mean, 1e-5)
    close(layer.running_var.data(), 0.9 + 0.1 * var, 1e-4)
    shifted = (x - 0.1 * mean.reshape(shape)) / np.sqrt(
        (0.9 + 0.1 * var).reshape(shape) + 1e-5
    )
    close(layer(nd.array(x)), shifted, 1e-4)
    assert [p.name[-12:] for p in layer.params.values() if p.grad_req == "null"] == [
        "running_mean",
        "_running_var",
    ]


def test_batch_norm_without_scale_and_center_has_no_gradients():
    layer = nn.BatchNorm(scale=False, center=False)
    assert layer.gamma.grad_req == layer.beta.grad_req == "null"
    layer.initialize()
    layer(nd.ones((2, 3)))
    layer.cast("float16")
    assert layer.gamma.data().dtype == np.float32


def test_layer_group_and_instance_norm():
    x = normal(2, 4, 5)
    eps = 1e-5

    def scaled(values, axes):
        mean, var = values.mean(axes, keepdims=True), values.var(axes, keepdims=True)
        return (values - mean) / np.sqrt(var + eps)

    one = mx.init.One()
    close(made(nn.LayerNorm(), one)(nd.array(x)), scaled(x, (2,)), 1e-4)
    close(made(nn.LayerNorm(axis=1), one)(nd.array(x)), scaled(x, (1,)), 1e-4)
    close(made(nn.InstanceNorm(), one)(nd.array(x)), scaled(x, (2,)), 1e-4)
    swapped = made(nn.InstanceNorm(axis=2), one)(nd.array(x))
    close(swapped, scaled(x, (1,)), 1e-4)
    grouped = scaled(x.reshape(2, 2, 2, 5), (2, 3)).reshape(2, 4, 5)
    close(made(nn.GroupNorm(2), one)(nd.array(x)), grouped, 1e-4)


def test_activations():
    x = np.array([[-2.0, -0.5, 0.0, 1.0]], "float32")
    a = nd.array(x)
    sigmoid = 1 / (1 + np.exp(-x))
    close(nn.Activation("relu")(a), np.maximum(x, 0))
    close(nn.Activation("sigmoid")(a), sigmoid)
    close(nn.Activation("softrelu")(a), np.log1p(np.exp(x)))
    close(nn.LeakyReLU(0.1)(a), np.where(x > 0, x, 0.1 * x))
    close(nn.ELU(2.0)(a), np.where(x > 0, x, 2 * np.expm1(x)))
    close(nn.Swish(1.5)(a), x / (1 + np.exp(-1.5 * x)))
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    close(nn.SELU()(a), scale * np.where(x > 0, x, alpha * np.expm1(x)))
    prelu = nn.PReLU()
    prelu.initialize()
    close(prelu(a), np.where(x > 0, x, 0.25 * x))
    close(nn.GELU()(nd.array([1.0])), [0.8413447])
    with pytest.raises(AssertionError):
        nn.LeakyReLU(-1)


def test_dropout_only_in_training():
    layer, x = nn.Dropout(0.5), nd.ones((1000,))
    assert (layer(x).asnumpy() == 1).all()
    with autograd.record():
        y = layer(x).asnumpy()
    assert set(y.tolist()) == {0.0, 2.0} and 400 < (y > 0).sum() < 600
    with autograd.record():
        assert (nn.Dropout(0)(x).asnumpy() == 1).all()


def test_embedding_and_its_gradient():
    layer = made(nn.Embedding(4, 3))
    with autograd.record():
        y = layer(nd.array([1, 1, 3]))
    y.backward()
    table = layer.weight.data().asnumpy()
    close(y, table[[1, 1, 3]])
    assert layer.weight.grad().asnumpy()[:, 0].tolist() == [0, 2, 0, 1]


def test_functions_as_layers():
    x = nd.array([[-1.0, 2.0]])
    assert nn.Lambda("relu")(x).asnumpy().tolist() == [[0, 2]]
    assert nn.Lambda(lambda v: v * 2)(x).asnumpy().tolist() == [[-2, 4]]
    assert nn.HybridLambda("tanh")(x).shape == (1, 2)
    double = nn.HybridLambda(lambda F, v: F.elemwise_add(v, v))
    assert double(x).asnumpy().tolist() == [[-2, 4]]
    with pytest.raises(AssertionError, match="is not found"):
        nn.Lambda("no_such_function")
    with pytest.raises(ValueError, match="Unrecognized function"):
        nn.HybridLambda(3)


def test_concurrent_joins_branches():
    for kind in (gluon.contrib.nn.Concurrent, gluon.contrib.nn.HybridConcurrent):
        net = kind(axis=1)
        net.add(gluon.contrib.nn.Identity(), nn.HybridLambda("relu"))
        y = net(nd.array([[-1.0, 2.0]]))
        assert y.asnumpy().tolist() == [[-1, 2, 0, 2]]


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pixel_shuffle(dims):
    factors = (2, 3, 4)[:dims]
    sizes = (3, 4, 5)[:dims]
    x = normal(1, int(np.prod(factors)) * 2, *sizes)
    kind = getattr(gluon.contrib.nn, "PixelShuffle%dD" % dims)
    layer = kind(factors if dims > 1 else 2)
    split = x.reshape((1, 2) + factors + sizes)
    order = [0, 1] + [a for i in range(dims) for a in (2 + dims + i, 2 + i)]
    expected = split.transpose(order).reshape(
        (1, 2) + tuple(f * s for f, s in zip(factors, sizes))
    )
    close(layer(nd.array(x)), expected)


def test_parameters_of_layers_train():
    """A convolutional network learns to tell two kinds of pictures."""
    x = normal(64, 1, 8, 8) * 0.1
    label = np.arange(64) % 2
    x[label == 1, :, 2:5, 2:5] += 1
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(4, 3, activation="relu"),
        nn.BatchNorm(),
        nn.MaxPool2D(2),
        nn.Flatten(),
        nn.Dense(2),
    )
    net.initialize(mx.init.Xavier())
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.02})
    for _ in range(20):
        with autograd.record():
            out = net(nd.array(x))
            value = loss(out, nd.array(label))
        value.backward()
        trainer.step(64)
    assert (net(nd.array(x)).asnumpy().argmax(axis=1) == label).all()
