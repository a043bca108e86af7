"""ResNet v1 (normalisation after the convolution) and v2 (before it)."""

from ... import nn
from ...block import HybridBlock
from .common import FeaturesAndOutput, add_all, with_weights

__all__ = [
    "ResNetV1",
    "ResNetV2",
    "BasicBlockV1",
    "BasicBlockV2",
    "BottleneckV1",
    "BottleneckV2",
    "resnet18_v1",
    "resnet34_v1",
    "resnet50_v1",
    "resnet101_v1",
    "resnet152_v1",
    "resnet18_v2",
    "resnet34_v2",
    "resnet50_v2",
    "resnet101_v2",
    "resnet152_v2",
    "get_resnet",
]


def _conv3x3(channels, stride, in_channels):
    return nn.Conv2D(channels, 3, stride, 1, use_bias=False, in_channels=in_channels)


class _BlockV1(HybridBlock):
    """relu(body(x) + x), x through a 1x1 convolution where shapes differ."""

    def __init__(self, channels, stride, downsample=False, in_channels=0, **kwargs):
        super().__init__(**kwargs)
        self.body = add_all(
            nn.HybridSequential(prefix=""), self._body(channels, stride, in_channels)
        )
        self.downsample = None
        if downsample:
            self.downsample = add_all(
                nn.HybridSequential(prefix=""),
                [
                    nn.Conv2D(
                        channels, 1, stride, use_bias=False, in_channels=in_channels
                    ),
                    nn.BatchNorm(),
                ],
            )

    def hybrid_forward(self, F, x):
        y = self.body(x)
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.Activation(shortcut + y, act_type="relu")


class BasicBlockV1(_BlockV1):
    """Two 3x3 convolutions."""

    @staticmethod
    def _body(channels, stride, in_channels):
        yield _conv3x3(channels, stride, in_channels)
        yield nn.BatchNorm()
        yield nn.Activation("relu")
        yield _conv3x3(channels, 1, channels)
        yield nn.BatchNorm()


class BottleneckV1(_BlockV1):
    """1x1, 3x3 and 1x1 convolutions, the inner ones with a quarter of the channels."""

    @staticmethod
    def _body(channels, stride, in_channels):
        yield nn.Conv2D(channels // 4, 1, stride)
        yield nn.BatchNorm()
        yield nn.Activation("relu")
        yield _conv3x3(channels // 4, 1, channels // 4)
        yield nn.BatchNorm()
        yield nn.Activation("relu")
        yield nn.Conv2D(channels, 1, 1)
        yield nn.BatchNorm()


class _BlockV2(HybridBlock):
    """Steps of normalisation, ReLU and convolution, added to the input."""

    def _add_downsample(self, channels, stride, downsample, in_channels):
        self.downsample = None
        if downsample:
            self.downsample = nn.Conv2D(
                channels, 1, stride, use_bias=False, in_channels=in_channels
            )

    def hybrid_forward(self, F, x):
        y = F.Activation(self.bn1(x), act_type="relu")
        shortcut = x if self.downsample is None else self.downsample(y)
        y = self.conv1(y)
        y = self.conv2(F.Activation(self.bn2(y), act_type="relu"))
        if self._steps == 3:
            y = self.conv3(F.Activation(self.bn3(y), act_type="relu"))
        return y + shortcut


class BasicBlockV2(_BlockV2):
    """Two 3x3 convolutions."""

    _steps = 2

    def __init__(self, channels, stride, downsample=False, in_channels=0, **kwargs):
        super().__init__(**kwargs)
        self.bn1 = nn.BatchNorm()
        self.conv1 = _conv3x3(channels, stride, in_channels)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(channels, 1, channels)
        self._add_downsample(channels, stride, downsample, in_channels)


class BottleneckV2(_BlockV2):
    """1x1, 3x3 and 1x1 convolutions, the inner ones with a quarter of the channels."""

    _steps = 3

    def __init__(self, channels, stride, downsample=False, in_channels=0, **kwargs):
        super().__init__(**kwargs)
        self.bn1 = nn.BatchNorm()
        self.conv1 = nn.Conv2D(channels // 4, 1, 1, use_bias=False)
        self.bn2 = nn.BatchNorm()
        self.conv2 = _conv3x3(channels // 4, stride, channels // 4)
        self.bn3 = nn.BatchNorm()
        self.conv3 = nn.Conv2D(channels, 1, 1, use_bias=False)
        self._add_downsample(channels, stride, downsample, in_channels)


def _stage(block, layers, channels, stride, index, in_channels):
    """`layers` blocks; the first one changes the size."""
    stage = nn.HybridSequential(prefix="stage%d_" % index)
    with stage.name_scope():
        stage.add(
            block(
                channels,
                stride,
                channels != in_channels,
                in_channels=in_channels,
                prefix="",
            )
        )
        for _ in range(layers - 1):
            stage.add(block(channels, 1, False, in_channels=channels, prefix=""))
    return stage


def _head(channels, thumbnail):
    """The first layers; thumbnail is for small images."""
    if thumbnail:
        yield _conv3x3(channels, 1, 0)
        return
    yield nn.Conv2D(channels, 7, 2, 3, use_bias=False)
    yield nn.BatchNorm()
    yield nn.Activation("relu")
    yield nn.MaxPool2D(3, 2, 1)


def _stages(block, layers, channels):
    for i, count in enumerate(layers):
        yield _stage(
            block, count, channels[i + 1], 1 if i == 0 else 2, i + 1, channels[i]
        )


class ResNetV1(FeaturesAndOutput):
    """The network of "Deep Residual Learning for Image Recognition"."""

    def __init__(
        self, block, layers, channels, classes=1000, thumbnail=False, **kwargs
    ):
        super().__init__(**kwargs)
        assert len(layers) == len(channels) - 1
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            add_all(self.features, _head(channels[0], thumbnail))
            add_all(self.features, _stages(block, layers, channels))
            self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.Dense(classes, in_units=channels[-1])


class ResNetV2(FeaturesAndOutput):
    """The network of "Identity Mappings in Deep Residual Networks"."""

    def __init__(
        self, block, layers, channels, classes=1000, thumbnail=False, **kwargs
    ):
        super().__init__(**kwargs)
        assert len(layers) == len(channels) - 1
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.BatchNorm(scale=False, center=False))
            add_all(self.features, _head(channels[0], thumbnail))
            add_all(self.features, _stages(block, layers, channels))
            self.features.add(nn.BatchNorm())
            self.features.add(nn.Activation("relu"))
            self.features.add(nn.GlobalAvgPool2D())
            self.features.add(nn.Flatten())
            self.output = nn.Dense(classes, in_units=channels[-1])


_BASIC, _BOTTLENECK = [64, 64, 128, 256, 512], [64, 256, 512, 1024, 2048]
resnet_spec = {
    18: ("basic_block", [2, 2, 2, 2], _BASIC),
    34: ("basic_block", [3, 4, 6, 3], _BASIC),
    50: ("bottle_neck", [3, 4, 6, 3], _BOTTLENECK),
    101: ("bottle_neck", [3, 4, 23, 3], _BOTTLENECK),
    152: ("bottle_neck", [3, 8, 36, 3], _BOTTLENECK),
}
resnet_net_versions = [ResNetV1, ResNetV2]
resnet_block_versions = [
    {"basic_block": BasicBlockV1, "bottle_neck": BottleneckV1},
    {"basic_block": BasicBlockV2, "bottle_neck": BottleneckV2},
]


def get_resnet(version, num_layers, pretrained=False, ctx=None, root=None, **kwargs):
    """ResNet v1 or v2 of 18, 34, 50, 101 or 152 layers."""
    assert num_layers in resnet_spec, "Invalid number of layers: %d. Options are %s" % (
        num_layers,
        list(resnet_spec),
    )
    assert version in (1, 2), (
        "Invalid resnet version: %d. Options are 1 and 2." % version
    )
    kind, layers, channels = resnet_spec[num_layers]
    block = resnet_block_versions[version - 1][kind]
    net = resnet_net_versions[version - 1](block, layers, channels, **kwargs)
    return with_weights(
        net, "resnet%d_v%d" % (num_layers, version), pretrained, ctx, root
    )


def resnet18_v1(**kwargs):
    """ResNet-18 v1."""
    return get_resnet(1, 18, **kwargs)


def resnet34_v1(**kwargs):
    """ResNet-34 v1."""
    return get_resnet(1, 34, **kwargs)


def resnet50_v1(**kwargs):
    """ResNet-50 v1."""
    return get_resnet(1, 50, **kwargs)


def resnet101_v1(**kwargs):
    """ResNet-101 v1."""
    return get_resnet(1, 101, **kwargs)


def resnet152_v1(**kwargs):
    """ResNet-152 v1."""
    return get_resnet(1, 152, **kwargs)


def resnet18_v2(**kwargs):
    """ResNet-18 v2."""
    return get_resnet(2, 18, **kwargs)


def resnet34_v2(**kwargs):
    """ResNet-34 v2."""
    return get_resnet(2, 34, **kwargs)


def resnet50_v2(**kwargs):
    """ResNet-50 v2."""
    return get_resnet(2, 50, **kwargs)


def resnet101_v2(**kwargs):
    """ResNet-101 v2."""
    return get_resnet(2, 101, **kwargs)


def resnet152_v2(**kwargs):
    """ResNet-152 v2."""
    return get_resnet(2, 152, **kwargs)
