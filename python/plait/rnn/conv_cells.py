"""ConvRNNCell, ConvLSTMCell and ConvGRUCell: cells whose maps are convolutions."""

import functools

from .. import symbol
from ..error import check
from .base_cell import BaseRNNCell
from .cells import gru_step, lstm_step

_LEAKY = functools.partial(symbol.LeakyReLU, act_type="leaky", slope=0.2)


class BaseConvRNNCell(BaseRNNCell):
    """Base: input_shape is that of a step's input, with any batch; the convolution of
    the state keeps its size, so h2h_kernel is odd.
    """

    _states = 1

    def __init__(
        self,
        input_shape,
        num_hidden,
        h2h_kernel,
        h2h_dilate,
        i2h_kernel,
        i2h_stride,
        i2h_pad,
        i2h_dilate,
        i2h_weight_initializer,
        h2h_weight_initializer,
        i2h_bias_initializer,
        h2h_bias_initializer,
        activation,
        prefix="",
        params=None,
        conv_layout="NCHW",
    ):
        super().__init__(prefix=prefix, params=params)
        check(
            all(size % 2 == 1 for size in h2h_kernel),
            "%s: h2h_kernel is %s; expected odd sizes",
            type(self).__name__,
            h2h_kernel,
        )
        self._num_hidden = num_hidden
        self._input_shape = input_shape
        self._conv_layout = conv_layout
        self._activation = activation
        self._i2h = {
            "kernel": i2h_kernel,
            "stride": i2h_stride,
            "pad": i2h_pad,
            "dilate": i2h_dilate,
        }
        self._h2h = {
            "kernel": h2h_kernel,
            "stride": (1, 1),
            "pad": tuple(d * (k - 1) // 2 for d, k in zip(h2h_dilate, h2h_kernel)),
            "dilate": h2h_dilate,
        }
        sample = symbol.Convolution(
            data=symbol.Variable("data"),
            num_filter=num_hidden,
            layout=conv_layout,
            **self._i2h,
        )
        _, shapes, _ = sample.infer_shape(data=input_shape)
        self._state_shape = (0, *shapes[0][1:])
        self._iW = self.params.get("i2h_weight", init=i2h_weight_initializer)
        self._hW = self.params.get("h2h_weight", init=h2h_weight_initializer)
        self._iB = self.params.get("i2h_bias", init=i2h_bias_initializer)
        self._hB = self.params.get("h2h_bias", init=h2h_bias_initializer)

    @property
    def state_info(self):
        return [
            {"shape": self._state_shape, "__layout__": self._conv_layout}
            for _ in range(self._states)
        ]

    def _conv_forward(self, inputs, states, name):
        """(i2h, h2h) for all gates."""
        width = self._num_hidden * len(self._gate_names)
        i2h = symbol.Convolution(
            name=name + "i2h",
            data=inputs,
            weight=self._iW,
            bias=self._iB,
            num_filter=width,
            layout=self._conv_layout,
            **self._i2h,
        )
        h2h = symbol.Convolution(
            name=name + "h2h",
            data=states[0],
            weight=self._hW,
            bias=self._hB,
            num_filter=width,
            layout=self._conv_layout,
            **self._h2h,
        )
        return i2h, h2h

    @property
    def _channels(self):
        return self._conv_layout.find("C")

    def _act(self, x, **kwargs):
        return self._get_activation(x, self._activation, **kwargs)


class _ConvCell(BaseConvRNNCell):
    """The constructor that the three cells share."""

    def __init__(
        self,
        input_shape,
        num_hidden,
        h2h_kernel=(3, 3),
        h2h_dilate=(1, 1),
        i2h_kernel=(3, 3),
        i2h_stride=(1, 1),
        i2h_pad=(1, 1),
        i2h_dilate=(1, 1),
        i2h_weight_initializer=None,
        h2h_weight_initializer=None,
        i2h_bias_initializer="zeros",
        h2h_bias_initializer="zeros",
        activation=_LEAKY,
        prefix=None,
        params=None,
        conv_layout="NCHW",
    ):
        super().__init__(
            input_shape,
            num_hidden,
            h2h_kernel,
            h2h_dilate,
            i2h_kernel,
            i2h_stride,
            i2h_pad,
            i2h_dilate,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            activation,
            self._default_prefix if prefix is None else prefix,
            params,
            conv_layout,
        )


class ConvRNNCell(_ConvCell):
    """RNNCell with convolutions."""

    _default_prefix = "ConvRNN_"

    @property
    def _gate_names(self):
        return ("",)

    def __call__(self, inputs, states):
        name = self._next_name()
        i2h, h2h = self._conv_forward(inputs, states, name)
        output = self._act(i2h + h2h, name=name + "out")
        return output, [output]


class ConvLSTMCell(_ConvCell):
    """LSTMCell with convolutions."""

    _default_prefix = "ConvLSTM_"
    _states = 2

    @property
    def _gate_names(self):
        return ["_i", "_f", "_c", "_o"]

    def __call__(self, inputs, states):
        name = self._next_name()
        i2h, h2h = self._conv_forward(inputs, states, name)
        output, cell = lstm_step(i2h + h2h, states[1], self._act, name, self._channels)
        return output, [output, cell]


class ConvGRUCell(_ConvCell):
    """GRUCell with convolutions."""

    _default_prefix = "ConvGRU_"

    @property
    def _gate_names(self):
        return ["_r", "_z", "_o"]

    def __call__(self, inputs, states):
        name = self._next_name()
        i2h, h2h = self._conv_forward(inputs, states, name)
        output = gru_step(i2h, h2h, states[0], self._act, name, self._channels)
        return output, [output]
