"""DenseNet: every layer sees the outputs of all layers before it in its block."""

from ... import nn
from ...contrib.nn import HybridConcurrent, Identity
from .common import FeaturesAndOutput, add_all, with_weights

__all__ = ["DenseNet", "densenet121", "densenet161", "densenet169", "densenet201"]

# First channels, growth rate, layers of each block.
densenet_spec = {
    121: (64, 32, [6, 12, 24, 16]),
    161: (96, 48, [6, 12, 36, 24]),
    169: (64, 32, [6, 12, 32, 32]),
    201: (64, 32, [6, 12, 48, 32]),
}


def _normed_conv(channels, kernel_size, **kwargs):
    yield nn.BatchNorm()
    yield nn.Activation("relu")
    yield nn.Conv2D(channels, kernel_size, use_bias=False, **kwargs)


def _layer(growth_rate, bn_size, dropout):
    new = nn.HybridSequential(prefix="")
    add_all(new, _normed_conv(bn_size * growth_rate, 1))
    add_all(new, _normed_conv(growth_rate, 3, padding=1))
    if dropout:
        new.add(nn.Dropout(dropout))
    out = HybridConcurrent(axis=1, prefix="")
    out.add(Identity())
    out.add(new)
    return out


def _block(layers, bn_size, growth_rate, dropout, stage):
    out = nn.HybridSequential(prefix="stage%d_" % stage)
    with out.name_scope():
        add_all(out, (_layer(growth_rate, bn_size, dropout) for _ in range(layers)))
    return out


def _transition(channels):
    out = add_all(nn.HybridSequential(prefix=""), _normed_conv(channels, 1))
    out.add(nn.AvgPool2D(2, strides=2))
    return out


class DenseNet(FeaturesAndOutput):
    """Dense blocks with transitions that halve channels and size between them."""

    def __init__(
        self,
        num_init_features,
        growth_rate,
        block_config,
        bn_size=4,
        dropout=0,
        classes=1000,
        **kwargs,
    ):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            add_all(
                self.features,
                self._layers(
                    num_init_features, growth_rate, block_config, bn_size, dropout
                ),
            )
            self.output = nn.Dense(classes)

    @staticmethod
    def _layers(channels, growth_rate, block_config, bn_size, dropout):
        yield nn.Conv2D(channels, 7, strides=2, padding=3, use_bias=False)
        yield nn.BatchNorm()
        yield nn.Activation("relu")
        yield nn.MaxPool2D(3, strides=2, padding=1)
        for i, layers in enumerate(block_config):
            yield _block(layers, bn_size, growth_rate, dropout, i + 1)
            channels += layers * growth_rate
            if i != len(block_config) - 1:
                channels //= 2
                yield _transition(channels)
        yield nn.BatchNorm()
        yield nn.Activation("relu")
        yield nn.AvgPool2D(7)
        yield nn.Flatten()


def get_densenet(num_layers, pretrained=False, ctx=None, root=None, **kwargs):
    """DenseNet of 121, 161, 169 or 201 layers."""
    net = DenseNet(*densenet_spec[num_layers], **kwargs)
    return with_weights(net, "densenet%d" % num_layers, pretrained, ctx, root)


def densenet121(**kwargs):
    """DenseNet-121."""
    return get_densenet(121, **kwargs)


def densenet161(**kwargs):
    """DenseNet-161."""
    return get_densenet(161, **kwargs)


def densenet169(**kwargs):
    """DenseNet-169."""
    return get_densenet(169, **kwargs)


def densenet201(**kwargs):
    """DenseNet-201."""
    return get_densenet(201, **kwargs)
