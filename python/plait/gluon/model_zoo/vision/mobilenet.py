"""MobileNet and MobileNet v2, of several widths."""

from ... import nn
from ...block import HybridBlock
from .common import FeaturesAndOutput, add_all, with_weights

__all__ = [
    "MobileNet",
    "MobileNetV2",
    "mobilenet1_0",
    "mobilenet_v2_1_0",
    "mobilenet0_75",
    "mobilenet_v2_0_75",
    "mobilenet0_5",
    "mobilenet_v2_0_5",
    "mobilenet0_25",
    "mobilenet_v2_0_25",
    "get_mobilenet",
    "get_mobilenet_v2",
]


class RELU6(HybridBlock):
    """min(max(x, 0), 6)."""

    def hybrid_forward(self, F, x):
        return F.clip(x, 0, 6, name="relu6")


def _conv(channels, kernel=1, stride=1, pad=0, groups=1, act="relu"):
    yield nn.Conv2D(channels, kernel, stride, pad, groups=groups, use_bias=False)
    yield nn.BatchNorm(scale=True)
    if act == "relu6":
        yield RELU6()
    elif act:
        yield nn.Activation(act)


class LinearBottleneck(HybridBlock):
    """Expand by t, filter each channel, project; added to the input where
    shapes agree.
    """

    def __init__(self, in_channels, channels, t, stride, **kwargs):
        super().__init__(**kwargs)
        self.use_shortcut = stride == 1 and in_channels == channels
        wide = in_channels * t
        with self.name_scope():
            self.out = nn.HybridSequential()
            add_all(self.out, _conv(wide, act="relu6"))
            add_all(self.out, _conv(wide, 3, stride, 1, wide, "relu6"))
            add_all(self.out, _conv(channels, act=None))

    def hybrid_forward(self, F, x):
        out = self.out(x)
        return F.elemwise_add(out, x) if self.use_shortcut else out


class MobileNet(FeaturesAndOutput):
    """Convolutions split into one for each channel and one across channels."""

    def __init__(self, multiplier=1.0, classes=1000, **kwargs):
        super().__init__(**kwargs)
        channels = [
            int(c * multiplier)
            for c in [32, 64, 128, 128, 256, 256] + [512] * 6 + [1024] * 2
        ]
        strides = [1, 2] * 3 + [1] * 5 + [2, 1]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                add_all(self.features, _conv(channels[0], 3, 2, 1))
                for narrow, wide, stride in zip(channels, channels[1:], strides):
                    add_all(self.features, _conv(narrow, 3, stride, 1, narrow))
                    add_all(self.features, _conv(wide))
                self.features.add(nn.GlobalAvgPool2D())
                self.features.add(nn.Flatten())
            self.output = nn.Dense(classes)


class MobileNetV2(FeaturesAndOutput):
    """Inverted residuals with linear bottlenecks."""

    def __init__(self, multiplier=1.0, classes=1000, **kwargs):
        super().__init__(**kwargs)
        channels = [
            int(c * multiplier)
            for c in [32, 16, 24, 24]
            + [32] * 3
            + [64] * 4
            + [96] * 3
            + [160] * 3
            + [320]
        ]
        strides = [1, 2, 1, 2, 1, 1, 2] + [1] * 6 + [2, 1, 1, 1]
        expansions = [1] + [6] * 16
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                add_all(self.features, _conv(channels[0], 3, 2, 1, act="relu6"))
                for narrow, wide, t, stride in zip(
                    channels, channels[1:], expansions, strides
                ):
                    self.features.add(LinearBottleneck(narrow, wide, t, stride))
                last = int(1280 * multiplier) if multiplier > 1.0 else 1280
                add_all(self.features, _conv(last, act="relu6"))
                self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(
                    nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten()
                )


def _width(multiplier):
    """1.0, 0.75, 0.5 or 0.25, as file names have it."""
    text = "%.2f" % multiplier
    return text[:-1] if text in ("1.00", "0.50") else text


def get_mobilenet(multiplier, pretrained=False, ctx=None, root=None, **kwargs):
    """MobileNet of a width."""
    return with_weights(
        MobileNet(multiplier, **kwargs),
        "mobilenet" + _width(multiplier),
        pretrained,
        ctx,
        root,
    )


def get_mobilenet_v2(multiplier, pretrained=False, ctx=None, root=None, **kwargs):
    """MobileNet v2 of a width."""
    return with_weights(
        MobileNetV2(multiplier, **kwargs),
        "mobilenetv2_" + _width(multiplier),
        pretrained,
        ctx,
        root,
    )


def mobilenet1_0(**kwargs):
    """MobileNet."""
    return get_mobilenet(1.0, **kwargs)


def mobilenet0_75(**kwargs):
    """MobileNet of width 0.75."""
    return get_mobilenet(0.75, **kwargs)


def mobilenet0_5(**kwargs):
    """MobileNet of width 0.5."""
    return get_mobilenet(0.5, **kwargs)


def mobilenet0_25(**kwargs):
    """MobileNet of width 0.25."""
    return get_mobilenet(0.25, **kwargs)


def mobilenet_v2_1_0(**kwargs):
    """MobileNet v2."""
    return get_mobilenet_v2(1.0, **kwargs)


def mobilenet_v2_0_75(**kwargs):
    """MobileNet v2 of width 0.75."""
    return get_mobilenet_v2(0.75, **kwargs)


def mobilenet_v2_0_5(**kwargs):
    """MobileNet v2 of width 0.5."""
    return get_mobilenet_v2(0.5, **kwargs)


def mobilenet_v2_0_25(**kwargs):
    """MobileNet v2 of width 0.25."""
    return get_mobilenet_v2(0.25, **kwargs)
