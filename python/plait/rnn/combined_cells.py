"""SequentialRNNCell and BidirectionalCell: cells made of cells."""

from .. import symbol
from ..error import CheckError, MXNetNotImplementedError, check
from .base_cell import BaseRNNCell, normalize_sequence


class _CombinedCell(BaseRNNCell):
    """A cell with the states and weights of its cells."""

    def __init__(self, params):
        super().__init__(prefix="", params=params)
        self._override_cell_params = params is not None
        self._cells = []

    def _adopt(self, cell):
        """Takes a cell's weights over, or gives it those given to this one."""
        self._cells.append(cell)
        if self._override_cell_params:
            check(
                cell._own_params,
                "%s: params were given to this cell and to a cell in it; give them to "
                "one",
                type(self).__name__,
            )
            cell.params._params.update(self.params._params)
        self.params._params.update(cell.params._params)

    @property
    def state_info(self):
        return [info for cell in self._cells for info in cell.state_info]

    def begin_state(self, **kwargs):
        self._check_unmodified()
        return [s for cell in self._cells for s in cell.begin_state(**kwargs)]

    def unpack_weights(self, args):
        for cell in self._cells:
            args = cell.unpack_weights(args)
        return args

    def pack_weights(self, args):
        for cell in self._cells:
            args = cell.pack_weights(args)
        return args

    def _split(self, states):
        """The states of each cell."""
        parts, begin = [], 0
        for cell in self._cells:
            count = len(cell.state_info)
            parts.append(states[begin : begin + count])
            begin += count
        return parts


class SequentialRNNCell(_CombinedCell):
    """Cells one on top of the other."""

    def __init__(self, params=None):
        super().__init__(params)

    def add(self, cell):
        """Puts a cell on top."""
        self._adopt(cell)

    def __call__(self, inputs, states):
        self._counter += 1
        new_states = []
        for cell, state in zip(self._cells, self._split(states)):
            if isinstance(cell, BidirectionalCell):
                raise CheckError(
                    "SequentialRNNCell: a BidirectionalCell cannot make a single step; "
                    "use unroll()"
                )
            inputs, state = cell(inputs, state)
            new_states += state
        return inputs, new_states

    def unroll(
        self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None
    ):
        self.reset()
        states = self.begin_state() if begin_state is None else begin_state
        new_states = []
        for cell, state in zip(self._cells, self._split(states)):
            merge = merge_outputs if cell is self._cells[-1] else None
            inputs, state = cell.unroll(length, inputs, state, layout, merge)
            new_states += state
        return inputs, new_states


class BidirectionalCell(_CombinedCell):
    """One cell over the sequence, one over it reversed; outputs side by side."""

    def __init__(self, l_cell, r_cell, params=None, output_prefix="bi_"):
        super().__init__(params)
        self._output_prefix = output_prefix
        self._adopt(l_cell)
        self._adopt(r_cell)

    def __call__(self, inputs, states):
        raise MXNetNotImplementedError(
            "BidirectionalCell: it cannot make a single step; use unroll()"
        )

    def unroll(
        self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None
    ):
        self.reset()
        inputs, axis = normalize_sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        sequences = inputs, list(reversed(inputs))
        (left, l_states), (right, r_states) = [
            cell.unroll(length, sequence, state, layout, merge_outputs)
            for cell, sequence, state in zip(
                self._cells, sequences, self._split(states)
            )
        ]
        if merge_outputs is None:
            merge_outputs = all(isinstance(x, symbol.Symbol) for x in (left, right))
        left, _ = normalize_sequence(length, left, layout, merge_outputs)
        right, _ = normalize_sequence(length, right, layout, merge_outputs)
        if merge_outputs:
            right = symbol.reverse(right, axis=axis)
            outputs = symbol.Concat(
                left, right, dim=2, name="%sout" % self._output_prefix
            )
        else:
            outputs = [
                symbol.Concat(x, y, dim=1, name="%st%d" % (self._output_prefix, i))
                for i, (x, y) in enumerate(zip(left, reversed(right)))
            ]
        return outputs, [l_states, r_states]
