"""RNNParams and BaseRNNCell: weights shared over time, and unrolling."""

from .. import ndarray as nd
from .. import symbol
from ..error import MXNetTypeError, MXNetValueError, check


def normalize_sequence(length, inputs, layout, merge, in_layout=None):
    """(inputs, axis of time): one symbol (merge=True), a list with one for each step
    (merge=False), or as they came (merge=None).
    """
    check(inputs is not None, "unroll: inputs are missing; give a symbol or a list")
    axis = layout.find("T")
    in_axis = axis if in_layout is None else in_layout.find("T")
    check(axis >= 0 and in_axis >= 0, "unroll: layout %r has no T, for time", layout)
    if isinstance(inputs, symbol.Symbol):
        if merge is False:
            if len(inputs.list_outputs()) != 1:
                raise MXNetTypeError(
                    "unroll: inputs are a symbol with %d outputs; expected one, or a "
                    "list: list(inputs)" % len(inputs.list_outputs())
                )
            steps = symbol.split(
                inputs, axis=in_axis, num_outputs=length, squeeze_axis=1
            )
            inputs = list(steps) if length > 1 else [steps]
    else:
        if length is not None and len(inputs) != length:
            raise MXNetValueError(
                "unroll: got %d inputs; expected %d, the length" % (len(inputs), length)
            )
        if merge is True:
            steps = [symbol.expand_dims(step, axis=axis) for step in inputs]
            inputs = symbol.Concat(*steps, dim=axis)
            in_axis = axis
    if isinstance(inputs, symbol.Symbol) and axis != in_axis:
        inputs = symbol.swapaxes(inputs, dim1=axis, dim2=in_axis)
    return inputs, axis


class RNNParams:
    """Variables by name, with a prefix; cells that are given the same share weights."""

    def __init__(self, prefix=""):
        self._prefix = prefix
        self._params = {}

    def get(self, name, **kwargs):
        """The variable of that name; it is made when first asked for."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = symbol.Variable(name, **kwargs)
        return self._params[name]


class BaseRNNCell:
    """A step of a recurrent network: cell(inputs, states) gives (output, new states).

    Subclasses define state_info, and _gate_names where weights hold several gates.
    """

    def __init__(self, prefix="", params=None):
        self._own_params = params is None
        self._params = RNNParams(prefix) if params is None else params
        self._prefix = prefix
        self._modified = False  # a modifier cell is to be called instead
        self.reset()

    def reset(self):
        """Begins a new sequence: names of steps count from zero again."""
        self._init_counter = -1
        self._counter = -1
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    def __call__(self, inputs, states):
        raise NotImplementedError()

    def _next_name(self):
        """The prefix of the names of the next step's nodes."""
        self._counter += 1
        return "%st%d_" % (self._prefix, self._counter)

    @property
    def params(self):
        """The weights; once asked for they may be shared."""
        self._own_params = False
        return self._params

    @property
    def state_info(self):
        """A dict with shape (0 for the batch) and __layout__ for each state."""
        raise NotImplementedError()

    @property
    def state_shape(self):
        """The shape of each state."""
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self):
        """The endings of the gates' names, in the order in which weights hold them."""
        return ()

    def _check_unmodified(self):
        check(
            not self._modified,
            "%s: a modifier cell (such as DropoutCell or ZoneoutCell) was put around "
            "this cell; call that one",
            type(self).__name__,
        )

    def begin_state(self, func=symbol.zeros, **kwargs):
        """Symbols of the first states, by func(name=..., shape=..., ...)."""
        self._check_unmodified()
        states = []
        for info in self.state_info:
            self._init_counter += 1
            name = "%sbegin_state_%d" % (self._prefix, self._init_counter)
            states.append(func(name=name, **{**kwargs, **(info or {})}))
        return states

    # Weights of all gates in one array, or of each gate alone.

    def unpack_weights(self, args):
        """A copy of a dict of arrays, in which each gate's weights stand alone."""
        args = dict(args)
        hidden = getattr(self, "_num_hidden", None)
        for group in ("i2h", "h2h") if self._gate_names else ():
            for kind in ("weight", "bias"):
                whole = args.pop("%s%s_%s" % (self._prefix, group, kind))
                for k, gate in enumerate(self._gate_names):
                    name = "%s%s%s_%s" % (self._prefix, group, gate, kind)
                    args[name] = whole[k * hidden : (k + 1) * hidden].copy()
        return args

    def pack_weights(self, args):
        """The inverse of unpack_weights()."""
        args = dict(args)
        for group in ("i2h", "h2h") if self._gate_names else ():
            for kind in ("weight", "bias"):
                gates = [
                    args.pop("%s%s%s_%s" % (self._prefix, group, gate, kind))
                    for gate in self._gate_names
                ]
                name = "%s%s_%s" % (self._prefix, group, kind)
                args[name] = nd.concat(*gates, dim=0)
        return args

    def unroll(
        self, length, inputs, begin_state=None, layout="NTC", merge_outputs=None
    ):
        """(outputs, states) over `length` steps.

        inputs: a symbol with a time axis, or a list of one for each step. The outputs
        are one symbol (merge_outputs=True) or a list.
        """
        self.reset()
        inputs, _ = normalize_sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        outputs = []
        for step in inputs[:length]:
            output, states = self(step, states)
            outputs.append(output)
        outputs, _ = normalize_sequence(length, outputs, layout, merge_outputs)
        return outputs, states

    def _get_activation(self, inputs, activation, **kwargs):
        """An activation by name, or by a function of a symbol."""
        if isinstance(activation, str):
            return symbol.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)
