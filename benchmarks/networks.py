"""Symbols of the networks that the benchmarks of memory and graphs are made with.

Each is written from the paper that describes it. A builder returns a symbol with the
arguments `data` and `softmax_label`; SHAPES gives the shape of one example of data.
"""

import importlib
import os

sym = importlib.import_module(os.environ.get("MODULE", "plait")).sym


def conv(x, channels, kernel, stride=1, pad=0, name=None, groups=1):
    """A convolution with a bias and rectified; sizes are ints or (height, width)."""
    x = sym.Convolution(
        x, num_filter=channels, kernel=pair(kernel), stride=pair(stride),
        pad=pair(pad), num_group=groups, name=name,
    )  # fmt: skip
    return sym.Activation(x, act_type="relu", name=name and f"{name}_relu")


def conv_bn(x, channels, kernel, stride=1, pad=0, name=None, relu=True):
    """A convolution and batch normalization, and a rectifier."""
    x = sym.Convolution(
        x, num_filter=channels, kernel=pair(kernel), stride=pair(stride),
        pad=pair(pad), no_bias=True, name=f"{name}_conv",
    )  # fmt: skip
    x = sym.BatchNorm(x, fix_gamma=False, eps=1e-3, name=f"{name}_bn")
    return sym.Activation(x, act_type="relu", name=f"{name}_relu") if relu else x


def pair(size):
    return size if isinstance(size, tuple) else (size, size)


def pool(x, kernel, stride=1, pad=0, kind="max", full=False):
    """full: the output's size is rounded up."""
    return sym.Pooling(
        x, kernel=pair(kernel), stride=pair(stride), pad=pair(pad), pool_type=kind,
        pooling_convention="full" if full else "valid",
    )  # fmt: skip


def head(x, classes):
    """Average over the image, the classifier, its softmax and loss."""
    x = sym.Pooling(x, kernel=(1, 1), global_pool=True, pool_type="avg")
    return classifier(sym.Flatten(x), classes)


def classifier(x, classes):
    x = sym.FullyConnected(x, num_hidden=classes, name="classifier")
    return sym.SoftmaxOutput(x, name="softmax")


def dense_head(x, classes):
    """The two layers of 4096 units of AlexNet and VGG, with dropout."""
    x = sym.Flatten(x)
    for i in (6, 7):
        x = sym.FullyConnected(x, num_hidden=4096, name=f"fc{i}")
        x = sym.Activation(x, act_type="relu", name=f"fc{i}_relu")
        x = sym.Dropout(x, p=0.5, name=f"fc{i}_drop")
    return classifier(x, classes)


def alexnet(classes=1000):
    """Krizhevsky et al. 2012, "ImageNet classification with deep convolutional neural
    networks", both halves in one (groups of 2 where the halves do not meet)."""
    x = sym.var("data")
    x = conv(x, 96, 11, 4, name="conv1")
    x = sym.LRN(x, nsize=5, alpha=1e-4, beta=0.75, knorm=2)
    x = pool(x, 3, 2)
    x = conv(x, 256, 5, pad=2, groups=2, name="conv2")
    x = sym.LRN(x, nsize=5, alpha=1e-4, beta=0.75, knorm=2)
    x = pool(x, 3, 2)
    x = conv(x, 384, 3, pad=1, name="conv3")
    x = conv(x, 384, 3, pad=1, groups=2, name="conv4")
    x = conv(x, 256, 3, pad=1, groups=2, name="conv5")
    return dense_head(pool(x, 3, 2), classes)


def vgg16(classes=1000):
    """Simonyan and Zisserman 2014, "Very deep convolutional networks for large-scale
    image recognition", configuration D."""
    x = sym.var("data")
    stages = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
    for stage, (channels, count) in enumerate(stages, 1):
        for i in range(1, count + 1):
            x = conv(x, channels, 3, pad=1, name=f"conv{stage}_{i}")
        x = pool(x, 2, 2)
    return dense_head(x, classes)


def googlenet(classes=1000):
    """Szegedy et al. 2014, "Going deeper with convolutions", table 1, without the two
    auxiliary classifiers."""

    def inception(x, name, one, reduce3, three, reduce5, five, project):
        a = conv(x, one, 1, name=f"{name}_1x1")
        b = conv(x, reduce3, 1, name=f"{name}_3x3_reduce")
        b = conv(b, three, 3, pad=1, name=f"{name}_3x3")
        c = conv(x, reduce5, 1, name=f"{name}_5x5_reduce")
        c = conv(c, five, 5, pad=2, name=f"{name}_5x5")
        d = conv(pool(x, 3, 1, 1), project, 1, name=f"{name}_project")
        return sym.Concat(a, b, c, d, name=f"{name}_concat")

    x = conv(sym.var("data"), 64, 7, 2, 3, name="conv1")
    x = pool(x, 3, 2, full=True)
    x = sym.LRN(x, nsize=5, alpha=1e-4, beta=0.75, knorm=1)
    x = conv(x, 64, 1, name="conv2_reduce")
    x = conv(x, 192, 3, pad=1, name="conv2")
    x = sym.LRN(x, nsize=5, alpha=1e-4, beta=0.75, knorm=1)
    x = pool(x, 3, 2, full=True)
    x = inception(x, "3a", 64, 96, 128, 16, 32, 32)
    x = inception(x, "3b", 128, 128, 192, 32, 96, 64)
    x = pool(x, 3, 2, full=True)
    x = inception(x, "4a", 192, 96, 208, 16, 48, 64)
    x = inception(x, "4b", 160, 112, 224, 24, 64, 64)
    x = inception(x, "4c", 128, 128, 256, 24, 64, 64)
    x = inception(x, "4d", 112, 144, 288, 32, 64, 64)
    x = inception(x, "4e", 256, 160, 320, 32, 128, 128)
    x = pool(x, 3, 2, full=True)
    x = inception(x, "5a", 256, 160, 320, 32, 128, 128)
    x = inception(x, "5b", 384, 192, 384, 48, 128, 128)
    x = sym.Pooling(x, kernel=(7, 7), pool_type="avg", global_pool=True)
    return classifier(sym.Dropout(sym.Flatten(x), p=0.4), classes)


def chain(x, name, *layers):
    """conv_bn layers in a row, each (channels, kernel, stride, pad)."""
    for i, layer in enumerate(layers):
        x = conv_bn(x, *layer, name=f"{name}_{i}")
    return x


def inception_v3(classes=1000):
    """Szegedy et al. 2015, "Rethinking the Inception architecture for computer vision",
    without the auxiliary classifier; examples are 299 x 299."""
    x = sym.var("data")
    x = chain(x, "stem", (32, 3, 2, 0), (32, 3, 1, 0), (64, 3, 1, 1))
    x = pool(x, 3, 2)
    x = chain(x, "stem2", (80, 1, 1, 0), (192, 3, 1, 0))
    x = pool(x, 3, 2)
    for i, project in enumerate((32, 64, 64)):
        x = inception_a(x, f"a{i}", project)
    x = reduction_a(x, "reduce_a")
    for i, width in enumerate((128, 160, 160, 192)):
        x = inception_b(x, f"b{i}", width)
    x = reduction_b(x, "reduce_b")
    for i in range(2):
        x = inception_c(x, f"c{i}")
    x = sym.Pooling(x, kernel=(8, 8), pool_type="avg", global_pool=True)
    return classifier(sym.Dropout(sym.Flatten(x), p=0.2), classes)


def inception_a(x, name, project):
    """5x5 filters as two of 3x3 (figure 5)."""
    return sym.Concat(
        chain(x, f"{name}_1x1", (64, 1, 1, 0)),
        chain(x, f"{name}_5x5", (48, 1, 1, 0), (64, 5, 1, 2)),
        chain(x, f"{name}_3x3", (64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 1, 1)),
        chain(pool(x, 3, 1, 1, "avg"), f"{name}_project", (project, 1, 1, 0)),
    )


def reduction_a(x, name):
    return sym.Concat(
        chain(x, f"{name}_3x3", (384, 3, 2, 0)),
        chain(x, f"{name}_double", (64, 1, 1, 0), (96, 3, 1, 1), (96, 3, 2, 0)),
        pool(x, 3, 2),
    )


def inception_b(x, name, width):
    """7x7 filters as 1x7 and 7x1 (figure 6)."""
    across, down = (width, (1, 7), 1, (0, 3)), (width, (7, 1), 1, (3, 0))
    last_across, last_down = (192, (1, 7), 1, (0, 3)), (192, (7, 1), 1, (3, 0))
    one = (width, 1, 1, 0)
    return sym.Concat(
        chain(x, f"{name}_1x1", (192, 1, 1, 0)),
        chain(x, f"{name}_7x7", one, across, last_down),
        chain(x, f"{name}_double", one, down, across, down, last_across),
        chain(pool(x, 3, 1, 1, "avg"), f"{name}_project", (192, 1, 1, 0)),
    )


def reduction_b(x, name):
    across, down = (192, (1, 7), 1, (0, 3)), (192, (7, 1), 1, (3, 0))
    return sym.Concat(
        chain(x, f"{name}_3x3", (192, 1, 1, 0), (320, 3, 2, 0)),
        chain(x, f"{name}_7x7", (192, 1, 1, 0), across, down, (192, 3, 2, 0)),
        pool(x, 3, 2),
    )


def inception_c(x, name):
    """Branches that end in 1x3 beside 3x1 (figure 7)."""
    across, down = (384, (1, 3), 1, (0, 1)), (384, (3, 1), 1, (1, 0))
    b = chain(x, f"{name}_3x3", (384, 1, 1, 0))
    c = chain(x, f"{name}_double", (448, 1, 1, 0), (384, 3, 1, 1))
    return sym.Concat(
        chain(x, f"{name}_1x1", (320, 1, 1, 0)),
        chain(b, f"{name}_3x3_across", across),
        chain(b, f"{name}_3x3_down", down),
        chain(c, f"{name}_double_across", across),
        chain(c, f"{name}_double_down", down),
        chain(pool(x, 3, 1, 1, "avg"), f"{name}_project", (192, 1, 1, 0)),
    )


def resnet50(classes=1000):
    """He et al. 2015, "Deep residual learning for image recognition", table 1, with the
    stride in the 3x3 convolution, as implementations have it since."""
    x = conv_bn(sym.var("data"), 64, 7, 2, 3, name="conv1")
    x = pool(x, 3, 2, 1)
    stages = ((64, 3), (128, 4), (256, 6), (512, 3))
    for stage, (width, blocks) in enumerate(stages, 2):
        for block in range(blocks):
            name = f"stage{stage}_{block}"
            stride = 2 if block == 0 and stage > 2 else 1
            y = conv_bn(x, width, 1, name=f"{name}_a")
            y = conv_bn(y, width, 3, stride, 1, name=f"{name}_b")
            y = conv_bn(y, 4 * width, 1, name=f"{name}_c", relu=False)
            if block == 0:
                x = conv_bn(
                    x, 4 * width, 1, stride, name=f"{name}_shortcut", relu=False
                )
            x = sym.Activation(x + y, act_type="relu", name=f"{name}_relu")
    return head(x, classes)


def lstm(steps=35, layers=2, hidden=650, vocabulary=10000):
    """Zaremba et al. 2014, "Recurrent neural network regularization", the medium model
    of words, unrolled: data (batch, steps) of words, the next words as labels."""
    x = sym.Embedding(
        sym.var("data"), input_dim=vocabulary, output_dim=hidden, name="embed"
    )
    words = list(sym.SliceChannel(x, num_outputs=steps, axis=1, squeeze_axis=True))
    for layer in range(layers):
        words = lstm_layer(words, hidden, f"lstm{layer}")
    x = sym.Concat(*[sym.expand_dims(h, axis=1) for h in words], dim=1)
    x = sym.Dropout(sym.Reshape(x, shape=(-1, hidden)), p=0.5)
    x = sym.FullyConnected(x, num_hidden=vocabulary, name="classifier")
    label = sym.Reshape(sym.var("softmax_label"), shape=(-1,))
    return sym.SoftmaxOutput(x, label, name="softmax")


def lstm_layer(inputs, hidden, name):
    """One layer over a list of inputs, from a state of zeros."""
    weights = [sym.var(f"{name}_{part}") for part in ("i2h_weight", "i2h_bias")]
    recurrent = [sym.var(f"{name}_{part}") for part in ("h2h_weight", "h2h_bias")]
    h = c = None
    outputs = []
    for t, x in enumerate(inputs):
        x = sym.Dropout(x, p=0.5)
        gates = sym.FullyConnected(
            x, *weights, num_hidden=4 * hidden, name=f"{name}_t{t}_i2h"
        )
        if h is not None:
            gates = gates + sym.FullyConnected(
                h, *recurrent, num_hidden=4 * hidden, name=f"{name}_t{t}_h2h"
            )
        i, f, g, o = sym.SliceChannel(gates, num_outputs=4, name=f"{name}_t{t}_gates")
        new = sym.sigmoid(i) * sym.tanh(g)
        c = new if c is None else sym.sigmoid(f) * c + new
        h = sym.sigmoid(o) * sym.tanh(c)
        outputs.append(h)
    return outputs


# By name: the builder, the shape of an example, that of its label.
NETWORKS = {
    "AlexNet": (alexnet, (3, 227, 227), ()),
    "GoogLeNet": (googlenet, (3, 224, 224), ()),
    "VGG-16": (vgg16, (3, 224, 224), ()),
    "Inception-v3": (inception_v3, (3, 299, 299), ()),
    "ResNet-50": (resnet50, (3, 224, 224), ()),
    "LSTM, 35 steps": (lstm, (35,), (35,)),
}


def shapes(name, batch):
    """The shapes of data and label of a batch."""
    _, data, label = NETWORKS[name]
    return {"data": (batch, *data), "softmax_label": (batch, *label)}
