"""Cells that change what other cells do: dropout, zoneout, residual, both
directions.
"""

from ... import ndarray as nd
from ...base import numeric_types
from ...error import check
from .rnn_cell import HybridRecurrentCell, _cells_begin_state, _cells_state_info
from .sequence import first_states, format_sequence, is_array, mask_steps, reverse_steps


class DropoutCell(HybridRecurrentCell):
    """Dropout on the input of a step; it has no state."""

    def __init__(self, rate, axes=(), prefix=None, params=None):
        super().__init__(prefix, params)
        assert isinstance(rate, numeric_types), "rate must be a number"
        self._rate = rate
        self._axes = axes

    def __repr__(self):
        return "%s(rate=%s, axes=%s)" % (type(self).__name__, self._rate, self._axes)

    def state_info(self, batch_size=0):
        return []

    def _alias(self):
        return "dropout"

    def hybrid_forward(self, F, inputs, states):
        if self._rate > 0:
            inputs = F.Dropout(
                data=inputs,
                p=self._rate,
                axes=self._axes,
                name="t%d_fwd" % self._counter,
            )
        return inputs, states

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
        inputs, _, F, _ = format_sequence(length, inputs, layout, merge_outputs)
        if is_array(inputs):  # the whole sequence at once
            return self.hybrid_forward(F, inputs, begin_state or [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)


class ModifierCell(HybridRecurrentCell):
    """Base of cells around another one, whose parameters they show as their own."""

    def __init__(self, base_cell):
        check(
            not base_cell._modified,
            "Cell %s is already modified. One cell cannot be modified twice",
            base_cell.name,
        )
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell

    @property
    def params(self):
        """The base cell's parameters."""
        return self.base_cell.params

    def state_info(self, batch_size=0):
        return self.base_cell.state_info(batch_size)

    def _unmodified(self, function, *args, **kwargs):
        """Calls a method of the base cell, which refuses others' calls."""
        self.base_cell._modified = False
        try:
            return function(*args, **kwargs)
        finally:
            self.base_cell._modified = True

    def begin_state(self, batch_size=0, func=nd.zeros, **kwargs):
        self._check_not_modified()
        return self._unmodified(
            self.base_cell.begin_state, batch_size=batch_size, func=func, **kwargs
        )

    def hybrid_forward(self, F, inputs, states):
        raise NotImplementedError

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, self.base_cell)


class ZoneoutCell(ModifierCell):
    """Keeps outputs and states of the step before, each element with some
    probability.
    """

    def __init__(self, base_cell, zoneout_outputs=0.0, zoneout_states=0.0):
        check(
            not isinstance(base_cell, BidirectionalCell),
            "BidirectionalCell doesn't support "
            "zoneout since it doesn't support step. Please add ZoneoutCell to the "
            "cells "
            "underneath instead.",
        )
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states
        self._prev_output = None

    def __repr__(self):
        return "%s(p_out=%s, p_state=%s, %s)" % (
            type(self).__name__,
            self.zoneout_outputs,
            self.zoneout_states,
            self.base_cell,
        )

    def _alias(self):
        return "zoneout"

    def reset(self):
        super().reset()
        self._prev_output = None

    def hybrid_forward(self, F, inputs, states):
        output, new_states = self.base_cell(inputs, states)

        def mixed(p, new, old):
            return F.where(F.Dropout(F.ones_like(new), p=p), new, old) if p else new

        old = self._prev_output
        if old is None:
            old = F.zeros_like(output)
        output = mixed(self.zoneout_outputs, output, old)
        new_states = [
            mixed(self.zoneout_states, new, old) for new, old in zip(new_states, states)
        ]
        self._prev_output = output
        return output, new_states


class ResidualCell(ModifierCell):
    """Adds the input to the output."""

    def hybrid_forward(self, F, inputs, states):
        output, states = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name="t%d_fwd" % self._counter), states

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
        outputs, states = self._unmodified(
            self.base_cell.unroll,
            length,
            inputs,
            begin_state,
            layout,
            merge_outputs,
            valid_length,
        )
        merge = is_array(outputs) if merge_outputs is None else merge_outputs
        inputs, axis, F, _ = format_sequence(length, inputs, layout, merge)
        if valid_length is not None:
            inputs = mask_steps(F, inputs, length, valid_length, axis, merge)
        if merge:
            return F.elemwise_add(outputs, inputs), states
        return [F.elemwise_add(i, j) for i, j in zip(outputs, inputs)], states


class BidirectionalCell(HybridRecurrentCell):
    """Two cells over a sequence, one from each end; outputs are joined."""

    def __init__(self, l_cell, r_cell, output_prefix="bi_"):
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __call__(self, inputs, states):
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def __repr__(self):
        return "%s(forward=%s, backward=%s)" % (
            type(self).__name__,
            self._children["l_cell"],
            self._children["r_cell"],
        )

    def state_info(self, batch_size=0):
        return _cells_state_info(self._children.values(), batch_size)

    def begin_state(self, batch_size=0, **kwargs):
        self._check_not_modified()
        return _cells_begin_state(
            self._children.values(), batch_size=batch_size, **kwargs
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
        self.reset()
        inputs, axis, F, batch_size = format_sequence(length, inputs, layout, False)
        backwards = reverse_steps(inputs, length, valid_length)
        states = first_states(self, begin_state, inputs, batch_size)
        l_cell, r_cell = self._children.values()
        split = len(l_cell.state_info(batch_size))
        left, l_states = l_cell.unroll(
            length, inputs, states[:split], layout, merge_outputs, valid_length
        )
        right, r_states = r_cell.unroll(
            length, backwards, states[split:], layout, False, valid_length
        )
        right = reverse_steps(right, length, valid_length)
        merge = is_array(left) if merge_outputs is None else merge_outputs
        if merge:
            outputs = F.concat(
                left,
                F.stack(*right, axis=axis),
                dim=2,
                name="%sout" % self._output_prefix,
            )
        else:
            outputs = [
                F.concat(a, b, dim=1, name="%st%d" % (self._output_prefix, i))
                for i, (a, b) in enumerate(zip(left, right))
            ]
        if valid_length is not None:
            outputs = mask_steps(F, outputs, length, valid_length, axis, merge)
        return outputs, l_states + r_states
