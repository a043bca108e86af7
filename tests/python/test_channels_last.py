"""Channels last against channels first with transposed arrays: operators, symbols,
layers and whole networks.
"""

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd
from plait.gluon import nn

FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}
LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
# channels, filters, size, parameters
GRID = {
    "3 x 3": (16, 24, (9, 10), {"kernel": (3, 3), "pad": (1, 1)}),
    "strides, dilation": (
        6,
        9,
        (11, 8),
        {"kernel": (3, 2), "stride": (2, 1), "dilate": (1, 2), "pad": (2, 0)},
    ),
    "groups": (12, 18, (7, 6), {"kernel": (3, 3), "num_group": 3}),
    "depthwise": (8, 8, (7, 6), {"kernel": (3, 3), "num_group": 8}),
    "1 x 1": (5, 7, (4, 6), {"kernel": (1, 1)}),
    "1-D": (4, 6, (9,), {"kernel": (4,), "stride": (2,), "num_group": 2}),
    "3-D": (4, 6, (4, 5, 3), {"kernel": (2, 3, 2), "pad": (1, 1, 0)}),
}
ERRORS = {"float64": 1e-13, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


def to_last(x):
    return np.moveaxis(x, 1, -1)


def normal(shape, seed):
    return np.random.RandomState(seed).normal(size=shape)


def run(op, arrays, params, dtype, head):
    """The result, and the gradients of all arrays."""
    arrays = [nd.array(a, dtype=dtype) for a in arrays]
    for a in arrays:
        a.attach_grad()
    with autograd.record():
        y = op(*arrays, no_bias=len(arrays) == 2, **params)
    y.backward(nd.array(head(y.shape), dtype=dtype))
    return [a.astype("float64").asnumpy() for a in [y] + [a.grad for a in arrays]]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("name", GRID)
@pytest.mark.parametrize("op", ["Convolution", "Deconvolution"])
def test_is_channels_first_transposed(op, name, batch, dtype):
    channels, filters, size, params = GRID[name]
    dims, groups = len(size), params.get("num_group", 1)
    params = dict(params, num_filter=filters)
    rows = (filters, channels // groups)
    if op == "Deconvolution":
        rows = (channels, filters // groups)
    x = normal((batch, channels) + size, 1)
    w = normal(rows + params["kernel"], 2) / 4
    arrays = [x, w] if "stride" in params else [x, w, normal(filters, 3)]
    call = getattr(nd, op)
    first = run(call, arrays, params, dtype, lambda shape: normal(shape, 4))
    arrays[0], arrays[1] = to_last(x), to_last(w)

    def head(shape):
        return to_last(normal((shape[0], shape[-1]) + shape[1:-1], 4))

    last = run(call, arrays, dict(params, layout=LAST[dims]), dtype, head)
    for a, b in zip(first[:3], last[:3]):
        np.testing.assert_array_equal(b, to_last(a))
    for a, b in zip(first[3:], last[3:]):  # sums in another order
        np.testing.assert_allclose(b, a, atol=ERRORS[dtype] * np.abs(a).max())


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["max", "avg", "sum", "global"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pooling_is_channels_first_transposed(dims, kind, dtype):
    params = {"kernel": (3,) * dims, "stride": (2,) * dims, "pad": (1,) * dims}
    params["pool_type"] = "max" if kind == "global" else kind
    params["global_pool"] = kind == "global"
    x = normal((2, 5) + (8, 7, 6)[:dims], 1)
    results = []
    for layout, data in ((FIRST[dims], x), (LAST[dims], to_last(x))):
        a = nd.array(data, dtype=dtype)
        a.attach_grad()
        with autograd.record():
            y = nd.Pooling(a, layout=layout, **params)
        head = y.asnumpy().astype("float64") ** 2
        y.backward(nd.array(head, dtype=dtype))
        results.append([b.astype("float64").asnumpy() for b in (y, a.grad)])
    for a, b in zip(*results):
        np.testing.assert_array_equal(to_last(a), b)


def test_second_derivatives():
    x, w = nd.array(normal((2, 5, 5, 3), 1)), nd.array(normal((4, 3, 3, 3), 2))

    def penalty(x, w, layout):
        x.attach_grad()
        w.attach_grad()
        with autograd.record():
            y = nd.Convolution(
                x, w, kernel=(3, 3), num_filter=4, no_bias=True, layout=layout
            )
            (dx,) = autograd.grad((y**2).sum(), [x], create_graph=True)
            (dx**2).sum().backward()
        return x.grad, w.grad

    dx, dw = penalty(x, w, "NHWC")
    order = (0, 3, 1, 2)
    fx, fw = penalty(x.transpose(order), w.transpose(order), "NCHW")
    for a, b in ((dx, fx), (dw, fw)):
        b = to_last(b.asnumpy())
        np.testing.assert_allclose(a.asnumpy(), b, atol=1e-5 * abs(b).max())


BAD = [
    (((1, 5, 5, 4), (2, 4, 3, 3)), "NHWC", r"\(2, 4, 3, 3\).*\(2, 3, 3, \?\)"),
    (((1, 5, 5, 4), (2, 3, 3, 5)), "NHWC", r"\(2, 3, 3, 5\)"),
    (((1, 5, 5, 4), (2, 3, 3, 4)), "NWC", r"layout NWC does not fit kernel \(3, 3\)"),
    (((1, 5, 5, 4), (2, 3, 3, 4)), "NDHWC", "layout NDHWC"),
    (((1, 5, 5, 4), (2, 3, 3, 4)), "NCDHW", "layout NCDHW"),
    (((1, 5, 5, 4), (2, 3, 3, 4)), "HWNC", "HWNC"),
    (((1, 5, 4), (2, 3, 3, 4)), "NHWC", "4 axes"),
    (((1, 2, 5, 4), (2, 3, 3, 4)), "NHWC", "larger than x"),
]


@pytest.mark.parametrize("shapes, layout, text", BAD)
def test_bad_input(shapes, layout, text):
    x, w = map(nd.ones, shapes)
    with pytest.raises((mx.MXNetError, ValueError), match=text):
        nd.Convolution(
            x, w, kernel=(3, 3), num_filter=2, no_bias=True, layout=layout
        ).wait_to_read()


def test_bad_input_of_deconvolution_and_layers():
    x = nd.ones((1, 5, 5, 4))
    with pytest.raises((mx.MXNetError, ValueError), match=r"\(4, 3, 3, 2\)"):
        nd.Deconvolution(
            x, nd.ones((4, 2, 3, 3)), kernel=(3, 3), num_filter=2, layout="NHWC"
        ).wait_to_read()
    with pytest.raises(AssertionError, match="NHWC"):
        nn.Conv2D(2, 3, layout="NWC")
    with pytest.raises(AssertionError, match="NCW"):
        nn.Conv1D(2, 3, layout="NHWC")


def small_symbol():
    x = mx.sym.Variable("data")
    y = mx.sym.Convolution(
        x, kernel=(3, 3), num_filter=8, pad=(1, 1), layout="NHWC", name="a"
    )
    y = mx.sym.BatchNorm(y, axis=3, fix_gamma=False, name="bn")
    y = mx.sym.Activation(y, act_type="relu")
    z = mx.sym.Convolution(
        y, kernel=(1, 1), num_filter=8, no_bias=True, layout="NHWC", name="b"
    )
    y = mx.sym.Pooling(
        mx.sym.concat(y + z, z, dim=3), kernel=(2, 2), stride=(2, 2), layout="NHWC"
    )
    return mx.sym.Deconvolution(
        y, kernel=(2, 2), stride=(2, 2), num_filter=4, layout="NHWC", name="d"
    )


def test_symbols_infer_shapes_and_round_trip():
    symbol = small_symbol()
    read = mx.sym.load_json(symbol.tojson())
    assert read.tojson() == symbol.tojson()
    assert '"layout": "NHWC"' in symbol.tojson()
    for s in (symbol, read):
        shapes, out, _ = s.infer_shape(data=(2, 8, 6, 3))
        shapes = dict(zip(s.list_arguments(), shapes))
        assert shapes["a_weight"] == (8, 3, 3, 3) and shapes["b_weight"] == (8, 1, 1, 8)
        assert shapes["d_weight"] == (16, 2, 2, 4) and shapes["bn_gamma"] == (8,)
        assert out == [(2, 8, 6, 4)]
    # From the result, where the stride is 1.
    conv = mx.sym.Convolution(
        mx.sym.Variable("x", shape=(0, 0, 0, 5)),
        kernel=(3, 3),
        num_filter=2,
        layout="NHWC",
        name="c",
    )
    y = conv + mx.sym.Variable("y", shape=(4, 6, 7, 2))
    shapes = dict(zip(y.list_arguments(), y.infer_shape()[0]))
    assert shapes["x"] == (4, 8, 9, 5) and shapes["c_weight"] == (2, 3, 3, 5)


@pytest.mark.parametrize("is_train", [False, True])
def test_executors_and_monitors_see_channels_last(is_train):
    symbol = small_symbol()
    values = {}

    def bind():
        executor = symbol.simple_bind(mx.cpu(), data=(2, 8, 6, 3))
        named = {**executor.arg_dict, **executor.aux_dict}
        for i, (name, a) in enumerate(sorted(named.items())):
            v = normal(a.shape, i)
            a[:] = abs(v) if name.endswith("var") else v
        return executor

    plain, seen = bind(), bind()
    seen.set_monitor_callback(lambda name, a: values.update({name: a.shape}))
    results = []
    for executor in (plain, seen):
        y = executor.forward(is_train=is_train)[0]
        results.append([y.asnumpy()])
        if is_train:
            executor.backward(nd.array(normal(y.shape, 9)))
            results[-1] += [g.asnumpy() for g in executor.grad_arrays]
    assert values["a_output"] == (2, 8, 6, 8)
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, atol=1e-5 * max(1, abs(b).max()))


class Residual(gluon.HybridBlock):
    def __init__(self, channels, layout, **kwargs):
        super().__init__(**kwargs)
        axis = layout.index("C")
        with self.name_scope():
            self.body = nn.HybridSequential()
            for _ in range(2):
                self.body.add(
                    nn.Conv2D(channels, 3, padding=1, use_bias=False, layout=layout),
                    nn.BatchNorm(axis=axis),
                    nn.Activation("relu"),
                )

    def hybrid_forward(self, F, x):
        return F.relu(x + self.body(x))


def network(layout):
    axis = layout.index("C")
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(16, 3, strides=2, padding=1, layout=layout, activation="relu"),
        nn.BatchNorm(axis=axis),
        nn.MaxPool2D(2, layout=layout),
        Residual(16, layout),
        Residual(16, layout),
        nn.Conv2D(32, 3, groups=4, layout=layout),
        nn.LeakyReLU(0.1),
        nn.Conv2DTranspose(8, 2, strides=2, layout=layout),
        nn.AvgPool2D(2, layout=layout),
        nn.GlobalAvgPool2D(layout=layout),
        nn.Flatten(),
        nn.Dense(5),
    )
    return net


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("hybridize", [False, True])
def test_a_network_trains_as_with_channels_first(hybridize, dtype):
    first, last = network("NCHW"), network("NHWC")
    x = nd.array(normal((3, 3, 32, 28), 0), dtype=dtype)
    inputs = {first: x, last: x.transpose((0, 2, 3, 1))}
    for net, data in inputs.items():
        net.initialize()
        net.cast(dtype)
        net(data)  # parameters get their shapes
    for i, (a, b) in enumerate(
        zip(first.collect_params().values(), last.collect_params().values())
    ):
        value = normal(a.shape, i) * 0.2 + (a.name.endswith(("gamma", "var")))
        a.set_data(nd.array(abs(value), dtype=dtype) if "var" in a.name else value)
        b.set_data(
            a.data().asnumpy() if len(a.shape) < 4 else to_last(a.data().asnumpy())
        )
    results = []
    for net, data in inputs.items():
        if hybridize:
            net.hybridize()
        predicted = net(data)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
        for _ in range(2):
            with autograd.record():
                loss = (net(data) ** 2).sum()
            loss.backward()
            trainer.step(3)
        values = [predicted.asnumpy(), loss.asnumpy()]
        for p in net.collect_params().values():
            v = p.data().asnumpy()
            values.append(to_last(v) if net is first and v.ndim == 4 else v)
        results.append(values)
    error = 1e-11 if dtype == "float64" else 1e-4
    for a, b in zip(*results):
        np.testing.assert_allclose(a, b, atol=error * max(1, abs(a).max()))


LAYERS = [
    (nn.Conv1D, 1, {"kernel_size": 3, "groups": 2}),
    (nn.Conv3D, 3, {"kernel_size": 2, "strides": 2, "groups": 2}),
    (nn.Conv1DTranspose, 1, {"kernel_size": 3, "strides": 2, "output_padding": 1}),
    (nn.Conv2DTranspose, 2, {"kernel_size": 3, "groups": 2, "use_bias": False}),
    (nn.Conv3DTranspose, 3, {"kernel_size": 2}),
]


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize("layer, dims, kwargs", LAYERS)
def test_layers_find_their_shapes(layer, dims, kwargs, hybridize):
    x = nd.array(normal((2, 4) + (7, 6, 5)[:dims], 0))
    first, last = (
        layer(6, layout=FIRST[dims], **kwargs),
        layer(6, layout=LAST[dims], **kwargs),
    )
    for net in (first, last):
        net.initialize()
        if hybridize:
            net.hybridize()
    y = first(x)
    assert last.weight.shape[0] in (0, 4, 6)
    last(nd.array(to_last(x.asnumpy())))
    last.weight.set_data(to_last(first.weight.data().asnumpy()))
    np.testing.assert_allclose(
        last(nd.array(to_last(x.asnumpy()))).asnumpy(),
        to_last(y.asnumpy()),
        atol=1e-6,
    )


def test_deferred_weights_of_a_users_block():
    class Block(gluon.HybridBlock):
        def __init__(self, shape, layout):
            super().__init__()
            self.kwargs = {"layout": layout} if layout else {}
            self.weight = self.params.get(
                "weight", shape=shape, allow_deferred_init=True
            )

        def hybrid_forward(self, F, x, weight):
            return F.Convolution(
                x, weight, kernel=(3, 3), num_filter=4, no_bias=True, **self.kwargs
            )

    for shape, layout, x, expected in (
        ((4, 0, 3, 3), None, (1, 2, 5, 5), (4, 2, 3, 3)),
        ((4, 3, 3, 0), "NHWC", (1, 5, 5, 2), (4, 3, 3, 2)),
    ):
        block = Block(shape, layout)
        block.initialize()
        block(nd.ones(x))
        assert block.weight.shape == expected


def test_recurrent_cells_of_convolutions():
    cells = [
        gluon.contrib.rnn.Conv2DLSTMCell(
            shape, 4, 3, 3, i2h_pad=1, conv_layout=layout, prefix="cell_"
        )
        for shape, layout in (((3, 6, 5), "NCHW"), ((6, 5, 3), "NHWC"))
    ]
    x = normal((2, 3, 6, 5), 0)
    outputs = []
    for cell, data in zip(cells, (x, to_last(x))):
        cell.initialize()
        for i, p in enumerate(cell.collect_params().values()):
            shape = p.shape if cell is cells[0] or len(p.shape) < 4 else None
            value = normal(shape or (p.shape[0], p.shape[-1]) + p.shape[1:-1], i)
            p.set_data(value if shape else to_last(value))
        outputs.append(cell(nd.array(data), cell.begin_state(2))[0].asnumpy())
    np.testing.assert_allclose(to_last(outputs[0]), outputs[1], atol=1e-5)
