"""Convolutions, transposed convolutions and pooling in one, two and three dimensions."""

from ...base import numeric_types
from ..block import HybridBlock
from ..infer import _convolution, _deconvolution
from .activations import Activation

__all__ = ["Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose",
           "Conv3DTranspose", "MaxPool1D", "MaxPool2D", "MaxPool3D", "AvgPool1D", "AvgPool2D",
           "AvgPool3D", "GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D",
           "GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalAvgPool3D", "ReflectionPad2D"]

_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def _tuple(value, dims, name):
    """`value` as a tuple of `dims` numbers; one number stands for all."""
    if isinstance(value, numeric_types):
        return (value,) * dims
    assert len(value) == dims, "%s must be a number or a list of %d ints, got %s" \
        % (name, dims, value)
    return tuple(value)


def _check_layout(layout, dims, channels_last=True):
    allowed = _LAYOUTS[dims][:2 if channels_last else 1]
    assert layout in allowed, "Only supports %s layout for %dD, got %r" \
        % (" and ".join(allowed), dims, layout)


class _Conv(HybridBlock):
    """What all convolutions share; `op_name` is the operator, `adj` its output padding."""

    def __init__(self, channels, kernel_size, strides, padding, dilation, groups, layout,
                 in_channels=0, activation=None, use_bias=True, weight_initializer=None,
                 bias_initializer="zeros", op_name="Convolution", adj=None, prefix=None,
                 params=None):
        super().__init__(prefix=prefix, params=params)
        dims = len(kernel_size)
        self._channels = channels
        self._in_channels = in_channels
        self._op_name = op_name
        self._kwargs = {
            "kernel": kernel_size, "stride": _tuple(strides, dims, "strides"),
            "dilate": _tuple(dilation, dims, "dilation"),
            "pad": _tuple(padding, dims, "padding"), "num_filter": channels,
            "num_group": groups, "no_bias": not use_bias, "layout": layout}
        if adj is not None:
            self._kwargs["adj"] = adj
        shape = [0] * (dims + 2)
        shape[layout.index("C")] = in_channels
        rule = _convolution if adj is None else _deconvolution
        shapes = rule(shape, self._kwargs)
        with self.name_scope():
            self.weight = self.params.get("weight", shape=shapes["weight"],
                                          init=weight_initializer, allow_deferred_init=True)
            self.bias = None
            if use_bias:
                self.bias = self.params.get("bias", shape=shapes["bias"], init=bias_initializer,
                                            allow_deferred_init=True)
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
            type(self).__name__, shape[1] or None, shape[0], k["kernel"], k["stride"])
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

    def __init__(self, channels, kernel_size, strides=1, padding=0, dilation=1,
                 groups=1, layout="NCW",
                 activation=None, use_bias=True, weight_initializer=None,
                 bias_initializer="zeros", in_channels=0, **kwargs):
        _check_layout(layout, 1, channels_last=False)
        super().__init__(channels, _tuple(kernel_size, 1, "kernel_size"), strides, padding,
                         dilation, groups, layout, in_channels, activation, use_bias,
                         weight_initializer, bias_initializer, **kwargs)


class Conv2D(_Conv):
    """Convolution over images (N, C, H, W); see the operator Convolution."""

    def __init__(self, channels, kernel_size, strides=(1, 1), padding=(0, 0),
                 dilation=(1, 1), groups=1, layout="NCHW",
                 activation=None, use_bias=True, weight_initializer=None,
                 bias_initializer="zeros", in_channels=0, **kwargs):
        _check_layout(layout, 2)
        super().__init__(channels, _tuple(kernel_size, 2, "kernel_size"), strides, padding,
                         dilation, groups, layout, in_channels, activation, use_bias,
                         weight_initializer, bias_initializer, **kwargs)


class Conv3D(_Conv):
    """Convolution over volumes (N, C, D, H, W); see the operator Convolution."""

    def __init__(self, channels, kernel_size, strides=(1, 1, 1), padding=(0, 0, 0),
                 dilation=(1, 1, 1), groups=1, layout="NCDHW",
                 activation=None, use_bias=True, weight_initializer=None,
                 bias_initializer="zeros", in_channels=0, **kwargs):
        _check_layout(layout, 3)
        super().__init__(channels, _tuple(kernel_size, 3, "kernel_size"), strides, padding,
                         dilation, groups, layout, in_channels, activation, use_bias,
                         weight_initializer, bias_initializer, **kwargs)


class Conv1DTranspose(_Conv):
    """Transposed convolution over sequences (N, C, W); see the operator Deconvolution."""

    def __init__(self, channels, kernel_size, strides=1, padding=0, output_padding=0, dilation=1,
                 groups=1, layout="NCW",
                 activation=None, use_bias=True, weight_initializer=None,
                 bias_initializer="zeros", in_channels=0, **kwargs):
        _check_layout(layout, 1, channels_last=False)
        self.__dict__["outpad"] = _tuple(output_padding, 1, "output_padding")
        kwargs.setdefault("op_name", "Deconvolution")
        super().__init__(channels, _tuple(kernel_size, 1, "kernel_size"), strides, padding,
                         dilation, groups, layout, in_channels, activation, use_bias,
                         weight_initializer, bias_initializer, adj=self.outpad, **kwargs)


class Conv2DTranspose(_Conv):
    """Transposed convolution over images (N, C, H, W); see the operator Deconvolution."""

    def __init__(self, channels, kernel_size, strides=(1, 1), padding=(0, 0),
                 output_padding=(0, 0), dilation=(1, 1), groups=1, layout="NCHW",
                 activation=None, use_bias=True, weight_initializer=None,
                 bias_initializer="zeros", in_channels=0, **kwargs):
        _check_layout(layout, 2)
        self.__dict__["outpad"] = _tuple(output_padding, 2, "output_padding")
        kwargs.setdefault("op_name", "Deconvolution")
        super().__init__(channels, _tuple(kernel_size, 2, "kernel_size"), strides, padding,
                         dilation, groups, layout, in_channels, activation, use_bias,
                         weight_initializer, bias_initializer, adj=self.outpad, **kwargs)


class Conv3DTranspose(_Conv):
    """Transposed convolution over volumes (N, C, D, H, W); see the operator Deconvolution."""

    def __init__(self, channels, kernel_size, strides=(1, 1, 1), padding=(0, 0, 0),
                 output_padding=(0, 0, 0), dilation=(1, 1, 1), groups=1, layout="NCDHW",
                 activation=None, use_bias=True, weight_initializer=None,
                 bias_initializer="zeros", in_channels=0, **kwargs):
        _check_layout(layout, 3)
        self.__dict__["outpad"] = _tuple(output_padding, 3, "output_padding")
        kwargs.setdefault("op_name", "Deconvolution")
        super().__init__(channels, _tuple(kernel_size, 3, "kernel_size"), strides, padding,
                         dilation, groups, layout, in_channels, activation, use_bias,
                         weight_initializer, bias_initializer, adj=self.outpad, **kwargs)


class _Pooling(HybridBlock):
    """What all pooling layers share."""

    def __init__(self, pool_size, strides, padding, ceil_mode, global_pool, pool_type, layout,
                 count_include_pad=None, **kwargs):
        super().__init__(**kwargs)
        dims = len(pool_size)
        _check_layout(layout, dims)
        strides = pool_size if strides is None else _tuple(strides, dims, "strides")
        self._kwargs = {
            "kernel": pool_size, "stride": strides, "pad": _tuple(padding, dims, "padding"),
            "global_pool": global_pool, "pool_type": pool_type, "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid"}
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self):
        return "pool"

    def hybrid_forward(self, F, x):
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self):
        k = self._kwargs
        return ("%s(size=%s, stride=%s, padding=%s, ceil_mode=%s, global_pool=%s, pool_type=%s, "
                "layout=%s)" % (type(self).__name__, k["kernel"], k["stride"], k["pad"],
                                k["pooling_convention"] == "full", k["global_pool"],
                                k["pool_type"], k["layout"]))


class MaxPool1D(_Pooling):
    """The greatest value of each window; strides default to the window."""

    def __init__(self, pool_size=2, strides=None, padding=0, layout="NCW", ceil_mode=False,
                 **kwargs):
        super().__init__(_tuple(pool_size, 1, "pool_size"), strides, padding, ceil_mode, False,
                         "max", layout, **kwargs)


class MaxPool2D(_Pooling):
    """The greatest value of each window; strides default to the window."""

    def __init__(self, pool_size=(2, 2), strides=None, padding=0, layout="NCHW", ceil_mode=False,
                 **kwargs):
        super().__init__(_tuple(pool_size, 2, "pool_size"), strides, padding, ceil_mode, False,
                         "max", layout, **kwargs)


class MaxPool3D(_Pooling):
    """The greatest value of each window; strides default to the window."""

    def __init__(self, pool_size=(2, 2, 2), strides=None, padding=0, ceil_mode=False, layout="NCDHW",
                 **kwargs):
        super().__init__(_tuple(pool_size, 3, "pool_size"), strides, padding, ceil_mode, False,
                         "max", layout, **kwargs)


class AvgPool1D(_Pooling):
    """The mean of each window, padding counted in unless count_include_pad=False."""

    def __init__(self, pool_size=2, strides=None, padding=0, layout="NCW", ceil_mode=False,
                 count_include_pad=True, **kwargs):
        super().__init__(_tuple(pool_size, 1, "pool_size"), strides, padding, ceil_mode, False,
                         "avg", layout, count_include_pad, **kwargs)


class AvgPool2D(_Pooling):
    """The mean of each window, padding counted in unless count_include_pad=False."""

    def __init__(self, pool_size=(2, 2), strides=None, padding=0, ceil_mode=False, layout="NCHW",
                 count_include_pad=True, **kwargs):
        super().__init__(_tuple(pool_size, 2, "pool_size"), strides, padding, ceil_mode, False,
                         "avg", layout, count_include_pad, **kwargs)


class AvgPool3D(_Pooling):
    """The mean of each window, padding counted in unless count_include_pad=False."""

    def __init__(self, pool_size=(2, 2, 2), strides=None, padding=0, ceil_mode=False, layout="NCDHW",
                 count_include_pad=True, **kwargs):
        super().__init__(_tuple(pool_size, 3, "pool_size"), strides, padding, ceil_mode, False,
                         "avg", layout, count_include_pad, **kwargs)


class GlobalMaxPool1D(_Pooling):
    """The greatest value of each channel, with spatial sizes of 1."""

    def __init__(self, layout="NCW", **kwargs):
        super().__init__((1,) * 1, None, 0, True, True, "max", layout, **kwargs)


class GlobalMaxPool2D(_Pooling):
    """The greatest value of each channel, with spatial sizes of 1."""

    def __init__(self, layout="NCHW", **kwargs):
        super().__init__((1,) * 2, None, 0, True, True, "max", layout, **kwargs)


class GlobalMaxPool3D(_Pooling):
    """The greatest value of each channel, with spatial sizes of 1."""

    def __init__(self, layout="NCDHW", **kwargs):
        super().__init__((1,) * 3, None, 0, True, True, "max", layout, **kwargs)


class GlobalAvgPool1D(_Pooling):
    """The mean of each channel, with spatial sizes of 1."""

    def __init__(self, layout="NCW", **kwargs):
        super().__init__((1,) * 1, None, 0, True, True, "avg", layout, **kwargs)


class GlobalAvgPool2D(_Pooling):
    """The mean of each channel, with spatial sizes of 1."""

    def __init__(self, layout="NCHW", **kwargs):
        super().__init__((1,) * 2, None, 0, True, True, "avg", layout, **kwargs)


class GlobalAvgPool3D(_Pooling):
    """The mean of each channel, with spatial sizes of 1."""

    def __init__(self, layout="NCDHW", **kwargs):
        super().__init__((1,) * 3, None, 0, True, True, "avg", layout, **kwargs)


class ReflectionPad2D(HybridBlock):
    """Pads images by reflection at their edges; `padding` is a number or eight of them."""

    def __init__(self, padding=0, **kwargs):
        super().__init__(**kwargs)
        if isinstance(padding, numeric_types):
            padding = (0,) * 4 + (padding,) * 4
        assert len(padding) == 8, "padding must be a number or 8 ints, got %s" % (padding,)
        self._padding = padding

    def hybrid_forward(self, F, x):
        return F.pad(x, mode="reflect", pad_width=self._padding)
