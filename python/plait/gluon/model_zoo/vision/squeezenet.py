"""SqueezeNet 1.0 and 1.1."""

from ... import nn
from ...contrib.nn import HybridConcurrent
from .common import FeaturesAndOutput, add_all, with_weights

__all__ = ["SqueezeNet", "squeezenet1_0", "squeezenet1_1"]

# Channels of fire modules (squeeze; each expand path), with 'pool' between them.
_SPECS = {
    "1.0": (
        (96, 7),
        [
            "pool",
            (16, 64),
            (16, 64),
            (32, 128),
            "pool",
            (32, 128),
            (48, 192),
            (48, 192),
            (64, 256),
            "pool",
            (64, 256),
        ],
    ),
    "1.1": (
        (64, 3),
        [
            "pool",
            (16, 64),
            (16, 64),
            "pool",
            (32, 128),
            (32, 128),
            "pool",
            (48, 192),
            (48, 192),
            (64, 256),
            (64, 256),
        ],
    ),
}


def _conv(channels, kernel_size, padding=0):
    return add_all(
        nn.HybridSequential(prefix=""),
        [nn.Conv2D(channels, kernel_size, padding=padding), nn.Activation("relu")],
    )


def _fire(squeeze, expand):
    out = nn.HybridSequential(prefix="")
    out.add(_conv(squeeze, 1))
    paths = HybridConcurrent(axis=1, prefix="")
    paths.add(_conv(expand, 1))
    paths.add(_conv(expand, 3, 1))
    out.add(paths)
    return out


class SqueezeNet(FeaturesAndOutput):
    """AlexNet's accuracy with 50 times fewer parameters."""

    def __init__(self, version, classes=1000, **kwargs):
        super().__init__(**kwargs)
        assert version in _SPECS, (
            "Unsupported SqueezeNet version %s: 1.0 or 1.1 expected" % version
        )
        (channels, kernel), modules = _SPECS[version]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(channels, kernel, strides=2))
            self.features.add(nn.Activation("relu"))
            for module in modules:
                self.features.add(
                    nn.MaxPool2D(3, strides=2, ceil_mode=True)
                    if module == "pool"
                    else _fire(*module)
                )
            self.features.add(nn.Dropout(0.5))
            self.output = add_all(
                nn.HybridSequential(prefix=""),
                [
                    nn.Conv2D(classes, 1),
                    nn.Activation("relu"),
                    nn.AvgPool2D(13),
                    nn.Flatten(),
                ],
            )


def get_squeezenet(version, pretrained=False, ctx=None, root=None, **kwargs):
    """SqueezeNet of version '1.0' or '1.1'."""
    return with_weights(
        SqueezeNet(version, **kwargs), "squeezenet" + version, pretrained, ctx, root
    )


def squeezenet1_0(**kwargs):
    """SqueezeNet 1.0."""
    return get_squeezenet("1.0", **kwargs)


def squeezenet1_1(**kwargs):
    """SqueezeNet 1.1: the same accuracy with fewer operations."""
    return get_squeezenet("1.1", **kwargs)
