"""Recurrent cells: they map (input, states) of one step to (output, new states)."""

from ... import ndarray as nd
from ...error import check
from ..block import Block, HybridBlock
from ..nn import LeakyReLU
from .sequence import first_states, format_sequence, mask_steps

__all__ = [
    "RecurrentCell",
    "HybridRecurrentCell",
    "RNNCell",
    "LSTMCell",
    "GRUCell",
    "SequentialRNNCell",
    "HybridSequentialRNNCell",
    "DropoutCell",
    "ModifierCell",
    "ZoneoutCell",
    "ResidualCell",
    "BidirectionalCell",
]

# Under the names that MXNet's own extensions use.
_format_sequence = format_sequence
_mask_sequence_variable_length = mask_steps


def _get_begin_state(cell, F, begin_state, inputs, batch_size):
    return first_states(cell, begin_state, inputs, batch_size)


def _cells_state_info(cells, batch_size):
    return [info for cell in cells for info in cell.state_info(batch_size)]


def _cells_begin_state(cells, **kwargs):
    return [state for cell in cells for state in cell.begin_state(**kwargs)]


class RecurrentCell(Block):
    """Base of all cells."""

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def reset(self):
        """Forgets the step counters before a new sequence."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._children.values():
            cell.reset()

    def state_info(self, batch_size=0):
        """A list of dicts with the shape and layout of each state."""
        raise NotImplementedError(
            "%s: state_info() is not implemented" % type(self).__name__
        )

    def _check_not_modified(self):
        check(
            not self._modified,
            "After applying modifier cells (e.g. ZoneoutCell) the base "
            "cell cannot be called directly. Call the modifier cell instead.",
        )

    def begin_state(self, batch_size=0, func=nd.zeros, **kwargs):
        """The states before the first step, made by `func` (zeros by default)."""
        self._check_not_modified()
        states = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            options = dict(info or {}, **kwargs)
            options.pop("__layout__", None)
            states.append(
                func(
                    name="%sbegin_state_%d" % (self._prefix, self._init_counter),
                    **options,
                )
                if func is not nd.zeros
                else func(**{"dtype": "float32", **options})
            )
        return states

    def unroll(
        self,
        length,
        inputs,
        begin_state=None,
        layout="NTC",
        merge_outputs=None,
        valid_length=None,
    ):
        """Runs `length` steps; gives (outputs, states after the last one).

        inputs: an array by `layout`, or a list of steps. merge_outputs: one array
        (True), a list (False), or as it is cheapest. valid_length: the steps of each
        sample; outputs after them are 0 and states are those after the last valid step.
        """
        self.reset()
        inputs, axis, F, batch_size = format_sequence(length, inputs, layout, False)
        states = first_states(self, begin_state, inputs, batch_size)
        outputs, history = [], []
        for i in range(length):
            output, states = self(inputs[i], states)
            outputs.append(output)
            history.append(states)
        if valid_length is not None:
            states = [
                F.SequenceLast(
                    F.stack(*each, axis=0),
                    sequence_length=valid_length,
                    use_sequence_length=True,
                    axis=0,
                )
                for each in zip(*history)
            ]
            outputs = mask_steps(F, outputs, length, valid_length, axis, True)
        outputs, _, _, _ = format_sequence(length, outputs, layout, merge_outputs)
        return outputs, states

    def _get_activation(self, F, inputs, activation, **kwargs):
        """An activation given by name, as a LeakyReLU layer, or as a function."""
        if activation in ("tanh", "relu", "sigmoid", "softsign"):
            return getattr(F, activation)(inputs, **kwargs)
        if isinstance(activation, str):
            return F.Activation(inputs, act_type=activation, **kwargs)
        if isinstance(activation, LeakyReLU):
            return F.LeakyReLU(
                inputs, act_type="leaky", slope=activation._alpha, **kwargs
            )
        return activation(inputs, **kwargs)

    def forward(self, inputs, states):
        self._counter += 1
        return super().forward(inputs, states)


class HybridRecurrentCell(RecurrentCell, HybridBlock):
    """Base of cells with hybrid_forward."""

    def hybrid_forward(self, F, x, *args, **kwargs):
        raise NotImplementedError


class _GatedCell(HybridRecurrentCell):
    """Cells with one weight for the input, one for the state, for `gates` gates at
    once.
    """

    _gates = 1

    def __init__(
        self,
        hidden_size,
        i2h_weight_initializer,
        h2h_weight_initializer,
        i2h_bias_initializer,
        h2h_bias_initializer,
        input_size,
        prefix,
        params,
    ):
        super().__init__(prefix=prefix, params=params)
        self._hidden_size = hidden_size
        self._input_size = input_size
        rows = self._gates * hidden_size
        for name, shape, init in (
            ("i2h_weight", (rows, input_size), i2h_weight_initializer),
            ("h2h_weight", (rows, hidden_size), h2h_weight_initializer),
            ("i2h_bias", (rows,), i2h_bias_initializer),
            ("h2h_bias", (rows,), h2h_bias_initializer),
        ):
            setattr(
                self,
                name,
                self.params.get(name, shape=shape, init=init, allow_deferred_init=True),
            )

    def state_info(self, batch_size=0):
        return [{"shape": (batch_size, self._hidden_size), "__layout__": "NC"}]

    def _products(
        self, F, inputs, state, i2h_weight, h2h_weight, i2h_bias, h2h_bias, t
    ):
        rows = self._gates * self._hidden_size
        i2h = F.FullyConnected(
            data=inputs,
            weight=i2h_weight,
            bias=i2h_bias,
            num_hidden=rows,
            name=t + "i2h",
        )
        h2h = F.FullyConnected(
            data=state,
            weight=h2h_weight,
            bias=h2h_bias,
            num_hidden=rows,
            name=t + "h2h",
        )
        return i2h, h2h

    def __repr__(self):
        rows, width = self.i2h_weight.shape
        return "%s(%s -> %d)" % (type(self).__name__, width or None, rows)


class RNNCell(_GatedCell):
    """h' = activation(W x + b + U h + c)."""

    def __init__(
        self,
        hidden_size,
        activation="tanh",
        i2h_weight_initializer=None,
        h2h_weight_initializer=None,
        i2h_bias_initializer="zeros",
        h2h_bias_initializer="zeros",
        input_size=0,
        prefix=None,
        params=None,
    ):
        super().__init__(
            hidden_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            input_size,
            prefix,
            params,
        )
        self._activation = activation

    def _alias(self):
        return "rnn"

    def __repr__(self):
        return super().__repr__()[:-1] + ", %s)" % self._activation

    def hybrid_forward(
        self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias
    ):
        t = "t%d_" % self._counter
        i2h, h2h = self._products(
            F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias, t
        )
        total = F.elemwise_add(i2h, h2h, name=t + "plus0")
        output = self._get_activation(F, total, self._activation, name=t + "out")
        return output, [output]


class LSTMCell(_GatedCell):
    """Long short-term memory; gates in the order input, forget, transform, output."""

    _gates = 4

    def __init__(
        self,
        hidden_size,
        i2h_weight_initializer=None,
        h2h_weight_initializer=None,
        i2h_bias_initializer="zeros",
        h2h_bias_initializer="zeros",
        input_size=0,
        prefix=None,
        params=None,
        activation="tanh",
        recurrent_activation="sigmoid",
    ):
        super().__init__(
            hidden_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            input_size,
            prefix,
            params,
        )
        self._activation = activation
        self._recurrent_activation = recurrent_activation

    def state_info(self, batch_size=0):
        return super().state_info(batch_size) * 2

    def _alias(self):
        return "lstm"

    def hybrid_forward(
        self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias
    ):
        t = "t%d_" % self._counter
        i2h, h2h = self._products(
            F, inputs, states[0], i2h_weight, h2h_weight, i2h_bias, h2h_bias, t
        )
        gates = F.elemwise_add(i2h, h2h, name=t + "plus0")
        i, f, c, o = F.SliceChannel(gates, num_outputs=4, name=t + "slice")
        i = self._get_activation(F, i, self._recurrent_activation, name=t + "i")
        f = self._get_activation(F, f, self._recurrent_activation, name=t + "f")
        c = self._get_activation(F, c, self._activation, name=t + "c")
        o = self._get_activation(F, o, self._recurrent_activation, name=t + "o")
        memory = F.elemwise_add(
            F.elemwise_mul(f, states[1], name=t + "mul0"),
            F.elemwise_mul(i, c, name=t + "mul1"),
            name=t + "state",
        )
        shown = self._get_activation(
            F, memory, self._activation, name=t + "activation0"
        )
        hidden = F.elemwise_mul(o, shown, name=t + "out")
        return hidden, [hidden, memory]


class GRUCell(_GatedCell):
    """Gated recurrent unit; gates in the order reset, update, new."""

    _gates = 3

    def __init__(
        self,
        hidden_size,
        i2h_weight_initializer=None,
        h2h_weight_initializer=None,
        i2h_bias_initializer="zeros",
        h2h_bias_initializer="zeros",
        input_size=0,
        prefix=None,
        params=None,
    ):
        super().__init__(
            hidden_size,
            i2h_weight_initializer,
            h2h_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
            input_size,
            prefix,
            params,
        )

    def _alias(self):
        return "gru"

    def hybrid_forward(
        self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias
    ):
        t = "t%d_" % self._counter
        old = states[0]
        i2h, h2h = self._products(
            F, inputs, old, i2h_weight, h2h_weight, i2h_bias, h2h_bias, t
        )
        i2h_r, i2h_z, i2h_n = F.SliceChannel(i2h, num_outputs=3, name=t + "i2h_slice")
        h2h_r, h2h_z, h2h_n = F.SliceChannel(h2h, num_outputs=3, name=t + "h2h_slice")
        r = F.sigmoid(F.elemwise_add(i2h_r, h2h_r, name=t + "plus0"), name=t + "r_act")
        z = F.sigmoid(F.elemwise_add(i2h_z, h2h_z, name=t + "plus1"), name=t + "z_act")
        kept = F.elemwise_mul(r, h2h_n, name=t + "mul0")
        n = F.tanh(F.elemwise_add(i2h_n, kept, name=t + "plus2"), name=t + "h_act")
        ones = F.ones_like(z, name=t + "ones_like0")
        hidden = F.elemwise_add(
            F.elemwise_mul(
                F.elemwise_sub(ones, z, name=t + "minus0"), n, name=t + "mul1"
            ),
            F.elemwise_mul(z, old, name=t + "mul20"),
            name=t + "out",
        )
        return hidden, [hidden]


class _CellStack:
    """What both sequential cells share: each child's output is the next one's input."""

    def add(self, cell):
        """Puts a cell at the end."""
        self.register_child(cell)

    def __repr__(self):
        from ..utils import _indent

        return "%s(\n%s\n)" % (
            type(self).__name__,
            "\n".join(
                "(%s): %s" % (name, _indent(repr(cell), 2))
                for name, cell in self._children.items()
            ),
        )

    def state_info(self, batch_size=0):
        return _cells_state_info(self._children.values(), batch_size)

    def begin_state(self, batch_size=0, **kwargs):
        self._check_not_modified()
        return _cells_begin_state(
            self._children.values(), batch_size=batch_size, **kwargs
        )

    def _with_states(self, states):
        """(cell, its part of the states) of each child."""
        begin = 0
        for cell in self._children.values():
            count = len(cell.state_info())
            yield cell, states[begin : begin + count]
            begin += count

    def __call__(self, inputs, states):
        self._counter += 1
        new_states = []
        for cell, state in self._with_states(states):
            assert not isinstance(cell, BidirectionalCell), (
                "a BidirectionalCell cannot be stepped; use unroll"
            )
            inputs, state = cell(inputs, state)
            new_states += state
        return inputs, new_states

    def unroll(
        self,
        length,
        inputs,
        begin_state=None,
        layout="NTC",
        merge_outputs=None,
        valid_length=None,
    ):
        self.reset()
        inputs, _, _, batch_size = format_sequence(length, inputs, layout, None)
        states = first_states(self, begin_state, inputs, batch_size)
        last = len(self._children) - 1
        new_states = []
        for i, (cell, state) in enumerate(self._with_states(states)):
            inputs, state = cell.unroll(
                length,
                inputs,
                state,
                layout,
                merge_outputs if i == last else None,
                valid_length,
            )
            new_states += state
        return inputs, new_states

    def __getitem__(self, i):
        return self._children[str(i)]

    def __len__(self):
        return len(self._children)


class SequentialRNNCell(_CellStack, RecurrentCell):
    """Cells on top of each other."""

    def hybrid_forward(self, *args, **kwargs):
        raise NotImplementedError


class HybridSequentialRNNCell(_CellStack, HybridRecurrentCell):
    """Hybrid cells on top of each other."""

    def hybrid_forward(self, F, inputs, states):
        return self.__call__(inputs, states)


from .rnn_modifier import (  # noqa: E402  (it needs the classes above)
    BidirectionalCell,
    DropoutCell,
    ModifierCell,
    ResidualCell,
    ZoneoutCell,
)
