"""Every layer, cell, loss and family of networks: hybridized and not, the same."""

import numpy as np
import pytest
from hybrid_parts import check

import plait as mx
from plait import gluon, nd
from plait.gluon import contrib, nn, rnn
from plait.gluon import loss as losses
from plait.gluon.model_zoo import vision


def x(*shape):
    return np.random.RandomState(len(shape)).uniform(-1, 1, shape).astype("float32")


IDS = np.array([[1, 0, 3], [2, 2, 0]], "float32")

LAYERS = {
    "dense": (lambda: nn.Dense(4), x(3, 2, 5)),
    "dense_flat": (lambda: nn.Dense(4, flatten=False, activation="relu"), x(3, 2, 5)),
    "dense_no_bias": (lambda: nn.Dense(4, use_bias=False), x(3, 5)),
    "dropout": (lambda: nn.Dropout(0.4), x(6, 7)),
    "dropout_axes": (lambda: nn.Dropout(0.4, axes=(1,)), x(6, 7)),
    "embedding": (lambda: nn.Embedding(4, 3), IDS),
    "batch_norm": (lambda: nn.BatchNorm(), x(4, 3, 2, 5)),
    "batch_norm_last": (lambda: nn.BatchNorm(axis=-1, scale=False), x(4, 3)),
    "batch_norm_global": (lambda: nn.BatchNorm(use_global_stats=True), x(4, 3, 2)),
    "batch_norm_relu": (lambda: nn.BatchNormReLU(), x(4, 3, 2, 5)),
    "sync_batch_norm": (lambda: contrib.nn.SyncBatchNorm(), x(4, 3, 2, 5)),
    "instance_norm": (lambda: nn.InstanceNorm(), x(2, 3, 4)),
    "instance_norm_axis": (lambda: nn.InstanceNorm(axis=2), x(2, 3, 4)),
    "layer_norm": (lambda: nn.LayerNorm(), x(2, 3, 4)),
    "group_norm": (lambda: nn.GroupNorm(2), x(2, 4, 3)),
    "flatten": (lambda: nn.Flatten(), x(2, 3, 4)),
    "lambda": (lambda: nn.HybridLambda(lambda F, y: F.exp(y) * 2), x(2, 3)),
    "lambda_name": (lambda: nn.HybridLambda("tanh"), x(2, 3)),
    "conv1d": (lambda: nn.Conv1D(4, 3, 2, 1), x(2, 3, 8)),
    "conv2d": (lambda: nn.Conv2D(4, 3, padding=1, groups=2), x(2, 4, 6, 5)),
    "conv2d_act": (lambda: nn.Conv2D(4, (1, 3), activation="tanh"), x(2, 3, 4, 5)),
    "conv3d": (lambda: nn.Conv3D(2, 2, dilation=2), x(1, 2, 5, 5, 4)),
    "conv1dt": (lambda: nn.Conv1DTranspose(3, 3, 2, 1, 1), x(2, 4, 5)),
    "conv2dt": (lambda: nn.Conv2DTranspose(3, 3, 2), x(2, 4, 3, 3)),
    "conv3dt": (lambda: nn.Conv3DTranspose(2, 2), x(1, 2, 3, 3, 2)),
    "max1": (lambda: nn.MaxPool1D(), x(2, 3, 7)),
    "max2": (lambda: nn.MaxPool2D(3, 2, 1, ceil_mode=True), x(2, 3, 7, 6)),
    "max3": (lambda: nn.MaxPool3D(), x(1, 2, 4, 4, 6)),
    "avg1": (lambda: nn.AvgPool1D(), x(2, 3, 7)),
    "avg2": (lambda: nn.AvgPool2D(3, 1, 1, count_include_pad=False), x(2, 3, 7, 6)),
    "avg3": (lambda: nn.AvgPool3D(), x(1, 2, 4, 4, 6)),
    "gmax1": (lambda: nn.GlobalMaxPool1D(), x(2, 3, 7)),
    "gmax2": (lambda: nn.GlobalMaxPool2D(), x(2, 3, 7, 2)),
    "gmax3": (lambda: nn.GlobalMaxPool3D(), x(2, 3, 2, 2, 3)),
    "gavg1": (lambda: nn.GlobalAvgPool1D(), x(2, 3, 7)),
    "gavg2": (lambda: nn.GlobalAvgPool2D(), x(2, 3, 7, 2)),
    "gavg3": (lambda: nn.GlobalAvgPool3D(), x(2, 3, 2, 2, 3)),
    "reflect": (lambda: nn.ReflectionPad2D(2), x(1, 2, 4, 5)),
    "relu": (lambda: nn.Activation("softrelu"), x(3, 4)),
    "leaky": (lambda: nn.LeakyReLU(0.2), x(3, 4)),
    "prelu": (lambda: nn.PReLU(in_channels=4), x(3, 4)),
    "elu": (lambda: nn.ELU(0.5), x(3, 4)),
    "selu": (lambda: nn.SELU(), x(3, 4)),
    "gelu": (lambda: nn.GELU(), x(3, 4)),
    "swish": (lambda: nn.Swish(1.5), x(3, 4)),
    "identity": (lambda: contrib.nn.Identity(), x(3, 4)),
    "shuffle1": (lambda: contrib.nn.PixelShuffle1D(2), x(1, 4, 3)),
    "shuffle2": (lambda: contrib.nn.PixelShuffle2D((2, 3)), x(1, 12, 3, 2)),
    "shuffle3": (lambda: contrib.nn.PixelShuffle3D((2, 1, 2)), x(1, 8, 2, 3, 2)),
    "deformable": (
        lambda: contrib.cnn.DeformableConvolution(2, 3, padding=1),
        x(1, 2, 5, 5),
    ),
    "modulated": (
        lambda: contrib.cnn.ModulatedDeformableConvolution(2, 3, padding=1),
        x(1, 2, 5, 5),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_the_same_hybridized(name):
    make, *inputs = LAYERS[name]
    check(make, *inputs, rtol=1e-4 if "norm" in name else 2e-5)


def test_containers_are_the_same_hybridized():
    def make(kind):
        net = kind()
        net.add(nn.Dense(3), nn.HybridSequential(), nn.Dense(2, activation="tanh"))
        net[1].add(contrib.nn.Identity()) if kind is nn.HybridSequential else None
        return net

    check(lambda: make(nn.HybridSequential), x(4, 3))

    def concurrent():
        net = contrib.nn.HybridConcurrent(axis=1)
        net.add(nn.Dense(3), contrib.nn.Identity(), nn.Dense(2))
        return net

    check(concurrent, x(4, 3), static_alloc=True, static_shape=True)


RNNS = {
    "rnn": lambda: rnn.RNN(4, 2),
    "rnn_tanh": lambda: rnn.RNN(4, activation="tanh"),
    "lstm": lambda: rnn.LSTM(4, 2, layout="NTC", bidirectional=True),
    "gru": lambda: rnn.GRU(4, 2, dropout=0.3),
    "lstm_proj": lambda: rnn.LSTM(4, projection_size=3),
}


@pytest.mark.parametrize("name", RNNS)
def test_a_recurrent_layer_is_the_same_hybridized(name):
    check(RNNS[name], x(3, 2, 5))


def test_a_recurrent_layer_with_states_and_lengths():
    states = [x(2, 3, 4), x(2, 3, 4)]
    check(lambda: rnn.LSTM(4, 2), x(5, 3, 2), states)
    lengths = np.array([2, 5, 3], "float32")
    check(lambda: rnn.LSTM(4, use_sequence_length=True), x(5, 3, 2), None, lengths)


class Unrolled(gluon.HybridBlock):
    """A cell over three steps."""

    def __init__(self, make, merge=True, layout="NTC"):
        super().__init__()
        with self.name_scope():
            self.cell = make()
        self.options = {"layout": layout, "merge_outputs": merge}

    def hybrid_forward(self, F, x):
        self.cell.reset()
        return self.cell.unroll(3, x, **self.options)


def stacked():
    cell = rnn.HybridSequentialRNNCell()
    for part in (rnn.LSTMCell(4), rnn.DropoutCell(0.3), rnn.GRUCell(4)):
        cell.add(part)
    return cell


CELLS = {
    "rnn": lambda: rnn.RNNCell(4),
    "lstm": lambda: rnn.LSTMCell(4),
    "gru": lambda: rnn.GRUCell(4),
    "stacked": stacked,
    "zoneout": lambda: rnn.ZoneoutCell(rnn.RNNCell(4), 0.3, 0.2),
    "residual": lambda: rnn.ResidualCell(rnn.GRUCell(5)),
    "bidirectional": lambda: rnn.BidirectionalCell(rnn.LSTMCell(4), rnn.GRUCell(3)),
    "lstmp": lambda: contrib.rnn.LSTMPCell(4, 3),
    # One kind of mask each: the graph may draw several in another order.
    "drop_inputs": lambda: contrib.rnn.VariationalDropoutCell(rnn.LSTMCell(4), 0.2),
    "drop_states": lambda: contrib.rnn.VariationalDropoutCell(
        rnn.GRUCell(4), drop_states=0.3
    ),
    "drop_outputs": lambda: contrib.rnn.VariationalDropoutCell(
        rnn.RNNCell(4), drop_outputs=0.3
    ),
}


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_the_same_hybridized(name, merge):
    check(lambda: Unrolled(CELLS[name], merge), x(2, 3, 5), rtol=5e-5)


CONV_CELLS = {
    "1d": ("Conv1D", (2, 6)),
    "2d": ("Conv2D", (2, 4, 5)),
    "3d": ("Conv3D", (2, 3, 4, 3)),
}


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("dims", CONV_CELLS)
def test_a_convolutional_cell_is_the_same_hybridized(dims, kind):
    name, shape = CONV_CELLS[dims]
    make = getattr(contrib.rnn, name + kind + "Cell")
    check(
        lambda: Unrolled(lambda: make(shape, 3, 3, 3, i2h_pad=1)),
        x(2, 3, *shape),
        rtol=5e-5,
    )


def test_a_cell_by_itself_is_the_same_hybridized():
    check(lambda: rnn.LSTMCell(4), x(2, 5), [x(2, 4), x(2, 4)])
    check(lambda: rnn.RNNCell(4), x(2, 5), [x(2, 4)])


SIGNS = np.sign(x(4, 3))
LOSSES = {
    "L2Loss": ({}, x(4, 3), x(3, 4).T.copy()),
    "L1Loss": ({"weight": 0.5}, x(4, 3), x(3, 4).T.copy()),
    "SigmoidBinaryCrossEntropyLoss": ({}, x(4, 3), (x(4, 3) > 0).astype("float32")),
    "SoftmaxCrossEntropyLoss": ({}, x(4, 3), np.array([0, 2, 1, 1], "float32")),
    "KLDivLoss": ({"from_logits": False}, x(4, 3), np.abs(x(4, 3)) + 0.1),
    "CTCLoss": ({}, x(2, 6, 5), np.array([[1, 2], [3, -1]], "float32")),
    "HuberLoss": ({"rho": 0.2}, x(4, 3), x(3, 4).T.copy()),
    "HingeLoss": ({}, x(4, 3), SIGNS),
    "SquaredHingeLoss": ({}, x(4, 3), SIGNS),
    "LogisticLoss": ({}, x(4, 3), SIGNS),
    "TripletLoss": ({}, x(4, 3), x(4, 3) + 0.1, x(4, 3) * 2),
    "PoissonNLLLoss": ({}, x(4, 3), np.abs(x(4, 3))),
    "CosineEmbeddingLoss": ({}, x(4, 3), x(3, 4).T.copy(), SIGNS[:, 0].copy()),
    "SDMLLoss": ({}, x(4, 3), x(4, 3) + 0.1),
}


def test_every_loss_is_here():
    known = set(losses.__all__) - {"Loss", "SigmoidBCELoss", "SoftmaxCELoss"}
    assert set(LOSSES) == known


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_the_same_hybridized(name):
    options, *inputs = LOSSES[name]
    check(lambda: getattr(losses, name)(**options), *inputs, rtol=5e-5)


def test_a_loss_with_and_without_its_sample_weight():
    weight = np.abs(x(4, 1))
    check(lambda: losses.L2Loss(), x(4, 3), x(4, 3) * 2, weight)
    check(
        lambda: losses.SoftmaxCrossEntropyLoss(sparse_label=False),
        x(4, 3),
        np.abs(x(4, 3)),
        weight,
    )


ZOO = {
    "alexnet": (vision.alexnet, 64),
    "densenet121": (vision.densenet121, 224),
    "inception_v3": (vision.inception_v3, 299),
    "mobilenet0_25": (vision.mobilenet0_25, 32),
    "mobilenet_v2_0_25": (vision.mobilenet_v2_0_25, 32),
    "resnet18_v1": (vision.resnet18_v1, 32),
    "resnet18_v2": (vision.resnet18_v2, 32),
    "squeezenet1_1": (vision.squeezenet1_1, 224),
    "vgg11_bn": (vision.vgg11_bn, 32),
}


@pytest.mark.parametrize("name", ZOO)
def test_a_network_predicts_the_same_hybridized(name):
    make, size = ZOO[name]
    image = mx.nd.array(x(1, 3, size, size))
    net = make(classes=4)
    net.initialize(mx.init.Xavier())
    plain = net(image).asnumpy()
    net.hybridize(static_alloc=True, static_shape=True)
    for _ in range(2):
        np.testing.assert_allclose(net(image).asnumpy(), plain, rtol=1e-3, atol=1e-5)


def test_a_small_network_trains_the_same_hybridized():
    check(
        lambda: vision.resnet18_v1(classes=3, thumbnail=True),
        x(2, 3, 32, 32),
        rtol=5e-2,
        as_vectors=True,
    )


class Power(gluon.HybridBlock):
    """Takes a number beside an array, as blocks inside larger ones may."""

    def hybrid_forward(self, F, x, exponent, scale=None):
        y = x**exponent
        return y if scale is None else y * scale


class Powers(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        self.power, self.dense = Power(), nn.Dense(3)

    def hybrid_forward(self, F, x):
        return self.power(self.dense(x), 2) + self.power(self.dense(x), 3, 0.5)


def test_blocks_inside_take_numbers():
    net = Powers()
    net.initialize()
    data = nd.array(np.random.RandomState(0).uniform(-1, 1, (4, 5)))
    wanted = net(data).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(data).asnumpy(), wanted, rtol=2e-5)
    names = net(mx.sym.var("data")).list_arguments()
    assert [n.rsplit("_", 1)[-1] for n in names[:3]] == ["data", "weight", "bias"]
    with pytest.raises(ValueError, match="got 2 of type <class 'int'>"):
        net.power(data, 2)


class Pick(gluon.HybridBlock):
    """A forward() of its own that takes dicts, as losses of many outputs do."""

    def forward(self, outputs, labels):
        return ((outputs["y"] - labels["y"]) ** 2).mean()


def test_a_forward_of_its_own_takes_what_it_likes():
    loss = Pick()
    loss.hybridize()
    found = loss({"y": nd.ones((2, 3))}, {"y": nd.zeros((2, 3)), "n": 4})
    assert found.asscalar() == 1
