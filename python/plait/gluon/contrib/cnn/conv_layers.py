"""Convolutions that sample their input at learned places."""

from ...block import HybridBlock
from ...nn import Activation
from ...nn.conv_layers import _check_layout, _tuple

__all__ = ["DeformableConvolution", "ModulatedDeformableConvolution"]


class DeformableConvolution(HybridBlock):
    """A convolution of offsets, and one that samples at them (see the operator of that
    name).
    """

    _outputs = 2  # of the first convolution, for each tap: two offsets

    def __init__(
        self,
        channels,
        kernel_size=(1, 1),
        strides=(1, 1),
        padding=(0, 0),
        dilation=(1, 1),
        groups=1,
        num_deformable_group=1,
        layout="NCHW",
        use_bias=True,
        in_channels=0,
        activation=None,
        weight_initializer=None,
        bias_initializer="zeros",
        offset_weight_initializer="zeros",
        offset_bias_initializer="zeros",
        offset_use_bias=True,
        op_name=None,
        adj=None,
        prefix=None,
        params=None,
    ):
        super().__init__(prefix=prefix, params=params)
        _check_layout(layout, 2)
        kernel = _tuple(kernel_size, 2, "kernel_size")
        self._channels = channels
        self._in_channels = in_channels
        self._op_name = op_name or type(self).__name__
        taps = kernel[0] * kernel[1] * num_deformable_group
        self.offset_split_index = 2 * taps
        common = {
            "kernel": kernel,
            "stride": _tuple(strides, 2, "strides"),
            "dilate": _tuple(dilation, 2, "dilation"),
            "pad": _tuple(padding, 2, "padding"),
            "num_group": groups,
            "layout": layout,
        }
        if adj:
            common["adj"] = adj
        self._kwargs_offset = dict(
            common, num_filter=self._outputs * taps, no_bias=not offset_use_bias
        )
        self._kwargs_deformable_conv = dict(
            common,
            num_filter=channels,
            no_bias=not use_bias,
            num_deformable_group=num_deformable_group,
        )
        width = in_channels // groups
        with self.name_scope():
            self._add(
                "offset_weight",
                (self._outputs * taps, width) + kernel,
                offset_weight_initializer,
                True,
            )
            self._add(
                "offset_bias",
                (self._outputs * taps,),
                offset_bias_initializer,
                offset_use_bias,
            )
            self._add(
                "deformable_conv_weight",
                (channels, width) + kernel,
                weight_initializer,
                True,
            )
            self._add("deformable_conv_bias", (channels,), bias_initializer, use_bias)
            self.act = (
                Activation(activation, prefix=activation + "_") if activation else None
            )

    def _add(self, name, shape, init, wanted):
        setattr(
            self,
            name,
            self.params.get(name, shape=shape, init=init, allow_deferred_init=True)
            if wanted
            else None,
        )

    def hybrid_forward(
        self,
        F,
        x,
        offset_weight,
        deformable_conv_weight,
        offset_bias=None,
        deformable_conv_bias=None,
    ):
        bias = {} if offset_bias is None else {"bias": offset_bias}
        offset = F.Convolution(
            data=x, weight=offset_weight, cudnn_off=True, **bias, **self._kwargs_offset
        )
        bias = {} if deformable_conv_bias is None else {"bias": deformable_conv_bias}
        y = getattr(F.contrib, self._op_name)(
            data=x,
            weight=deformable_conv_weight,
            name="fwd",
            **self._sampling(F, offset),
            **bias,
            **self._kwargs_deformable_conv,
        )
        return y if self.act is None else self.act(y)

    def _sampling(self, F, offset):
        return {"offset": offset}

    def _alias(self):
        return "deformable_conv"

    def __repr__(self):
        k = self._kwargs_deformable_conv
        return "%s(%s -> %d, kernel_size=%s, stride=%s)" % (
            type(self).__name__,
            self._in_channels or None,
            self._channels,
            k["kernel"],
            k["stride"],
        )


class ModulatedDeformableConvolution(DeformableConvolution):
    """A deformable convolution whose samples are weighted by a learned mask."""

    _outputs = 3  # two offsets and a weight

    def _sampling(self, F, offset):
        split = self.offset_split_index
        mask = F.slice_axis(offset, axis=1, begin=split, end=None)
        return {
            "offset": F.slice_axis(offset, axis=1, begin=0, end=split),
            "mask": F.sigmoid(mask) * 2,
        }

    def _alias(self):
        return "modulated_deformable_conv"
