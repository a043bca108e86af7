"""Cells with dropout that is the same at every step, and an LSTM with a projection."""

from .... import ndarray as nd
from ....base import _as_list
from ....error import check
from ...rnn.rnn_cell import BidirectionalCell, HybridRecurrentCell, ModifierCell
from ...rnn.sequence import first_states, format_sequence, is_array, mask_steps

__all__ = ["VariationalDropoutCell", "LSTMPCell"]


class VariationalDropoutCell(ModifierCell):
    """Dropout of inputs, first state and outputs with one mask for the
    whole sequence.
    """

    def __init__(self, base_cell, drop_inputs=0.0, drop_states=0.0, drop_outputs=0.0):
        check(
            not drop_states or not isinstance(base_cell, BidirectionalCell),
            "BidirectionalCell doesn't support variational state dropout. Please add "
            "VariationalDropoutCell to the cells underneath instead.",
        )
        super().__init__(base_cell)
        self.drop_inputs = drop_inputs
        self.drop_states = drop_states
        self.drop_outputs = drop_outputs
        self._clear_masks()

    def _alias(self):
        return "vardrop"

    def _clear_masks(self):
        self.drop_inputs_mask = self.drop_states_mask = self.drop_outputs_mask = None

    def reset(self):
        super().reset()
        self._clear_masks()

    def _masked(self, F, name, x):
        """x times the sequence's mask, which is drawn at the first step."""
        rate = getattr(self, name)
        if not rate:
            return x
        mask = getattr(self, name + "_mask")
        if mask is None:
            mask = F.Dropout(F.ones_like(x), p=rate)
            setattr(self, name + "_mask", mask)
        return x * mask

    def hybrid_forward(self, F, inputs, states):
        if self.drop_states:
            states = [self._masked(F, "drop_states", states[0])] + list(states[1:])
        output, states = self.base_cell(self._masked(F, "drop_inputs", inputs), states)
        return self._masked(F, "drop_outputs", output), states

    def __repr__(self):
        return "%s(p_out = %s, p_state = %s)" % (
            type(self).__name__,
            self.drop_outputs,
            self.drop_states,
        )

    def unroll(
        self,
        length,
        inputs,
        begin_state=None,
        layout="NTC",
        merge_outputs=None,
        valid_length=None,
    ):
        if self.drop_states:
            return super().unroll(
                length, inputs, begin_state, layout, merge_outputs, valid_length
            )
        self.reset()
        inputs, axis, F, batch_size = format_sequence(length, inputs, layout, True)
        states = first_states(self, begin_state, inputs, batch_size)
        if self.drop_inputs:
            inputs = F.Dropout(inputs, p=self.drop_inputs, axes=(axis,))
        outputs, states = self.base_cell.unroll(
            length, inputs, states, layout, True, valid_length
        )
        if self.drop_outputs:
            outputs = F.Dropout(outputs, p=self.drop_outputs, axes=(axis,))
        merge = is_array(outputs) if merge_outputs is None else merge_outputs
        outputs, _, _, _ = format_sequence(length, outputs, layout, merge)
        if valid_length is not None:
            outputs = mask_steps(F, outputs, length, valid_length, axis, merge)
        return outputs, states


class LSTMPCell(HybridRecurrentCell):
    """An LSTM whose output is a projection of its hidden state."""

    def __init__(
        self,
        hidden_size,
        projection_size,
        i2h_weight_initializer=None,
        h2h_weight_initializer=None,
        h2r_weight_initializer=None,
        i2h_bias_initializer="zeros",
        h2h_bias_initializer="zeros",
        input_size=0,
        prefix=None,
        params=None,
    ):
        super().__init__(prefix=prefix, params=params)
        self._hidden_size = hidden_size
        self._input_size = input_size
        self._projection_size = projection_size
        rows = 4 * hidden_size
        for name, shape, init in (
            ("i2h_weight", (rows, input_size), i2h_weight_initializer),
            ("h2h_weight", (rows, projection_size), h2h_weight_initializer),
            ("h2r_weight", (projection_size, hidden_size), h2r_weight_initializer),
            ("i2h_bias", (rows,), i2h_bias_initializer),
            ("h2h_bias", (rows,), h2h_bias_initializer),
        ):
            setattr(
                self,
                name,
                self.params.get(name, shape=shape, init=init, allow_deferred_init=True),
            )

    def state_info(self, batch_size=0):
        return [
            {"shape": (batch_size, size), "__layout__": "NC"}
            for size in (self._projection_size, self._hidden_size)
        ]

    def _alias(self):
        return "lstmp"

    def __repr__(self):
        rows, width = self.i2h_weight.shape
        return "%s(%s -> %d -> %d)" % (
            type(self).__name__,
            width or None,
            rows,
            self.h2r_weight.shape[0],
        )

    def hybrid_forward(
        self, F, inputs, states, i2h_weight, h2h_weight, h2r_weight, i2h_bias, h2h_bias
    ):
        t = "t%d_" % self._counter
        rows = 4 * self._hidden_size
        i2h = F.FullyConnected(
            data=inputs,
            weight=i2h_weight,
            bias=i2h_bias,
            num_hidden=rows,
            name=t + "i2h",
        )
        h2h = F.FullyConnected(
            data=states[0],
            weight=h2h_weight,
            bias=h2h_bias,
            num_hidden=rows,
            name=t + "h2h",
        )
        i, f, c, o = F.SliceChannel(i2h + h2h, num_outputs=4, name=t + "slice")
        memory = F.elemwise_add(
            F.sigmoid(f, name=t + "f") * states[1],
            F.sigmoid(i, name=t + "i") * F.tanh(c, name=t + "c"),
            name=t + "state",
        )
        hidden = F.elemwise_mul(
            F.sigmoid(o, name=t + "o"), F.tanh(memory), name=t + "hidden"
        )
        shown = F.FullyConnected(
            data=hidden,
            weight=h2r_weight,
            no_bias=True,
            num_hidden=self._projection_size,
            name=t + "out",
        )
        return shown, [shown, memory]


def dynamic_unroll(
    cell,
    inputs,
    begin_state,
    drop_inputs=0,
    drop_outputs=0,
    layout="TNC",
    valid_length=None,
):
    """Unrolls a cell over a sequence of any length, step by step."""
    axis = layout.find("T")
    F = nd
    if drop_inputs:
        inputs = F.Dropout(inputs, p=drop_inputs, axes=(axis,))
    steps = _as_list(
        F.split(inputs, axis=axis, num_outputs=inputs.shape[axis], squeeze_axis=True)
    )
    states = list(_as_list(begin_state))
    outputs = []
    for number, step in enumerate(steps):
        output, new_states = cell(step, states)
        if valid_length is not None:  # samples that have ended keep their states
            going = valid_length > number
            new_states = [
                F.where(going, new, old) for new, old in zip(new_states, states)
            ]
        states = new_states
        outputs.append(output)
    outputs = F.stack(*outputs, axis=axis)
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(axis,))
    if valid_length is not None:
        outputs = F.SequenceMask(
            outputs, sequence_length=valid_length, use_sequence_length=True, axis=axis
        )
    return outputs, states
