"""FusedRNNCell: several layers over a whole sequence as one RNN operator."""

import warnings

from .. import initializer, symbol
from .. import ndarray as nd
from ..error import MXNetNotImplementedError, MXNetValueError, check
from .base_cell import BaseRNNCell, normalize_sequence
from .cells import GRUCell, LSTMCell, RNNCell
from .combined_cells import BidirectionalCell, SequentialRNNCell
from .modifier_cells import DropoutCell

_GATES = {
    "rnn_relu": [""],
    "rnn_tanh": [""],
    "lstm": ["_i", "_f", "_c", "_o"],
    "gru": ["_r", "_z", "_o"],
}


class FusedRNNCell(BaseRNNCell):
    """num_layers layers of kind `mode` (rnn_relu, rnn_tanh, lstm, gru) with all weights
    in one parameter; only unroll() runs it.
    """

    def __init__(
        self,
        num_hidden,
        num_layers=1,
        mode="lstm",
        bidirectional=False,
        dropout=0.0,
        get_next_state=False,
        forget_bias=1.0,
        prefix=None,
        params=None,
    ):
        if mode not in _GATES:
            raise MXNetValueError(
                "FusedRNNCell: unknown mode %r; expected one of %s"
                % (mode, ", ".join(_GATES))
            )
        super().__init__("%s_" % mode if prefix is None else prefix, params)
        self._num_hidden = num_hidden
        self._num_layers = num_layers
        self._mode = mode
        self._bidirectional = bidirectional
        self._dropout = dropout
        self._get_next_state = get_next_state
        self._directions = ["l", "r"] if bidirectional else ["l"]
        init = initializer.FusedRNN(
            None, num_hidden, num_layers, mode, bidirectional, forget_bias
        )
        self._parameter = self.params.get("parameters", init=init)

    @property
    def state_info(self):
        layers = self._num_layers * len(self._directions)
        info = {"shape": (layers, 0, self._num_hidden), "__layout__": "LNC"}
        return [dict(info) for _ in range(2 if self._mode == "lstm" else 1)]

    @property
    def _gate_names(self):
        return _GATES[self._mode]

    # The one parameter, and the weights in it.

    def _pieces(self, width):
        """(name, offset, shape) of each gate's weights, then of each gate's biases, for
        inputs of `width` values.
        """
        hidden, begin = self._num_hidden, 0
        for kind in ("weight", "bias"):
            for layer in range(self._num_layers):
                columns = width if layer == 0 else len(self._directions) * hidden
                for side in self._directions:
                    for group, n in (("i2h", columns), ("h2h", hidden)):
                        for gate in self._gate_names:
                            shape = (hidden, n) if kind == "weight" else (hidden,)
                            name = "%s%s%d_%s%s_%s" % (
                                self._prefix, side, layer, group, gate, kind,
                            )  # fmt: skip
                            yield name, begin, shape
                            begin += hidden * n if kind == "weight" else hidden

    def _size(self, width):
        _, begin, shape = list(self._pieces(width))[-1]
        return begin + shape[0]

    def unpack_weights(self, args):
        args = dict(args)
        whole = args.pop(self._parameter.name)
        rows = self._num_hidden * len(self._directions) * len(self._gate_names)
        width = (whole.size - self._size(0)) // rows
        if width < 1 or self._size(width) != whole.size:
            raise MXNetValueError(
                "FusedRNNCell: %s has %d values, which fit no input of %d layers with "
                "%d hidden units"
                % (
                    self._parameter.name,
                    whole.size,
                    self._num_layers,
                    self._num_hidden,
                )
            )
        for name, begin, shape in self._pieces(width):
            size = shape[0] * (shape[1] if len(shape) > 1 else 1)
            args[name] = whole[begin : begin + size].reshape(shape).copy()
        return args

    def pack_weights(self, args):
        args = dict(args)
        first = "%sl0_i2h%s_weight" % (self._prefix, self._gate_names[0])
        pieces = [args.pop(name) for name, _, _ in self._pieces(args[first].shape[1])]
        args[self._parameter.name] = nd.concat(
            *[piece.reshape((-1,)) for piece in pieces], dim=0
        )
        return args

    def __call__(self, inputs, states):
        raise MXNetNotImplementedError(
            "FusedRNNCell: it cannot make a single step; use unroll(), or unfuse()"
        )

    def unroll(
        self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None
    ):
        self.reset()
        inputs, axis = normalize_sequence(length, inputs, layout, True)
        check(axis in (0, 1), "FusedRNNCell: unsupported layout %r", layout)
        if axis == 1:
            warnings.warn(
                "FusedRNNCell: layout NTC is swapped to TNC and back; TNC is faster",
                stacklevel=2,
            )
            inputs = symbol.swapaxes(inputs, dim1=0, dim2=1)
        states = self.begin_state() if begin_state is None else begin_state
        result = symbol.RNN(
            data=inputs,
            parameters=self._parameter,
            state_size=self._num_hidden,
            num_layers=self._num_layers,
            bidirectional=self._bidirectional,
            p=self._dropout,
            state_outputs=self._get_next_state,
            mode=self._mode,
            name=self._prefix + "rnn",
            **dict(zip(("state", "state_cell"), states)),
        )
        states = []
        if self._get_next_state:
            result, *states = list(result)
            for state in states:
                state._set_attr(__layout__="LNC")
        if axis == 1:
            result = symbol.swapaxes(result, dim1=0, dim2=1)
        outputs, _ = normalize_sequence(length, result, layout, merge_outputs)
        return outputs, states

    def unfuse(self):
        """A SequentialRNNCell of single cells with the same weights, unpacked."""

        def cell(side, layer):
            prefix = "%s%s%d_" % (self._prefix, side, layer)
            if self._mode == "lstm":
                return LSTMCell(self._num_hidden, prefix=prefix)
            if self._mode == "gru":
                return GRUCell(self._num_hidden, prefix=prefix)
            return RNNCell(self._num_hidden, self._mode[len("rnn_") :], prefix=prefix)

        stack = SequentialRNNCell()
        for i in range(self._num_layers):
            if self._bidirectional:
                name = "%sbi_l%d_" % (self._prefix, i)
                pair = cell("l", i), cell("r", i)
                stack.add(BidirectionalCell(*pair, output_prefix=name))
            else:
                stack.add(cell("l", i))
            if self._dropout > 0 and i != self._num_layers - 1:
                name = "%s_dropout%d_" % (self._prefix, i)
                stack.add(DropoutCell(self._dropout, prefix=name))
        return stack
