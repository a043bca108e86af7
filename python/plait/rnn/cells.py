"""RNNCell, LSTMCell and GRUCell: one layer, one step."""

from .. import initializer, symbol
from .base_cell import BaseRNNCell


class _DenseCell(BaseRNNCell):
    """A cell whose gates are two affine maps, of the input and of the last output."""

    def __init__(self, num_hidden, prefix, params, i2h_bias_init=None):
        super().__init__(prefix=prefix, params=params)
        self._num_hidden = num_hidden
        more = {} if i2h_bias_init is None else {"init": i2h_bias_init}
        self._iW = self.params.get("i2h_weight")
        self._iB = self.params.get("i2h_bias", **more)
        self._hW = self.params.get("h2h_weight")
        self._hB = self.params.get("h2h_bias")

    _states = 1

    @property
    def state_info(self):
        return [
            {"shape": (0, self._num_hidden), "__layout__": "NC"}
            for _ in range(self._states)
        ]

    def _affine(self, inputs, state, name):
        """(i2h, h2h) for all gates."""
        width = self._num_hidden * len(self._gate_names)
        i2h = symbol.FullyConnected(
            data=inputs,
            weight=self._iW,
            bias=self._iB,
            num_hidden=width,
            name=name + "i2h",
        )
        h2h = symbol.FullyConnected(
            data=state,
            weight=self._hW,
            bias=self._hB,
            num_hidden=width,
            name=name + "h2h",
        )
        return i2h, h2h


def lstm_step(gates, state, act, name, axis=1):
    """(output, cell state) of an LSTM from its four gates side by side."""
    parts = symbol.SliceChannel(gates, num_outputs=4, axis=axis, name=name + "slice")
    in_gate = symbol.Activation(parts[0], act_type="sigmoid", name=name + "i")
    forget_gate = symbol.Activation(parts[1], act_type="sigmoid", name=name + "f")
    update = act(parts[2], name=name + "c")
    out_gate = symbol.Activation(parts[3], act_type="sigmoid", name=name + "o")
    cell = symbol.elemwise_add(
        forget_gate * state, in_gate * update, name=name + "state"
    )
    return symbol.elemwise_mul(out_gate, act(cell), name=name + "out"), cell


def gru_step(i2h, h2h, state, act, name, axis=1):
    """The output of a GRU from its three gates side by side, twice."""
    i2h_r, i2h_z, i2h = symbol.SliceChannel(
        i2h, num_outputs=3, axis=axis, name=name + "_i2h_slice"
    )
    h2h_r, h2h_z, h2h = symbol.SliceChannel(
        h2h, num_outputs=3, axis=axis, name=name + "_h2h_slice"
    )
    reset = symbol.Activation(i2h_r + h2h_r, act_type="sigmoid", name=name + "_r_act")
    keep = symbol.Activation(i2h_z + h2h_z, act_type="sigmoid", name=name + "_z_act")
    update = act(i2h + reset * h2h, name=name + "_h_act")
    return symbol.elemwise_add((1.0 - keep) * update, keep * state, name=name + "out")


class RNNCell(_DenseCell):
    """h' = activation(W x + b + R h + c)."""

    def __init__(self, num_hidden, activation="tanh", prefix="rnn_", params=None):
        super().__init__(num_hidden, prefix, params)
        self._activation = activation

    @property
    def _gate_names(self):
        return ("",)

    def __call__(self, inputs, states):
        name = self._next_name()
        i2h, h2h = self._affine(inputs, states[0], name)
        output = self._get_activation(i2h + h2h, self._activation, name=name + "out")
        return output, [output]


class LSTMCell(_DenseCell):
    """Long short-term memory; the states are output and cell state.

    forget_bias: the first value of the forget gate's bias.
    """

    _states = 2

    def __init__(self, num_hidden, prefix="lstm_", params=None, forget_bias=1.0):
        bias = initializer.LSTMBias(forget_bias=forget_bias)
        super().__init__(num_hidden, prefix, params, i2h_bias_init=bias)

    @property
    def _gate_names(self):
        return ["_i", "_f", "_c", "_o"]

    def _tanh(self, x, **kwargs):
        return symbol.Activation(x, act_type="tanh", **kwargs)

    def __call__(self, inputs, states):
        name = self._next_name()
        i2h, h2h = self._affine(inputs, states[0], name)
        output, cell = lstm_step(i2h + h2h, states[1], self._tanh, name)
        return output, [output, cell]


class GRUCell(_DenseCell):
    """A gated recurrent unit, in the form whose reset gate acts on R h + c."""

    def __init__(self, num_hidden, prefix="gru_", params=None):
        super().__init__(num_hidden, prefix, params)

    @property
    def _gate_names(self):
        return ["_r", "_z", "_o"]

    def _tanh(self, x, **kwargs):
        return symbol.Activation(x, act_type="tanh", **kwargs)

    def __call__(self, inputs, states):
        name = self._next_name()
        i2h, h2h = self._affine(inputs, states[0], name + "_")
        output = gru_step(i2h, h2h, states[0], self._tanh, name)
        return output, [output]
