"""The rows of whole networks in Gluon. They also run on MXNet 1.9.1: MODULE=mxnet."""

import importlib
import os

import net_rows
from net_rows import CLASSES, HIDDEN, VOCABULARY, WIDTH

mx = importlib.import_module(os.environ.get("MODULE", "plait"))
nd, gluon = mx.nd, mx.gluon
nn = gluon.nn
HEADS = 12


def chain(*layers):
    out = nn.HybridSequential()
    out.add(*layers)
    return out


def convolution(channels, kernel, stride=1, pad=0):
    return chain(
        nn.Conv2D(channels, kernel, stride, pad, use_bias=False),
        nn.BatchNorm(epsilon=1e-3),
        nn.Activation("relu"),
    )


def inception(one, before, three, before_last, last, project):
    out = gluon.contrib.nn.HybridConcurrent(axis=1)
    out.add(
        convolution(one, 1),
        chain(convolution(before, 1), convolution(three, 3, 1, 1)),
        chain(convolution(before_last, 1), convolution(last, 3, 1, 1)),
        chain(nn.MaxPool2D(3, 1, 1), convolution(project, 1)),
    )
    return out


def googlenet():
    """GoogLeNet as torchvision has it: normalised, and 3x3 in the place of 5x5."""
    return chain(
        convolution(64, 7, 2, 3),
        nn.MaxPool2D(3, 2, ceil_mode=True),
        convolution(64, 1),
        convolution(192, 3, 1, 1),
        nn.MaxPool2D(3, 2, ceil_mode=True),
        inception(64, 96, 128, 16, 32, 32),
        inception(128, 128, 192, 32, 96, 64),
        nn.MaxPool2D(3, 2, ceil_mode=True),
        inception(192, 96, 208, 16, 48, 64),
        inception(160, 112, 224, 24, 64, 64),
        inception(128, 128, 256, 24, 64, 64),
        inception(112, 144, 288, 32, 64, 64),
        inception(256, 160, 320, 32, 128, 128),
        nn.MaxPool2D(2, 2, ceil_mode=True),
        inception(256, 160, 320, 32, 128, 128),
        inception(384, 192, 384, 48, 128, 128),
        nn.GlobalAvgPool2D(),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Dense(CLASSES),
    )


class Encoder(gluon.HybridBlock):
    """A layer of a transformer: attention, then two dense layers, each normalised
    after it was added to its input.
    """

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.inputs = nn.Dense(3 * WIDTH, flatten=False, in_units=WIDTH)
            self.outputs = nn.Dense(WIDTH, flatten=False, in_units=WIDTH)
            self.wide = nn.Dense(4 * WIDTH, flatten=False, in_units=WIDTH)
            self.narrow = nn.Dense(WIDTH, flatten=False, in_units=4 * WIDTH)
            self.norm1 = nn.LayerNorm(in_channels=WIDTH)
            self.norm2 = nn.LayerNorm(in_channels=WIDTH)
            self.gelu = nn.GELU()
            self.dropout = nn.Dropout(0.1)

    def heads(self, F, x):
        x = F.reshape(x, (0, 0, HEADS, WIDTH // HEADS))
        return F.reshape(F.transpose(x, (0, 2, 1, 3)), (-3, 0, 0))

    def hybrid_forward(self, F, x):
        q, k, v = (self.heads(F, y) for y in F.split(self.inputs(x), 3, axis=2))
        scores = F.batch_dot(q, k, transpose_b=True) / (WIDTH / HEADS) ** 0.5
        y = F.batch_dot(self.dropout(F.softmax(scores)), v)
        y = F.transpose(F.reshape(y, (-4, -1, HEADS, 0, 0)), (0, 2, 1, 3))
        x = self.norm1(x + self.dropout(self.outputs(F.reshape(y, (0, 0, -3)))))
        y = self.narrow(self.dropout(self.gelu(self.wide(x))))
        return self.norm2(x + self.dropout(y))


class Words(gluon.HybridBlock):
    """A language model of words: two layers of LSTM."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.embed = nn.Embedding(VOCABULARY, HIDDEN)
            self.lstm = gluon.rnn.LSTM(HIDDEN, 2, input_size=HIDDEN)
            self.classify = nn.Dense(VOCABULARY, flatten=False, in_units=HIDDEN)

    def hybrid_forward(self, F, x):
        return self.classify(self.lstm(self.embed(x)))


def build(network):
    zoo = gluon.model_zoo.vision
    make = {
        "googlenet": googlenet,
        "lstm": Words,
        "transformer": lambda: chain(*(Encoder() for _ in range(4))),
        "resnet50": zoo.resnet50_v1,
        "mobilenet_v2": zoo.mobilenet_v2_1_0,
    }
    return make.get(network, getattr(zoo, network, None))()


def fill(net, network):
    """Sets the parameters by position. The biases that Gluon's ResNet gives some of
    its convolutions, and nobody else does, are zero.
    """
    position = 0
    for name, p in net.collect_params().items():
        if "running" in name:
            continue
        if network == "resnet50" and "conv" in name and name.endswith("bias"):
            p.set_data(nd.zeros(p.shape))
            continue
        is_bias = name.endswith(("bias", "beta"))
        p.set_data(nd.array(net_rows.parameter(position, p.shape, is_bias)))
        position += 1


def load(network, batch):
    """The network, hybridized, with its values, and a batch (x, labels)."""
    x, labels = (nd.array(a) for a in net_rows.batch_of(network, batch))
    net = build(network)
    net.initialize()
    net.hybridize(static_alloc=True, static_shape=True)
    net(x[:1] if network != "lstm" else x).wait_to_read()
    fill(net, network)
    return net, x, labels


def trainer_step(net, network, x, labels):
    """A step of training on one batch. The rates are too small to change much: after
    any number of steps the numbers are ordinary ones.
    """
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    loss_of.hybridize()
    options = {"learning_rate": 1e-5}
    if network not in ("lstm", "transformer"):
        options["momentum"] = 0.9
    trainer = gluon.Trainer(net.collect_params(), "sgd", options)
    count = 1 if network == "transformer" else labels.size

    def step():
        with mx.autograd.record():
            y = net(x)
            loss = y.square().mean() if network == "transformer" else loss_of(y, labels)
        loss.backward()
        trainer.step(count)
        nd.waitall()

    return step


def prepare(row):
    half = row.half and mx.__name__ == "plait"
    if half and row.training:
        mx.contrib.amp.init("bfloat16")  # for the whole process
    net, x, labels = load(row.network, row.batch)
    if half and not row.training:
        net = mx.contrib.amp.convert_hybrid_block(net, target_dtype="bfloat16")
        net.hybridize(static_alloc=True, static_shape=True)
    outputs = net_rows.part(net(x).asnumpy())
    if row.training:
        step = trainer_step(net, row.network, x, labels)
    else:

        def step():
            net(x).wait_to_read()

    return outputs, [("hybridized", step)]


if __name__ == "__main__":
    net_rows.main(prepare)
