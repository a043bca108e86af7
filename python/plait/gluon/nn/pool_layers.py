"""Pooling in one, two and three dimensions, by windows and over everything."""

from ..block import HybridBlock
from .layout import _check_layout, _tuple


class _Pooling(HybridBlock):
    """What all pooling layers share."""

    def __init__(
        self,
        pool_size,
        strides,
        padding,
        ceil_mode,
        global_pool,
        pool_type,
        layout,
        count_include_pad=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        dims = len(pool_size)
        _check_layout(layout, dims)
        strides = pool_size if strides is None else _tuple(strides, dims, "strides")
        self._kwargs = {
            "kernel": pool_size,
            "stride": strides,
            "pad": _tuple(padding, dims, "padding"),
            "global_pool": global_pool,
            "pool_type": pool_type,
            "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid",
        }
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self):
        return "pool"

    def hybrid_forward(self, F, x):
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self):
        k = self._kwargs
        return (
            "%s(size=%s, stride=%s, padding=%s, ceil_mode=%s, global_pool=%s, "
            "pool_type=%s, "
            "layout=%s)"
            % (
                type(self).__name__,
                k["kernel"],
                k["stride"],
                k["pad"],
                k["pooling_convention"] == "full",
                k["global_pool"],
                k["pool_type"],
                k["layout"],
            )
        )


class MaxPool1D(_Pooling):
    """The greatest value of each window; strides default to the window."""

    def __init__(
        self,
        pool_size=2,
        strides=None,
        padding=0,
        layout="NCW",
        ceil_mode=False,
        **kwargs,
    ):
        super().__init__(
            _tuple(pool_size, 1, "pool_size"),
            strides,
            padding,
            ceil_mode,
            False,
            "max",
            layout,
            **kwargs,
        )


class MaxPool2D(_Pooling):
    """The greatest value of each window; strides default to the window."""

    def __init__(
        self,
        pool_size=(2, 2),
        strides=None,
        padding=0,
        layout="NCHW",
        ceil_mode=False,
        **kwargs,
    ):
        super().__init__(
            _tuple(pool_size, 2, "pool_size"),
            strides,
            padding,
            ceil_mode,
            False,
            "max",
            layout,
            **kwargs,
        )


class MaxPool3D(_Pooling):
    """The greatest value of each window; strides default to the window."""

    def __init__(
        self,
        pool_size=(2, 2, 2),
        strides=None,
        padding=0,
        ceil_mode=False,
        layout="NCDHW",
        **kwargs,
    ):
        super().__init__(
            _tuple(pool_size, 3, "pool_size"),
            strides,
            padding,
            ceil_mode,
            False,
            "max",
            layout,
            **kwargs,
        )


class AvgPool1D(_Pooling):
    """The mean of each window, padding counted in unless count_include_pad=False."""

    def __init__(
        self,
        pool_size=2,
        strides=None,
        padding=0,
        layout="NCW",
        ceil_mode=False,
        count_include_pad=True,
        **kwargs,
    ):
        super().__init__(
            _tuple(pool_size, 1, "pool_size"),
            strides,
            padding,
            ceil_mode,
            False,
            "avg",
            layout,
            count_include_pad,
            **kwargs,
        )


class AvgPool2D(_Pooling):
    """The mean of each window, padding counted in unless count_include_pad=False."""

    def __init__(
        self,
        pool_size=(2, 2),
        strides=None,
        padding=0,
        ceil_mode=False,
        layout="NCHW",
        count_include_pad=True,
        **kwargs,
    ):
        super().__init__(
            _tuple(pool_size, 2, "pool_size"),
            strides,
            padding,
            ceil_mode,
            False,
            "avg",
            layout,
            count_include_pad,
            **kwargs,
        )


class AvgPool3D(_Pooling):
    """The mean of each window, padding counted in unless count_include_pad=False."""

    def __init__(
        self,
        pool_size=(2, 2, 2),
        strides=None,
        padding=0,
        ceil_mode=False,
        layout="NCDHW",
        count_include_pad=True,
        **kwargs,
    ):
        super().__init__(
            _tuple(pool_size, 3, "pool_size"),
            strides,
            padding,
            ceil_mode,
            False,
            "avg",
            layout,
            count_include_pad,
            **kwargs,
        )


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
