"""Recurrent cells whose products are convolutions, over one to three axes."""

from ....error import check
from ...nn.conv_layers import _tuple
from ...rnn.rnn_cell import HybridRecurrentCell

__all__ = [
    "Conv1DRNNCell",
    "Conv2DRNNCell",
    "Conv3DRNNCell",
    "Conv1DLSTMCell",
    "Conv2DLSTMCell",
    "Conv3DLSTMCell",
    "Conv1DGRUCell",
    "Conv2DGRUCell",
    "Conv3DGRUCell",
]


class _BaseConvRNNCell(HybridRecurrentCell):
    """What the cells share. input_shape is that of one sample, without the batch.

    The state keeps its size: h2h kernels are odd and padded.
    """

    _dims = 0
    _gates = 1
    _states = 1
    _layout = None

    def __init__(
        self,
        input_shape,
        hidden_channels,
        i2h_kernel,
        h2h_kernel,
        i2h_pad=0,
        i2h_dilate=1,
        h2h_dilate=1,
        i2h_weight_initializer=None,
        h2h_weight_initializer=None,
        i2h_bias_initializer="zeros",
        h2h_bias_initializer="zeros",
        conv_layout=None,
        activation="tanh",
        prefix=None,
        params=None,
    ):
        super().__init__(prefix=prefix, params=params)
        dims = self._dims
        self._hidden_channels = hidden_channels
        self._input_shape = input_shape
        self._conv_layout = conv_layout or self._layout
        self._activation = activation
        self._i2h_kernel = _tuple(i2h_kernel, dims, "i2h_kernel")
        self._i2h_pad = _tuple(i2h_pad, dims, "i2h_pad")
        self._i2h_dilate = _tuple(i2h_dilate, dims, "i2h_dilate")
        self._h2h_kernel = _tuple(h2h_kernel, dims, "h2h_kernel")
        self._h2h_dilate = _tuple(h2h_dilate, dims, "h2h_dilate")
        check(
            all(k % 2 == 1 for k in self._h2h_kernel),
            "Only support odd number, get h2h_kernel= %s",
            h2h_kernel,
        )
        self._h2h_pad = tuple(
            d * (k - 1) // 2 for d, k in zip(self._h2h_dilate, self._h2h_kernel)
        )
        self._channel_axis = self._conv_layout.find("C")
        self._add_parameters(
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
        )

    def _add_parameters(self, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
        first = self._channel_axis == 1
        shape = self._input_shape
        channels, sizes = (shape[0], shape[1:]) if first else (shape[-1], shape[:-1])
        out = tuple(
            x + 2 * p - d * (k - 1) if x else 0
            for x, k, p, d in zip(
                sizes, self._i2h_kernel, self._i2h_pad, self._i2h_dilate
            )
        )
        hidden = self._hidden_channels
        rows = hidden * self._gates

        def weight_shape(inputs, kernel):
            return (rows, inputs) + kernel if first else (rows,) + kernel + (inputs,)

        self._in_channels = channels
        self._state_shape = (hidden,) + out if first else out + (hidden,)
        for name, size, init in (
            ("i2h_weight", weight_shape(channels, self._i2h_kernel), i2h_weight),
            ("h2h_weight", weight_shape(hidden, self._h2h_kernel), h2h_weight),
            ("i2h_bias", (rows,), i2h_bias),
            ("h2h_bias", (rows,), h2h_bias),
        ):
            setattr(
                self,
                name,
                self.params.get(name, shape=size, init=init, allow_deferred_init=True),
            )

    def state_info(self, batch_size=0):
        return [
            {
                "shape": (batch_size,) + self._state_shape,
                "__layout__": self._conv_layout,
            }
            for _ in range(self._states)
        ]

    def __repr__(self):
        rows = self.i2h_weight.shape[0]
        return "%s(%s -> %d, %s, %s)" % (
            type(self).__name__,
            self._in_channels or None,
            rows,
            self._activation,
            self._conv_layout,
        )

    def _products(
        self, F, inputs, state, i2h_weight, h2h_weight, i2h_bias, h2h_bias, t
    ):
        common = dict(
            num_filter=self._hidden_channels * self._gates,
            stride=(1,) * self._dims,
            layout=self._conv_layout,
        )
        i2h = F.Convolution(
            data=inputs,
            weight=i2h_weight,
            bias=i2h_bias,
            kernel=self._i2h_kernel,
            pad=self._i2h_pad,
            dilate=self._i2h_dilate,
            name=t + "i2h",
            **common,
        )
        h2h = F.Convolution(
            data=state,
            weight=h2h_weight,
            bias=h2h_bias,
            kernel=self._h2h_kernel,
            pad=self._h2h_pad,
            dilate=self._h2h_dilate,
            name=t + "h2h",
            **common,
        )
        return i2h, h2h

    def hybrid_forward(
        self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias
    ):
        t = "t%d_" % self._counter
        i2h, h2h = self._products(
            F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias, t
        )
        return self._combine(F, i2h, h2h, states, t)

    def _combine(self, F, i2h, h2h, states, t):
        raise NotImplementedError


class _ConvRNNCell(_BaseConvRNNCell):
    def _alias(self):
        return "conv_rnn"

    def _combine(self, F, i2h, h2h, states, t):
        output = self._get_activation(F, i2h + h2h, self._activation, name=t + "out")
        return output, [output]


class _ConvLSTMCell(_BaseConvRNNCell):
    _gates = 4
    _states = 2

    def _alias(self):
        return "conv_lstm"

    def _combine(self, F, i2h, h2h, states, t):
        i, f, c, o = F.SliceChannel(
            i2h + h2h, num_outputs=4, axis=self._channel_axis, name=t + "slice"
        )
        c = self._get_activation(F, c, self._activation, name=t + "c")
        memory = F.elemwise_add(
            F.sigmoid(f, name=t + "f") * states[1],
            F.sigmoid(i, name=t + "i") * c,
            name=t + "state",
        )
        hidden = F.elemwise_mul(
            F.sigmoid(o, name=t + "o"),
            self._get_activation(F, memory, self._activation),
            name=t + "out",
        )
        return hidden, [hidden, memory]


class _ConvGRUCell(_BaseConvRNNCell):
    _gates = 3

    def _alias(self):
        return "conv_gru"

    def _combine(self, F, i2h, h2h, states, t):
        axis = self._channel_axis
        i2h_r, i2h_z, i2h_n = F.SliceChannel(
            i2h, num_outputs=3, axis=axis, name=t + "i2h_slice"
        )
        h2h_r, h2h_z, h2h_n = F.SliceChannel(
            h2h, num_outputs=3, axis=axis, name=t + "h2h_slice"
        )
        r = F.sigmoid(i2h_r + h2h_r, name=t + "r_act")
        z = F.sigmoid(i2h_z + h2h_z, name=t + "z_act")
        n = self._get_activation(
            F, i2h_n + r * h2h_n, self._activation, name=t + "h_act"
        )
        hidden = F.elemwise_add((1.0 - z) * n, z * states[0], name=t + "out")
        return hidden, [hidden]


class Conv1DRNNCell(_ConvRNNCell):
    """A plain recurrent cell over (C, W)."""

    _dims, _layout = 1, "NCW"


class Conv2DRNNCell(_ConvRNNCell):
    """A plain recurrent cell over (C, H, W)."""

    _dims, _layout = 2, "NCHW"


class Conv3DRNNCell(_ConvRNNCell):
    """A plain recurrent cell over (C, D, H, W)."""

    _dims, _layout = 3, "NCDHW"


class Conv1DLSTMCell(_ConvLSTMCell):
    """A long short-term memory over (C, W)."""

    _dims, _layout = 1, "NCW"


class Conv2DLSTMCell(_ConvLSTMCell):
    """A long short-term memory over (C, H, W)."""

    _dims, _layout = 2, "NCHW"


class Conv3DLSTMCell(_ConvLSTMCell):
    """A long short-term memory over (C, D, H, W)."""

    _dims, _layout = 3, "NCDHW"


class Conv1DGRUCell(_ConvGRUCell):
    """A gated recurrent unit over (C, W)."""

    _dims, _layout = 1, "NCW"


class Conv2DGRUCell(_ConvGRUCell):
    """A gated recurrent unit over (C, H, W)."""

    _dims, _layout = 2, "NCHW"


class Conv3DGRUCell(_ConvGRUCell):
    """A gated recurrent unit over (C, D, H, W)."""

    _dims, _layout = 3, "NCDHW"
