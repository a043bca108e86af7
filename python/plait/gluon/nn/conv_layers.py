"""Convolutions, transposed convolutions and pooling in one, two and three
dimensions.
"""

from ...base import numeric_types
from ..block import HybridBlock
from ..infer import _convolution, _deconvolution
from .activations import Activation
from .layout import _check_layout, _tuple
from .pool_layers import (
    AvgPool1D,
    AvgPool2D,
    AvgPool3D,
    GlobalAvgPool1D,
    GlobalAvgPool2D,
    GlobalAvgPool3D,
    GlobalMaxPool1D,
    GlobalMaxPool2D,
    GlobalMaxPool3D,
    MaxPool1D,
    MaxPool2D,
    MaxPool3D,
)

__all__ = [
    "Conv1D",
    "Conv2D",
    "Conv3D",
    "Conv1DTranspose",
    "Conv2DTranspose",
    "Conv3DTranspose",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "GlobalMaxPool1D",
    "GlobalMaxPool2D",
    "GlobalMaxPool3D",
    "GlobalAvgPool1D",
    "GlobalAvgPool2D",
    "GlobalAvgPool3D",
    "ReflectionPad2D",
]


class _Conv(HybridBlock):
    """What all convolutions share; `op_name` is the operator, `adj` its
    output padding.
    """

    def __init__(
        self,
        channels,
        kernel_size,
        strides,
        padding,
        dilation,
        groups,
        layout,
        in_channels=0,
        activation=None,
        use_bias=True,
        weight_initializer=None,
        bias_initializer="zeros",
        op_name="Convolution",
        adj=None,
        prefix=None,
        params=None,
    ):
        super().__init__(prefix=prefix, params=params)
        dims = len(kernel_size)
        self._channels = channels
        self._in_channels = in_channels
        self._op_name = op_name
        self._kwargs = {
            "kernel": kernel_size,
            "stride": _tuple(strides, dims, "strides"),
            "dilate": _tuple(dilation, dims, "dilation"),
            "pad": _tuple(padding, dims, "padding"),
            "num_filter": channels,
            "num_group": groups,
            "no_bias": not use_bias,
            "layout": layout,
        }
        if adj is not None:
            self._kwargs["adj"] = adj
        shape = [0] * (dims + 2)
        shape[layout.index("C")] = in_channels
        rule = _convolution if adj is None else _deconvolution
        shapes = rule(shape, self._kwargs)
        with self.name_scope():
            self.weight = self.params.get(
                "weight",
                shape=shapes["weight"],
                init=weight_initializer,
                allow_deferred_init=True,
            )
            self.bias = None
            if use_bias:
                self.bias = self.params.get(
                    "bias",
                    shape=shapes["bias"],
                    init=bias_initializer,
                    allow_deferred_init=True,
                )
            self.act = None
            if activation is not None:
                self.act = Activation(activation, prefix=activation + "_")

    def hybrid_forward(self, F, x, weight, bias=None):
        op = getattr(F, self._op_name)
        if bias is None:
            y = op(x, weight, name="fwd", **self._kwargs)
        else:
            y = op(x, weight, bias, name="fwd", **self._kwargs)
        return y if self.act is None else self.act(y)

    def _alias(self):
        return "conv"

    def __repr__(self):
        k = self._kwargs
        dims = len(k["kernel"])
        shape = self.weight.shape
        text = "%s(%s -> %d, kernel_size=%s, stride=%s" % (
            type(self).__name__,
            shape[1] or None,
            shape[0],
            k["kernel"],
            k["stride"],
        )
        if k["pad"] != (0,) * dims:
            text += ", padding=%s" % (k["pad"],)
        if k["dilate"] != (1,) * dims:
            text += ", dilation=%s" % (k["dilate"],)
        if k.get("adj", (0,) * dims) != (0,) * dims:
            text += ", output_padding=%s" % (k["adj"],)
        if k["num_group"] != 1:
            text += ", groups=%d" % k["num_group"]
        if self.bias is None:
            text += ", bias=False"
        if self.act:
            text += ", %s" % self.act
        return text + ")"


class Conv1D(_Conv):
    """Convolution over sequences (N, C, W); see the operator Convolution."""

    def __init__(
        self,
        channels,
        kernel_size,
        strides=1,
        padding=0,
        dilation=1,
        groups=1,
        layout="NCW",
        activation=None,
        use_bias=True,
        weight_initializer=None,
        bias_initializer="zeros",
        in_channels=0,
        **kwargs,
    ):
        _check_layout(layout, 1)
        super().__init__(
            channels,
            _tuple(kernel_size, 1, "kernel_size"),
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            **kwargs,
        )


class Conv2D(_Conv):
    """Convolution over images (N, C, H, W); see the operator Convolution."""

    def __init__(
        self,
        channels,
        kernel_size,
        strides=(1, 1),
        padding=(0, 0),
        dilation=(1, 1),
        groups=1,
        layout="NCHW",
        activation=None,
        use_bias=True,
        weight_initializer=None,
        bias_initializer="zeros",
        in_channels=0,
        **kwargs,
    ):
        _check_layout(layout, 2)
        super().__init__(
            channels,
            _tuple(kernel_size, 2, "kernel_size"),
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            **kwargs,
        )


class Conv3D(_Conv):
    """Convolution over volumes (N, C, D, H, W); see the operator Convolution."""

    def __init__(
        self,
        channels,
        kernel_size,
        strides=(1, 1, 1),
        padding=(0, 0, 0),
        dilation=(1, 1, 1),
        groups=1,
        layout="NCDHW",
        activation=None,
        use_bias=True,
        weight_initializer=None,
        bias_initializer="zeros",
        in_channels=0,
        **kwargs,
    ):
        _check_layout(layout, 3)
        super().__init__(
            channels,
            _tuple(kernel_size, 3, "kernel_size"),
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            **kwargs,
        )


class Conv1DTranspose(_Conv):
    """Transposed convolution over sequences (N, C, W); see the operator
    Deconvolution.
    """

    def __init__(
        self,
        channels,
        kernel_size,
        strides=1,
        padding=0,
        output_padding=0,
        dilation=1,
        groups=1,
        layout="NCW",
        activation=None,
        use_bias=True,
        weight_initializer=None,
        bias_initializer="zeros",
        in_channels=0,
        **kwargs,
    ):
        _check_layout(layout, 1)
        self.__dict__["outpad"] = _tuple(output_padding, 1, "output_padding")
        kwargs.setdefault("op_name", "Deconvolution")
        super().__init__(
            channels,
            _tuple(kernel_size, 1, "kernel_size"),
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            adj=self.outpad,
            **kwargs,
        )


class Conv2DTranspose(_Conv):
    """Transposed convolution over images (N, C, H, W); see the operator
    Deconvolution.
    """

    def __init__(
        self,
        channels,
        kernel_size,
        strides=(1, 1),
        padding=(0, 0),
        output_padding=(0, 0),
        dilation=(1, 1),
        groups=1,
        layout="NCHW",
        activation=None,
        use_bias=True,
        weight_initializer=None,
        bias_initializer="zeros",
        in_channels=0,
        **kwargs,
    ):
        _check_layout(layout, 2)
        self.__dict__["outpad"] = _tuple(output_padding, 2, "output_padding")
        kwargs.setdefault("op_name", "Deconvolution")
        super().__init__(
            channels,
            _tuple(kernel_size, 2, "kernel_size"),
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            adj=self.outpad,
            **kwargs,
        )


class Conv3DTranspose(_Conv):
    """Transposed convolution over volumes (N, C, D, H, W); see the operator
    Deconvolution.
    """

    def __init__(
        self,
        channels,
        kernel_size,
        strides=(1, 1, 1),
        padding=(0, 0, 0),
        output_padding=(0, 0, 0),
        dilation=(1, 1, 1),
        groups=1,
        layout="NCDHW",
        activation=None,
        use_bias=True,
        weight_initializer=None,
        bias_initializer="zeros",
        in_channels=0,
        **kwargs,
    ):
        _check_layout(layout, 3)
        self.__dict__["outpad"] = _tuple(output_padding, 3, "output_padding")
        kwargs.setdefault("op_name", "Deconvolution")
        super().__init__(
            channels,
            _tuple(kernel_size, 3, "kernel_size"),
            strides,
            padding,
            dilation,
            groups,
            layout,
            in_channels,
            activation,
            use_bias,
            weight_initializer,
            bias_initializer,
            adj=self.outpad,
            **kwargs,
        )


class ReflectionPad2D(HybridBlock):
    """Pads images by reflection at their edges; `padding` is a number or
    eight of them.
    """

    def __init__(self, padding=0, **kwargs):
        super().__init__(**kwargs)
        if isinstance(padding, numeric_types):
            padding = (0,) * 4 + (padding,) * 4
        assert len(padding) == 8, "padding must be a number or 8 ints, got %s" % (
            padding,
        )
        self._padding = padding

    def hybrid_forward(self, F, x):
        return F.pad(x, mode="reflect", pad_width=self._padding)
