"""PythonModule and PythonLossModule: modules that compute in Python, without
parameters.
"""

import logging

from .. import ndarray as nd
from ..error import MXNetNotImplementedError, MXNetValueError, check
from .base_module import _SGD, _UNIFORM, BaseModule
from .checks import as_descs, names_list

__all__ = ["PythonModule", "PythonLossModule"]


class PythonModule(BaseModule):
    """Base of modules written in Python: there are no parameters, so that much of what
    modules do is nothing. Subclasses define forward(), backward(), get_outputs(),
    get_input_grads() and _compute_output_shapes().
    """

    def __init__(self, data_names, label_names, output_names, logger=logging):
        super().__init__(logger=logger)
        self._data_names = names_list(data_names)
        self._label_names = None if label_names is None else names_list(label_names)
        self._output_names = output_names
        self._data_shapes = self._label_shapes = self._output_shapes = None

    data_names = property(lambda self: self._data_names)
    output_names = property(lambda self: self._output_names)
    data_shapes = property(lambda self: self._data_shapes)
    label_shapes = property(lambda self: self._label_shapes)
    output_shapes = property(lambda self: self._output_shapes)

    def get_params(self):
        return {}, {}

    def init_params(
        self,
        initializer=_UNIFORM,
        arg_params=None,
        aux_params=None,
        allow_missing=False,
        force_init=False,
        allow_extra=False,
    ):
        self.params_initialized = True

    def init_optimizer(
        self,
        kvstore="local",
        optimizer="sgd",
        optimizer_params=_SGD,
        force_init=False,
    ):
        self.optimizer_initialized = True

    def update(self):
        """Nothing: there are no parameters."""

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise MXNetNotImplementedError(
                "%s.update_metric: labels of several devices are not supported"
                % type(self).__name__
            )
        eval_metric.update(labels, self.get_outputs())

    def bind(
        self,
        data_shapes,
        label_shapes=None,
        for_training=True,
        inputs_need_grad=False,
        force_rebind=False,
        shared_module=None,
        grad_req="write",
    ):
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        check(
            grad_req == "write",
            "%s.bind: grad_req is %r; only 'write' is supported",
            type(self).__name__,
            grad_req,
        )
        self._check_names("data", self._data_names, data_shapes)
        if label_shapes:
            self._check_names("label", self._label_names or [], label_shapes)
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._data_shapes = data_shapes
        self._label_shapes = label_shapes or None
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _check_names(self, kind, expected, shapes):
        given = [desc.name for desc in as_descs(shapes)]
        if given != expected:
            raise MXNetValueError(
                "%s.bind: %s_shapes have the names %s; expected %s"
                % (type(self).__name__, kind, given, expected)
            )

    def _compute_output_shapes(self):
        """[(name, shape)] of the outputs, from the shapes that bind() has set."""
        raise NotImplementedError()


class PythonLossModule(PythonModule):
    """A loss at the end of a SequentialModule: its outputs are its data, the scores,
    and grad_func(scores, labels) gives their gradient.
    """

    def __init__(
        self,
        name="pyloss",
        data_names=("data",),
        label_names=("softmax_label",),
        logger=logging,
        grad_func=None,
    ):
        super().__init__(data_names, label_names, [name + "_output"], logger=logger)
        check(
            len(data_names) == 1 and len(label_names) == 1,
            "PythonLossModule: got %d data and %d label names; expected one of each",
            len(data_names),
            len(label_names),
        )
        check(
            grad_func is None or callable(grad_func),
            "PythonLossModule: grad_func is %r; expected a function",
            grad_func,
        )
        self._name = name
        self._grad_func = grad_func
        self._scores = self._labels = self._scores_grad = None

    def _compute_output_shapes(self):
        return [(self._name + "_output", self._data_shapes[0][1])]

    def forward(self, data_batch, is_train=None):
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context=True):
        return [self._scores]

    def backward(self, out_grads=None):
        check(
            out_grads is None,
            "PythonLossModule.backward: a loss takes no gradients of its outputs",
        )
        check(
            self.for_training,
            "PythonLossModule.backward: bind() was called with for_training=False",
        )
        self._backward_impl()

    def _backward_impl(self):
        """Computes the gradient of the scores; for subclasses without grad_func."""
        if self._grad_func is None:
            raise NotImplementedError(
                "PythonLossModule: grad_func is missing; give it, or override "
                "_backward_impl()"
            )
        grad = self._grad_func(self._scores, self._labels)
        self._scores_grad = grad if isinstance(grad, nd.NDArray) else nd.array(grad)

    def get_input_grads(self, merge_multi_context=True):
        return [self._scores_grad]

    def install_monitor(self, mon):
        """Nothing: there are no operators to watch."""
