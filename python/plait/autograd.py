"""Recording of imperative calls, and gradients through what was recorded."""

from . import _plait
from .error import MXNetTypeError, MXNetValueError
from .ndarray._core import NDArray

__all__ = [
    "record",
    "pause",
    "train_mode",
    "predict_mode",
    "is_recording",
    "is_training",
    "set_recording",
    "set_training",
    "mark_variables",
    "backward",
    "grad",
    "get_symbol",
    "Function",
    "NDArray",
]

is_recording = _plait.is_recording
is_training = _plait.is_training
_Mode = _plait.Mode


def set_recording(is_recording):
    """Switches recording in this thread; returns the previous state."""
    return _plait.set_recording(bool(is_recording))


def set_training(train_mode):
    """Switches training mode in this thread; returns the previous state."""
    return _plait.set_training(bool(train_mode))


def record(train_mode=True):
    """A `with` scope in which calls are recorded, in training mode by default."""
    return _Mode(1, -1 if train_mode is None else int(train_mode))


def pause(train_mode=False):
    """A `with` scope in which calls are not recorded."""
    return _Mode(0, -1 if train_mode is None else int(train_mode))


def train_mode():
    """A `with` scope of training mode, recording or not."""
    return _Mode(-1, 1)


def predict_mode():
    """A `with` scope of prediction mode, recording or not."""
    return _Mode(-1, 0)


def _listed(x):
    return list(x) if isinstance(x, (list, tuple)) else [x]


def mark_variables(variables, gradients, grad_reqs="write"):
    """Makes arrays leaves whose gradients go to the given arrays."""
    variables, gradients = _listed(variables), _listed(gradients)
    reqs = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else grad_reqs
    if not len(variables) == len(gradients) == len(reqs):
        raise MXNetValueError(
            "mark_variables: got %d variables, %d gradients and %d grad_reqs; "
            "as many of each were expected"
            % (len(variables), len(gradients), len(reqs))
        )
    for x, g, req in zip(variables, gradients, reqs):
        _plait.attach_grad(x, g, req)


def _head_gradients(heads, head_grads):
    if head_grads is None:
        return [None] * len(heads)
    head_grads = _listed(head_grads)
    if len(head_grads) != len(heads):
        raise MXNetValueError(
            "backward: heads and head_grads must be lists of the same length; "
            "got %d and %d" % (len(heads), len(head_grads))
        )
    return head_grads


def backward(heads, head_grads=None, retain_graph=False, train_mode=True):
    """Gradients of the heads into the leaves they were computed from."""
    heads = _listed(heads)
    _plait.backward(heads, _head_gradients(heads, head_grads), retain_graph, train_mode)


def grad(
    heads,
    variables,
    head_grads=None,
    retain_graph=None,
    create_graph=False,
    train_mode=True,
):
    """Gradients of the heads with respect to `variables`: a list of new arrays, also
    for one variable.

    With create_graph the computation is recorded, for gradients of gradients.
    """
    heads = _listed(heads)
    listed = _listed(variables)
    if not listed:
        raise MXNetValueError(
            "grad: variables is empty; at least one array was expected"
        )
    retain = create_graph if retain_graph is None else retain_graph
    return _plait.grad(
        heads,
        listed,
        _head_gradients(heads, head_grads),
        retain,
        create_graph,
        train_mode,
    )


def get_symbol(x):
    """The recorded computation of an array as a Symbol.

    Arrays with gradients, and those from outside of the recording, are variables. A
    hybridized block and a Function are one call each, which has no symbol.
    """
    from .symbol import Symbol

    return Symbol(_plait.symbol_of_tape(x))


class Function:
    """A computation with a gradient of its own.

    Subclasses write forward(*inputs) and backward(*output_grads), both on arrays and
    not
    recorded; self.save_for_backward keeps arrays for backward in self.saved_tensors.
    """

    def __init__(self):
        self._used = False
        self.saved_tensors = ()

    def save_for_backward(self, *args):
        """Keeps arrays until backward."""
        self.saved_tensors = args

    def __call__(self, *inputs):
        if self._used:
            raise MXNetValueError(
                "Each Function instance can only be called once. Please "
                "create another instance."
            )
        self._used = True
        recording = set_recording(False)
        try:
            outputs = self.forward(*inputs)
        finally:
            set_recording(recording)
        if not recording:
            return outputs
        listed = [x for x in inputs if isinstance(x, NDArray)]
        # An input returned as it is must not become its own successor.
        made = [
            y.copy() if any(y is x for x in listed) else y for y in _listed(outputs)
        ]
        _plait.record_custom(
            type(self).__name__,
            listed,
            made,
            lambda grads: self._gradients(grads, len(listed)),
        )
        return made[0] if isinstance(outputs, NDArray) else type(outputs)(made)

    def _gradients(self, output_grads, count):
        recording = set_recording(False)
        try:
            grads = _listed(self.backward(*output_grads))
        finally:
            set_recording(recording)
        if len(grads) != count:
            raise MXNetValueError(
                "%s.backward must return exactly the same number of NDArrays "
                "as the number of NDArrays arguments to forward; got %d for %d"
                % (type(self).__name__, len(grads), count)
            )
        for g in grads:
            if g is not None and not isinstance(g, NDArray):
                raise MXNetTypeError(
                    "%s.backward must return NDArrays, not %s"
                    % (type(self).__name__, type(g).__name__)
                )
        return grads

    def forward(self, *inputs):
        """The outputs: an array or a list of them."""
        raise NotImplementedError

    def backward(self, *output_grads):
        """The gradients of the inputs, in their order."""
        raise NotImplementedError
