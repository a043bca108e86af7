"""ResNeXt: residual networks whose 3x3 convolutions work in groups."""

from ... import nn
from ...block import HybridBlock
from .common import FeaturesAndOutput, add_all, with_weights

__all__ = [
    "ResNeXt",
    "ResNeXtBlock",
    "get_resnext",
    "resnext50_32x4d",
    "resnext101_32x4d",
    "resnext101_64x4d",
]

# Blocks in each of the four stages, by the number of layers.
_STAGES = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


def _conv_norm(channels, kernel, stride=1, groups=1):
    yield nn.Conv2D(
        channels, kernel, stride, kernel // 2, groups=groups, use_bias=False
    )
    yield nn.BatchNorm()


class ResNeXtBlock(HybridBlock):
    """1x1, grouped 3x3 and 1x1 convolutions, and the input added.

    channels: of the output; width: of the 3x3 convolution. downsample: the input goes
    through a 1x1 convolution.
    """

    def __init__(self, channels, width, groups, stride, downsample, **kwargs):
        super().__init__(**kwargs)
        self.body = nn.HybridSequential(prefix="")
        add_all(self.body, _conv_norm(width, 1))
        self.body.add(nn.Activation("relu"))
        add_all(self.body, _conv_norm(width, 3, stride, groups))
        self.body.add(nn.Activation("relu"))
        add_all(self.body, _conv_norm(channels, 1))
        self.downsample = None
        if downsample:
            self.downsample = add_all(
                nn.HybridSequential(prefix=""), _conv_norm(channels, 1, stride)
            )

    def hybrid_forward(self, F, x):
        y = self.body(x)
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.Activation(shortcut + y, act_type="relu")


class ResNeXt(FeaturesAndOutput):
    """The network of "Aggregated Residual Transformations for Deep Neural Networks".

    layers: blocks in each stage. In the first stage, each of `cardinality` groups has
    `bottleneck_width` channels, and twice as many in each later one. thumbnail: a first
    layer for images of 32x32.
    """

    def __init__(
        self,
        layers,
        cardinality,
        bottleneck_width,
        classes=1000,
        thumbnail=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            if thumbnail:
                self.features.add(nn.Conv2D(64, 3, 1, 1, use_bias=False))
            else:
                add_all(self.features, _conv_norm(64, 7, 2))
                self.features.add(nn.Activation("relu"), nn.MaxPool2D(3, 2, 1))
            for i, count in enumerate(layers):
                self.features.add(
                    self._stage(i, count, cardinality, bottleneck_width * 2**i)
                )
            self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.Dense(classes)

    @staticmethod
    def _stage(index, count, groups, group_width):
        channels, width = 256 * 2**index, groups * group_width
        stage = nn.HybridSequential(prefix="stage%d_" % (index + 1))
        with stage.name_scope():
            for i in range(count):
                stride = 2 if i == 0 and index > 0 else 1
                stage.add(
                    ResNeXtBlock(channels, width, groups, stride, i == 0, prefix="")
                )
        return stage


def get_resnext(
    num_layers,
    cardinality=32,
    bottleneck_width=4,
    pretrained=False,
    ctx=None,
    root=None,
    **kwargs,
):
    """A ResNeXt by its number of layers: 50 or 101."""
    if num_layers not in _STAGES:
        raise ValueError(
            "Invalid number of layers: %s. Options are %s"
            % (num_layers, sorted(_STAGES))
        )
    net = ResNeXt(_STAGES[num_layers], cardinality, bottleneck_width, **kwargs)
    name = "resnext%d_%dx%dd" % (num_layers, cardinality, bottleneck_width)
    return with_weights(net, name, pretrained, ctx, root)


def resnext50_32x4d(**kwargs):
    """ResNeXt-50 with 32 groups of 4 channels, for images of 224x224."""
    return get_resnext(50, 32, 4, **kwargs)


def resnext101_32x4d(**kwargs):
    """ResNeXt-101 with 32 groups of 4 channels, for images of 224x224."""
    return get_resnext(101, 32, 4, **kwargs)


def resnext101_64x4d(**kwargs):
    """ResNeXt-101 with 64 groups of 4 channels, for images of 224x224."""
    return get_resnext(101, 64, 4, **kwargs)
