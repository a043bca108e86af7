"""Recurrent layers over whole sequences, by one operator for all steps and layers."""

import re

from ... import ndarray as nd
from ..block import HybridBlock
from . import rnn_cell
from .sequence import is_array, is_symbol, module_of

__all__ = ["RNN", "LSTM", "GRU"]

_GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
_NAME = re.compile(r"(l|r)(\d+)_(i2h|h2h|h2r)_(weight|bias)\Z")


class _RNNLayer(HybridBlock):
    """What the layers share: parameters named l0_i2h_weight, r0_..., l1_..., and
    states.
    """

    def __init__(
        self,
        hidden_size,
        num_layers,
        layout,
        dropout,
        bidirectional,
        input_size,
        initializers,
        mode,
        dtype,
        projection_size=None,
        state_clip=(None, None, False),
        use_sequence_length=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        assert layout in ("TNC", "NTC"), (
            "Invalid layout %s; must be one of ['TNC' or 'NTC']" % layout
        )
        self._hidden_size = hidden_size
        self._projection_size = projection_size or None
        self._num_layers = num_layers
        self._mode = mode
        self._layout = layout
        self._dropout = dropout
        self._dir = 2 if bidirectional else 1
        self._input_size = input_size
        self._initializers = initializers
        self._state_clip = state_clip
        self._dtype = dtype
        self._use_sequence_length = use_sequence_length
        self._gates = _GATES[mode]
        self.skip_states = None
        for name, shape in self._parameter_shapes(input_size):
            init = initializers.get(name.partition("_")[2])
            setattr(
                self,
                name,
                self.params.get(
                    name, shape=shape, init=init, dtype=dtype, allow_deferred_init=True
                ),
            )

    def _parameter_shapes(self, input_size):
        rows, width = self._gates * self._hidden_size, input_size
        out = self._projection_size or self._hidden_size
        for layer in range(self._num_layers):
            for side in "lr"[: self._dir]:
                name = "%s%d_" % (side, layer)
                yield name + "i2h_weight", (rows, width)
                yield name + "h2h_weight", (rows, out)
                yield name + "i2h_bias", (rows,)
                yield name + "h2h_bias", (rows,)
                if self._projection_size:
                    yield name + "h2r_weight", (out, self._hidden_size)
            width = out * self._dir

    def __repr__(self):
        rows, width = self.l0_i2h_weight.shape
        text = "%s(%s -> %d, %s" % (
            type(self).__name__,
            width or None,
            rows // self._gates,
            self._layout,
        )
        if self._num_layers != 1:
            text += ", num_layers=%d" % self._num_layers
        if self._dropout != 0:
            text += ", dropout=%s" % self._dropout
        if self._dir == 2:
            text += ", bidirectional"
        return text + ")"

    def _collect_params_with_prefix(self, prefix=""):
        # Files keep the names that layers had when they were made of cells.
        if prefix:
            prefix += "."
        found = {}
        for key, param in self._reg_params.items():
            side, layer, gate, kind = _NAME.match(key).groups()
            cell = "%s_cell." % side if self._dir == 2 else ""
            found["%s_unfused.%s.%s%s_%s" % (prefix, layer, cell, gate, kind)] = param
        return found

    def state_info(self, batch_size=0):
        """Shape, layout and dtype of each state."""
        first = (self._num_layers * self._dir, batch_size)
        sizes = [self._projection_size or self._hidden_size]
        if self._mode == "lstm":
            sizes.append(self._hidden_size)
        return [
            {"shape": first + (size,), "__layout__": "LNC", "dtype": self._dtype}
            for size in sizes
        ]

    def begin_state(self, batch_size=0, func=nd.zeros, **kwargs):
        """The states before the first step, made by `func` (zeros by default)."""
        states = []
        for i, info in enumerate(self.state_info(batch_size)):
            info.update(kwargs)
            if func is nd.zeros:
                info.pop("__layout__")
                states.append(func(**info))
            else:  # symbols keep the layout, for files
                states.append(func(name="%sh0_%d" % (self.prefix, i), **info))
        return states

    def cast(self, dtype):
        super().cast(dtype)
        self._dtype = dtype

    def __call__(self, inputs, states=None, sequence_length=None, **kwargs):
        self.skip_states = states is None
        if states is None and is_symbol(inputs):
            states = self.begin_state(0, func=module_of(inputs).zeros)
        elif states is None:
            states = self.begin_state(
                inputs.shape[self._layout.find("N")],
                ctx=inputs.context,
                dtype=inputs.dtype,
            )
        elif is_array(states):
            states = [states]
        if self._use_sequence_length:
            return super().__call__(inputs, states, sequence_length, **kwargs)
        return super().__call__(inputs, states, **kwargs)

    def _forward_deferred(self, ctx, x, args):
        for name, shape in self._parameter_shapes(x.shape[2]):
            param = self._reg_params[name]
            param.shape = shape
            param._finish_deferred_init()
        return self._forward_on(ctx, x, args)

    def hybrid_forward(self, F, inputs, states, sequence_length=None, **kwargs):
        if F is nd:
            batch_size = inputs.shape[self._layout.find("N")]
            for state, info in zip(states, self.state_info(batch_size)):
                if state.shape != info["shape"]:
                    raise ValueError(
                        "Invalid recurrent state shape. Expecting %s, got %s."
                        % (info["shape"], state.shape)
                    )
        run = self._fused if hasattr(F, "RNN") else self._unrolled
        out = run(F, inputs, list(states), sequence_length, kwargs)
        return out[0] if self.skip_states else out

    def _fused(self, F, inputs, states, sequence_length, params):
        """All steps by the operator RNN."""
        if self._layout == "NTC":
            inputs = F.swapaxes(inputs, 0, 1)
        # All weights, then all biases, each in the order of layers and sides.
        flat = [
            F.reshape(params["%s%d_%s_%s" % (side, layer, part, kind)], shape=-1)
            for kind in ("weight", "bias")
            for layer in range(self._num_layers)
            for side in "lr"[: self._dir]
            for part in ("i2h", "h2h", "h2r")
            if part != "h2r" or (self._projection_size and kind == "weight")
        ]
        if self._use_sequence_length:
            states = states + [sequence_length]
        low, high, nan = self._state_clip
        found = F.RNN(
            inputs,
            F._internal._rnn_param_concat(*flat, dim=0),
            *states,
            use_sequence_length=self._use_sequence_length,
            state_size=self._hidden_size,
            projection_size=self._projection_size,
            num_layers=self._num_layers,
            bidirectional=self._dir == 2,
            p=self._dropout,
            state_outputs=True,
            mode=self._mode,
            lstm_state_clip_min=low,
            lstm_state_clip_max=high,
            lstm_state_clip_nan=nan,
        )
        outputs = F.swapaxes(found[0], 0, 1) if self._layout == "NTC" else found[0]
        return outputs, list(found[1:])

    def _unrolled(self, F, inputs, states, sequence_length, params):
        """Step by step through cells, where the operator RNN does not exist yet."""
        time = self._layout.find("T")
        each = [
            F.split(s, axis=0, num_outputs=s.shape[0], squeeze_axis=True)
            if s.shape[0] > 1
            else [F.reshape(s, shape=(-3, 0))]
            for s in states
        ]
        begin = [state for cell in zip(*each) for state in cell]
        stack = self._unfuse()
        outputs, ends = stack.unroll(
            inputs.shape[time], inputs, begin, self._layout, True, sequence_length
        )
        return outputs, [
            F.stack(*ends[k :: len(states)], axis=0) for k in range(len(states))
        ]

    def _unfuse(self):
        """The layer as a stack of cells with the same parameters."""
        assert not self._projection_size, (
            "_unfuse does not support projection layer yet!"
        )
        assert not any(self._state_clip), "_unfuse does not support state clipping yet!"
        make = {
            "rnn_relu": lambda **k: rnn_cell.RNNCell(self._hidden_size, "relu", **k),
            "rnn_tanh": lambda **k: rnn_cell.RNNCell(self._hidden_size, "tanh", **k),
            "lstm": lambda **k: rnn_cell.LSTMCell(self._hidden_size, **k),
            "gru": lambda **k: rnn_cell.GRUCell(self._hidden_size, **k),
        }[self._mode]
        options = {
            key + "_initializer": init
            for key, init in self._initializers.items()
            if key != "h2r_weight"
        }
        stack = rnn_cell.HybridSequentialRNNCell(prefix=self.prefix, params=self.params)
        with stack.name_scope():
            width = self._input_size
            for layer in range(self._num_layers):
                cells = [
                    make(prefix="%s%d_" % (side, layer), input_size=width, **options)
                    for side in "lr"[: self._dir]
                ]
                stack.add(
                    cells[0] if self._dir == 1 else rnn_cell.BidirectionalCell(*cells)
                )
                if self._dropout > 0 and layer != self._num_layers - 1:
                    stack.add(rnn_cell.DropoutCell(self._dropout))
                width = self._hidden_size * self._dir
        return stack


def _initializers(i2h_weight, h2h_weight, i2h_bias, h2h_bias, h2r_weight=None):
    return {
        "i2h_weight": i2h_weight,
        "h2h_weight": h2h_weight,
        "i2h_bias": i2h_bias,
        "h2h_bias": h2h_bias,
        "h2r_weight": h2r_weight,
    }


class RNN(_RNNLayer):
    """Elman's network, with activation 'relu' or 'tanh'."""

    def __init__(
        self,
        hidden_size,
        num_layers=1,
        activation="relu",
        layout="TNC",
        dropout=0,
        bidirectional=False,
        i2h_weight_initializer=None,
        h2h_weight_initializer=None,
        i2h_bias_initializer="zeros",
        h2h_bias_initializer="zeros",
        input_size=0,
        dtype="float32",
        **kwargs,
    ):
        super().__init__(
            hidden_size,
            num_layers,
            layout,
            dropout,
            bidirectional,
            input_size,
            _initializers(
                i2h_weight_initializer,
                h2h_weight_initializer,
                i2h_bias_initializer,
                h2h_bias_initializer,
            ),
            "rnn_" + activation,
            dtype,
            **kwargs,
        )


class LSTM(_RNNLayer):
    """Long short-term memory; projection_size makes the output smaller than
    the memory.
    """

    def __init__(
        self,
        hidden_size,
        num_layers=1,
        layout="TNC",
        dropout=0,
        bidirectional=False,
        input_size=0,
        i2h_weight_initializer=None,
        h2h_weight_initializer=None,
        i2h_bias_initializer="zeros",
        h2h_bias_initializer="zeros",
        projection_size=None,
        h2r_weight_initializer=None,
        state_clip_min=None,
        state_clip_max=None,
        state_clip_nan=False,
        dtype="float32",
        **kwargs,
    ):
        super().__init__(
            hidden_size,
            num_layers,
            layout,
            dropout,
            bidirectional,
            input_size,
            _initializers(
                i2h_weight_initializer,
                h2h_weight_initializer,
                i2h_bias_initializer,
                h2h_bias_initializer,
                h2r_weight_initializer,
            ),
            "lstm",
            dtype,
            projection_size,
            (state_clip_min, state_clip_max, state_clip_nan),
            **kwargs,
        )


class GRU(_RNNLayer):
    """Gated recurrent units."""

    def __init__(
        self,
        hidden_size,
        num_layers=1,
        layout="TNC",
        dropout=0,
        bidirectional=False,
        input_size=0,
        i2h_weight_initializer=None,
        h2h_weight_initializer=None,
        i2h_bias_initializer="zeros",
        h2h_bias_initializer="zeros",
        dtype="float32",
        **kwargs,
    ):
        super().__init__(
            hidden_size,
            num_layers,
            layout,
            dropout,
            bidirectional,
            input_size,
            _initializers(
                i2h_weight_initializer,
                h2h_weight_initializer,
                i2h_bias_initializer,
                h2h_bias_initializer,
            ),
            "gru",
            dtype,
            **kwargs,
        )
