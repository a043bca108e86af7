"""plait.contrib.autograd: MXNet's first interface to gradients; see plait.autograd."""

import functools

from .. import autograd as _autograd
from ..autograd import mark_variables
from ..error import MXNetTypeError
from ..ndarray import NDArray, zeros_like

__all__ = [
    "TrainingStateScope",
    "backward",
    "compute_gradient",
    "grad",
    "grad_and_loss",
    "mark_variables",
    "set_is_training",
    "test_section",
    "train_section",
]


def set_is_training(is_train):
    """Records calls and runs them as in training, or neither; the recording so far."""
    _autograd.set_training(is_train)
    return _autograd.set_recording(is_train)


class TrainingStateScope:
    """A `with` block under set_is_training(enter_state)."""

    def __init__(self, enter_state):
        self._enter_state = enter_state
        self._before = []

    def __enter__(self):
        training = _autograd.set_training(self._enter_state)
        recording = _autograd.set_recording(self._enter_state)
        self._before.append((training, recording))

    def __exit__(self, ptype, value, trace):
        training, recording = self._before.pop()
        _autograd.set_training(training)
        _autograd.set_recording(recording)


def train_section():
    """A `with` block whose calls are recorded."""
    return TrainingStateScope(True)


def test_section():
    """A `with` block inside a train_section() whose calls are not recorded."""
    return TrainingStateScope(False)


test_section.__test__ = False  # a name that test runners would collect


def backward(outputs, out_grads=None, retain_graph=False):
    """Gradients of the outputs, a list, into the marked variables."""
    if not isinstance(outputs, (list, tuple)):
        raise MXNetTypeError(
            "backward: outputs is a %s; a list or tuple of NDArrays was expected"
            % type(outputs).__name__
        )
    _autograd.backward(list(outputs), out_grads, retain_graph)


def compute_gradient(outputs):
    """backward() without head gradients."""
    backward(outputs)


def grad_and_loss(func, argnum=None):
    """A function that returns (gradients of the arguments, result of `func`).

    argnum: a number or a list of them, when only these arguments want a gradient.
    """

    @functools.wraps(func)
    def wrapped(*args):
        chosen = range(len(args)) if argnum is None else argnum
        chosen = [chosen] if isinstance(chosen, int) else chosen
        variables = [args[i] for i in chosen]
        for i, x in zip(chosen, variables):
            if not isinstance(x, NDArray):
                raise MXNetTypeError(
                    "grad_and_loss: argument %d is a %s; an NDArray was expected"
                    % (i, type(x).__name__)
                )
        grads = [zeros_like(x) for x in variables]
        mark_variables(variables, grads)
        with train_section():
            outputs = func(*args)
        backward([outputs] if isinstance(outputs, NDArray) else outputs)
        return grads, outputs

    return wrapped


def grad(func, argnum=None):
    """A function that returns the gradients of the arguments of `func`."""
    both = grad_and_loss(func, argnum)

    @functools.wraps(func)
    def wrapped(*args):
        return both(*args)[0]

    return wrapped
