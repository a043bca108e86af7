"""Inception v3."""

from ... import nn
from ...contrib.nn import HybridConcurrent
from .common import FeaturesAndOutput, add_all, with_weights

__all__ = ["Inception3", "inception_v3"]

# A convolution is (channels, kernel[, strides[, padding]]); a branch is a list of them,
# and may begin with the name of a pooling. Kernels that are 7 or 3 long in one
# direction keep the size by padding in that direction.
_1X7, _7X1 = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
_1X3, _3X1 = ((1, 3), 1, (0, 1)), ((3, 1), 1, (1, 0))


def _conv(channels, kernel_size, strides=1, padding=0):
    return add_all(
        nn.HybridSequential(prefix=""),
        [
            nn.Conv2D(channels, kernel_size, strides, padding, use_bias=False),
            nn.BatchNorm(epsilon=0.001),
            nn.Activation("relu"),
        ],
    )


def _branch(*parts):
    out = nn.HybridSequential(prefix="")
    for part in parts:
        if part == "avg":
            out.add(nn.AvgPool2D(3, strides=1, padding=1))
        elif part == "max":
            out.add(nn.MaxPool2D(3, strides=2))
        else:
            out.add(_conv(*part))
    return out


def _module(prefix, *branches):
    out = HybridConcurrent(axis=1, prefix=prefix)
    with out.name_scope():
        for branch in branches:
            out.add(_branch(*branch))
    return out


def _a(pool, prefix):
    return _module(
        prefix,
        [(64, 1)],
        [(48, 1), (64, 5, 1, 2)],
        [(64, 1), (96, 3, 1, 1), (96, 3, 1, 1)],
        ["avg", (pool, 1)],
    )


def _b(prefix):
    return _module(prefix, [(384, 3, 2)], [(64, 1), (96, 3, 1, 1), (96, 3, 2)], ["max"])


def _c(c, prefix):
    return _module(
        prefix,
        [(192, 1)],
        [(c, 1), (c, *_1X7), (192, *_7X1)],
        [(c, 1), (c, *_7X1), (c, *_1X7), (c, *_7X1), (192, *_1X7)],
        ["avg", (192, 1)],
    )


def _d(prefix):
    return _module(
        prefix,
        [(192, 1), (320, 3, 2)],
        [(192, 1), (192, *_1X7), (192, *_7X1), (192, 3, 2)],
        ["max"],
    )


def _split(out, *first):
    """A branch that ends in two convolutions side by side; `out` gets it before its
    layers.
    """
    branch = nn.HybridSequential(prefix="")
    out.add(branch)
    branch.add(_branch(*first))
    both = HybridConcurrent(axis=1, prefix="")
    both.add(_branch((384, *_1X3)))
    both.add(_branch((384, *_3X1)))
    branch.add(both)


def _e(prefix):
    out = HybridConcurrent(axis=1, prefix=prefix)
    with out.name_scope():
        out.add(_branch((320, 1)))
        _split(out, (384, 1))
        _split(out, (448, 1), (384, 3, 1, 1))
        out.add(_branch("avg", (192, 1)))
    return out


class Inception3(FeaturesAndOutput):
    """The network of "Rethinking the Inception Architecture for Computer Vision"."""

    def __init__(self, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = add_all(nn.HybridSequential(prefix=""), self._layers())
            self.output = nn.Dense(classes)

    @staticmethod
    def _layers():
        yield _conv(32, 3, 2)
        yield _conv(32, 3)
        yield _conv(64, 3, 1, 1)
        yield nn.MaxPool2D(3, strides=2)
        yield _conv(80, 1)
        yield _conv(192, 3)
        yield nn.MaxPool2D(3, strides=2)
        for i, pool in enumerate((32, 64, 64)):
            yield _a(pool, "A%d_" % (i + 1))
        yield _b("B_")
        for i, channels in enumerate((128, 160, 160, 192)):
            yield _c(channels, "C%d_" % (i + 1))
        yield _d("D_")
        yield _e("E1_")
        yield _e("E2_")
        yield nn.AvgPool2D(8)
        yield nn.Dropout(0.5)


def inception_v3(pretrained=False, ctx=None, root=None, **kwargs):
    """Inception v3, for images of 299x299."""
    return with_weights(Inception3(**kwargs), "inceptionv3", pretrained, ctx, root)
