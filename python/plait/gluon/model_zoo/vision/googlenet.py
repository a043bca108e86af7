"""GoogLeNet and its successor with batch normalization."""

from ... import nn
from ...contrib.nn import HybridConcurrent
from .common import FeaturesAndOutput, add_all, with_weights

__all__ = ["GoogLeNet", "InceptionBN", "googlenet", "inception_bn"]


def _conv(norm, channels, kernel, stride=1, pad=0):
    """The layers of a convolution, normalised or with a bias, and relu."""
    yield nn.Conv2D(channels, kernel, stride, pad, use_bias=not norm)
    if norm:
        yield nn.BatchNorm(epsilon=1e-5)
    yield nn.Activation("relu")


def _branch(norm, *parts):
    """Convolutions (channels, kernel[, stride[, pad]]) and layers, one after the
    other."""
    out = nn.HybridSequential(prefix="")
    for part in parts:
        add_all(out, _conv(norm, *part) if isinstance(part, tuple) else [part])
    return out


def _module(prefix, norm, *branches):
    """Branches side by side, their channels joined."""
    out = HybridConcurrent(axis=1, prefix=prefix)
    with out.name_scope():
        for branch in branches:
            out.add(_branch(norm, *branch))
    return out


class _Inception(FeaturesAndOutput):
    """Features, the mean over the image, and a classifier."""

    def __init__(self, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = add_all(nn.HybridSequential(prefix=""), self._layers())
            self.output = nn.Dense(classes)


class GoogLeNet(_Inception):
    """The network of "Going Deeper with Convolutions", table 1, without response
    normalisation and the two classifiers on the way."""

    # Channels of 1x1, 3x3 behind its 1x1, 5x5 behind its 1x1, and behind the pooling.
    _MODULES = {
        "3a": (64, 96, 128, 16, 32, 32),
        "3b": (128, 128, 192, 32, 96, 64),
        "4a": (192, 96, 208, 16, 48, 64),
        "4b": (160, 112, 224, 24, 64, 64),
        "4c": (128, 128, 256, 24, 64, 64),
        "4d": (112, 144, 288, 32, 64, 64),
        "4e": (256, 160, 320, 32, 128, 128),
        "5a": (256, 160, 320, 32, 128, 128),
        "5b": (384, 192, 384, 48, 128, 128),
    }

    @staticmethod
    def _inception(name, one, before_3, three, before_5, five, project):
        return _module(
            "%s_" % name,
            False,
            [(one, 1)],
            [(before_3, 1), (three, 3, 1, 1)],
            [(before_5, 1), (five, 5, 1, 2)],
            [nn.MaxPool2D(3, 1, 1), (project, 1)],
        )

    def _layers(self):
        yield from _conv(False, 64, 7, 2, 3)
        yield nn.MaxPool2D(3, 2, ceil_mode=True)
        yield from _conv(False, 64, 1)
        yield from _conv(False, 192, 3, 1, 1)
        yield nn.MaxPool2D(3, 2, ceil_mode=True)
        for name, channels in self._MODULES.items():
            yield self._inception(name, *channels)
            if name in ("3b", "4e"):
                yield nn.MaxPool2D(3, 2, ceil_mode=True)
        yield nn.GlobalAvgPool2D()
        yield nn.Dropout(0.4)
        yield nn.Flatten()


class InceptionBN(_Inception):
    """The network of "Batch Normalization: Accelerating Deep Network Training by
    Reducing Internal Covariate Shift", figure 5."""

    # Channels of 1x1, 3x3 behind its 1x1, two 3x3 behind theirs, and the pooling and
    # the channels behind it.
    _MODULES = {
        "3a": (64, 64, 64, 64, 96, "avg", 32),
        "3b": (64, 64, 96, 64, 96, "avg", 64),
        "3c": (0, 128, 160, 64, 96, "max", 0),
        "4a": (224, 64, 96, 96, 128, "avg", 128),
        "4b": (192, 96, 128, 96, 128, "avg", 128),
        "4c": (160, 128, 160, 128, 160, "avg", 128),
        "4d": (96, 128, 192, 160, 192, "avg", 128),
        "4e": (0, 128, 192, 192, 256, "max", 0),
        "5a": (352, 192, 320, 160, 224, "avg", 128),
        "5b": (352, 192, 320, 192, 224, "max", 128),
    }

    @staticmethod
    def _inception(name, one, before_3, three, before_33, double, kind, project):
        step = 1 if one else 2  # without 1x1, the image is halved
        pool = {"avg": nn.AvgPool2D, "max": nn.MaxPool2D}[kind](3, step, 1)
        return _module(
            "%s_" % name,
            True,
            *([[(one, 1)]] if one else []),
            [(before_3, 1), (three, 3, step, 1)],
            [(before_33, 1), (double, 3, 1, 1), (double, 3, step, 1)],
            [pool, (project, 1)] if project else [pool],
        )

    def _layers(self):
        yield from _conv(True, 64, 7, 2, 3)
        yield nn.MaxPool2D(3, 2, ceil_mode=True)
        yield from _conv(True, 64, 1)
        yield from _conv(True, 192, 3, 1, 1)
        yield nn.MaxPool2D(3, 2, ceil_mode=True)
        for name, channels in self._MODULES.items():
            yield self._inception(name, *channels)
        yield nn.GlobalAvgPool2D()
        yield nn.Flatten()


def googlenet(pretrained=False, ctx=None, root=None, **kwargs):
    """GoogLeNet, for images of 224x224."""
    return with_weights(GoogLeNet(**kwargs), "googlenet", pretrained, ctx, root)


def inception_bn(pretrained=False, ctx=None, root=None, **kwargs):
    """Inception with batch normalization, for images of 224x224."""
    return with_weights(InceptionBN(**kwargs), "inception_bn", pretrained, ctx, root)
