"""DropoutCell, and cells put around others: ZoneoutCell, ResidualCell."""

from .. import symbol
from ..error import MXNetTypeError, check
from .base_cell import BaseRNNCell, normalize_sequence


class DropoutCell(BaseRNNCell):
    """Drops a share of its inputs; it has no state."""

    def __init__(self, dropout, prefix="dropout_", params=None):
        super().__init__(prefix, params)
        if not isinstance(dropout, (int, float)):
            raise MXNetTypeError(
                "DropoutCell: dropout is %r; expected a number" % (dropout,)
            )
        self.dropout = dropout

    @property
    def state_info(self):
        return []

    def __call__(self, inputs, states):
        if self.dropout > 0:
            inputs = symbol.Dropout(data=inputs, p=self.dropout)
        return inputs, states

    def unroll(
        self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None
    ):
        self.reset()
        inputs, _ = normalize_sequence(length, inputs, layout, merge_outputs)
        if isinstance(inputs, symbol.Symbol):
            return self(inputs, [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs)


class ModifierCell(BaseRNNCell):
    """Base of cells around another, whose weights and states they have."""

    def __init__(self, base_cell):
        super().__init__()
        base_cell._modified = True
        self.base_cell = base_cell

    @property
    def params(self):
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self):
        return self.base_cell.state_info

    def begin_state(self, init_sym=symbol.zeros, **kwargs):
        self._check_unmodified()
        return self._unmodified("begin_state", func=init_sym, **kwargs)

    def _unmodified(self, method, *args, **kwargs):
        """Calls a method of the cell that refuses to be called from elsewhere."""
        self.base_cell._modified = False
        try:
            return getattr(self.base_cell, method)(*args, **kwargs)
        finally:
            self.base_cell._modified = True

    def reset(self):
        super().reset()
        if hasattr(self, "base_cell"):
            self.base_cell.reset()

    def unpack_weights(self, args):
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args):
        return self.base_cell.pack_weights(args)


class ZoneoutCell(ModifierCell):
    """Keeps the last output and states in a random share of their values."""

    def __init__(self, base_cell, zoneout_outputs=0.0, zoneout_states=0.0):
        for kind in ("FusedRNNCell", "BidirectionalCell"):
            check(
                type(base_cell).__name__ != kind,
                "ZoneoutCell: a %s makes no single steps; unfuse it, or put the "
                "ZoneoutCell around the cells in it",
                kind,
            )
        super().__init__(base_cell)
        self.zoneout_outputs = zoneout_outputs
        self.zoneout_states = zoneout_states
        self.prev_output = None

    def reset(self):
        super().reset()
        self.prev_output = None

    def __call__(self, inputs, states):
        output, new_states = self.base_cell(inputs, states)

        def mixed(share, new, old):
            if share == 0.0:
                return new
            mask = symbol.Dropout(symbol.ones_like(new), p=share)
            return symbol.where(mask, new, old)

        previous = self.prev_output
        if previous is None:
            previous = symbol.zeros_like(output)
        output = mixed(self.zoneout_outputs, output, previous)
        new_states = [
            mixed(self.zoneout_states, new, old) for new, old in zip(new_states, states)
        ]
        self.prev_output = output
        return output, new_states


class ResidualCell(ModifierCell):
    """Adds the inputs to the outputs."""

    def __call__(self, inputs, states):
        output, states = self.base_cell(inputs, states)
        return _add(output, inputs), states

    def unroll(
        self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None
    ):
        self.reset()
        outputs, states = self._unmodified(
            "unroll", length, inputs, begin_state, layout, merge_outputs
        )
        merge = isinstance(outputs, symbol.Symbol)
        inputs, _ = normalize_sequence(length, inputs, layout, merge)
        if merge:
            return _add(outputs, inputs), states
        return [_add(x, y) for x, y in zip(outputs, inputs)], states


def _add(output, inputs):
    name = "%s_plus_residual" % output.name
    return symbol.elemwise_add(output, inputs, name=name)
