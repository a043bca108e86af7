"""VGG networks of 11 to 19 layers, with and without batch normalisation."""

from ....initializer import Xavier
from ... import nn
from .common import FeaturesAndOutput, add_all, with_weights

__all__ = [
    "VGG",
    "vgg11",
    "vgg13",
    "vgg16",
    "vgg19",
    "vgg11_bn",
    "vgg13_bn",
    "vgg16_bn",
    "vgg19_bn",
    "get_vgg",
]

_FILTERS = [64, 128, 256, 512, 512]
vgg_spec = {
    11: ([1, 1, 2, 2, 2], _FILTERS),
    13: ([2, 2, 2, 2, 2], _FILTERS),
    16: ([2, 2, 3, 3, 3], _FILTERS),
    19: ([2, 2, 4, 4, 4], _FILTERS),
}


class VGG(FeaturesAndOutput):
    """layers[i] convolutions of filters[i] channels, then pooling; three
    dense layers.
    """

    def __init__(self, layers, filters, classes=1000, batch_norm=False, **kwargs):
        super().__init__(**kwargs)
        assert len(layers) == len(filters)
        with self.name_scope():
            self.features = add_all(
                nn.HybridSequential(prefix=""),
                self._layers(layers, filters, batch_norm),
            )
            self.output = nn.Dense(classes, weight_initializer="normal")

    @staticmethod
    def _layers(layers, filters, batch_norm):
        for count, channels in zip(layers, filters):
            for _ in range(count):
                yield nn.Conv2D(
                    channels,
                    3,
                    padding=1,
                    weight_initializer=Xavier("gaussian", "out", 2),
                )
                if batch_norm:
                    yield nn.BatchNorm()
                yield nn.Activation("relu")
            yield nn.MaxPool2D(strides=2)
        for _ in range(2):
            yield nn.Dense(4096, activation="relu", weight_initializer="normal")
            yield nn.Dropout(0.5)


def get_vgg(num_layers, pretrained=False, ctx=None, root=None, **kwargs):
    """VGG of 11, 13, 16 or 19 layers; batch_norm=True normalises."""
    net = VGG(*vgg_spec[num_layers], **kwargs)
    name = "vgg%d%s" % (num_layers, "_bn" if kwargs.get("batch_norm") else "")
    return with_weights(net, name, pretrained, ctx, root)


def vgg11(**kwargs):
    """VGG-11."""
    return get_vgg(11, **kwargs)


def vgg13(**kwargs):
    """VGG-13."""
    return get_vgg(13, **kwargs)


def vgg16(**kwargs):
    """VGG-16."""
    return get_vgg(16, **kwargs)


def vgg19(**kwargs):
    """VGG-19."""
    return get_vgg(19, **kwargs)


def vgg11_bn(**kwargs):
    """VGG-11 with batch normalisation."""
    return get_vgg(11, **dict(kwargs, batch_norm=True))


def vgg13_bn(**kwargs):
    """VGG-13 with batch normalisation."""
    return get_vgg(13, **dict(kwargs, batch_norm=True))


def vgg16_bn(**kwargs):
    """VGG-16 with batch normalisation."""
    return get_vgg(16, **dict(kwargs, batch_norm=True))


def vgg19_bn(**kwargs):
    """VGG-19 with batch normalisation."""
    return get_vgg(19, **dict(kwargs, batch_norm=True))
