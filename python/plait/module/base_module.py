"""BaseModule: the loops of training, evaluation and prediction."""

import logging
import time
import warnings

import numpy as np

from .. import metric as metrics
from .. import ndarray as nd
from ..base import _as_list
from ..error import CheckError, MXNetTypeError, MXNetValueError, check
from ..initializer import Uniform
from ..io import DataBatch, DataIter
from ..model import BatchEndParam, split_params, tagged_params
from .checks import after

__all__ = ["BaseModule"]

_SGD = (("learning_rate", 0.01),)
_UNIFORM = Uniform(0.01)


def _call(callbacks, *args):
    for callback in _as_list(callbacks) if callbacks is not None else ():
        callback(*args)


class BaseModule:
    """A machine with inputs, outputs and parameters.

    Steps in order: bind(), init_params(), init_optimizer(); then forward(), backward(),
    update(), for which fit() is the loop. Subclasses define the parts; see Module.
    """

    def __init__(self, logger=logging):
        self.logger = logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False
        self._symbol = None
        self._total_exec_bytes = 0

    # Loops.

    def forward_backward(self, data_batch):
        """forward() for training, and backward()."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def _update_metric_of(self, eval_metric, batch):
        if isinstance(batch, list):  # one batch for each device
            self.update_metric(eval_metric, [b.label for b in batch], pre_sliced=True)
        else:
            self.update_metric(eval_metric, batch.label)

    def _ignored(self, what, force_init):
        """Whether values for the parameters are refused, with a warning."""
        if self.params_initialized and not force_init:
            warnings.warn(
                "%s.%s: the parameters are initialized already, so the call is "
                "ignored; force_init=True does it anyway" % (type(self).__name__, what),
                stacklevel=4,
            )
            return True
        return False

    @after("binded", "params_initialized")
    def _run(self, eval_data, num_batch, reset, sparse_row_id_fn):
        """Yields (number, batch) after each batch's forward pass."""
        return self._batches(eval_data, num_batch, reset, sparse_row_id_fn)

    def _batches(self, eval_data, num_batch, reset, sparse_row_id_fn):
        if reset:
            eval_data.reset()
        for number, batch in enumerate(eval_data):
            if number == num_batch:
                return
            self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(batch, is_train=False)
            yield number, batch

    def score(
        self,
        eval_data,
        eval_metric,
        num_batch=None,
        batch_end_callback=None,
        score_end_callback=None,
        reset=True,
        epoch=0,
        sparse_row_id_fn=None,
    ):
        """[(name, value)] of a metric over an iterator, or over its first num_batch
        batches.
        """
        eval_metric = metrics.create(eval_metric)
        eval_metric.reset()
        actual_num_batch = 0
        batches = self._run(eval_data, num_batch, reset, sparse_row_id_fn)
        for nbatch, eval_batch in batches:
            self._update_metric_of(eval_metric, eval_batch)
            if batch_end_callback is not None:
                param = BatchEndParam(epoch, nbatch, eval_metric, locals())
                _call(batch_end_callback, param)
            actual_num_batch += 1
        if score_end_callback is not None:
            param = BatchEndParam(epoch, actual_num_batch, eval_metric, locals())
            _call(score_end_callback, param)
        return eval_metric.get_name_value()

    def _unpadded(self, batch):
        """The outputs without the rows that only fill the batch."""
        pad = getattr(batch, "pad", None) or 0
        return [out[: out.shape[0] - pad] for out in self.get_outputs()]

    def iter_predict(
        self, eval_data, num_batch=None, reset=True, sparse_row_id_fn=None
    ):
        """Yields (outputs, number, batch); the next batch overwrites the outputs."""
        batches = self._run(eval_data, num_batch, reset, sparse_row_id_fn)
        for nbatch, batch in batches:
            yield self._unpadded(batch), nbatch, batch

    def predict(
        self,
        eval_data,
        num_batch=None,
        merge_batches=True,
        reset=True,
        always_output_list=False,
        sparse_row_id_fn=None,
    ):
        """Outputs over an iterator, put together along the first axis: an array, or a
        list where there are several outputs. An array as data is one batch.

        merge_batches=False gives a list with the outputs of each batch.
        """
        if isinstance(eval_data, (nd.NDArray, np.ndarray)):
            if isinstance(eval_data, np.ndarray):
                eval_data = nd.array(eval_data)
            self.forward(DataBatch([eval_data]), is_train=False)
            return self.get_outputs()[0]
        if not isinstance(eval_data, DataIter):
            raise MXNetTypeError(
                "%s.predict: eval_data is a %s; expected an NDArray or a DataIter"
                % (type(self).__name__, type(eval_data).__name__)
            )
        batches = self._run(eval_data, num_batch, reset, sparse_row_id_fn)
        outputs = [[out.copy() for out in self._unpadded(b)] for _, b in batches]
        if not outputs or not merge_batches:
            return outputs
        if len({len(outs) for outs in outputs}) > 1:
            raise MXNetValueError(
                "%s.predict: batches differ in their number of outputs, as with "
                "buckets; use merge_batches=False" % type(self).__name__
            )
        merged = [nd.concat(*parts, dim=0) for parts in zip(*outputs)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def fit(
        self,
        train_data,
        eval_data=None,
        eval_metric="acc",
        epoch_end_callback=None,
        batch_end_callback=None,
        kvstore="local",
        optimizer="sgd",
        optimizer_params=_SGD,
        eval_end_callback=None,
        eval_batch_end_callback=None,
        initializer=_UNIFORM,
        arg_params=None,
        aux_params=None,
        allow_missing=False,
        force_rebind=False,
        force_init=False,
        begin_epoch=0,
        num_epoch=None,
        validation_metric=None,
        monitor=None,
        sparse_row_id_fn=None,
    ):
        """Trains for the epochs begin_epoch to num_epoch - 1.

        Binds and initializes first what is not yet. Metrics are logged after each
        epoch, and given to callbacks as a BatchEndParam after each batch.
        """
        check(
            num_epoch is not None,
            "%s.fit: num_epoch is missing; it has no default",
            type(self).__name__,
        )
        self.bind(
            data_shapes=train_data.provide_data,
            label_shapes=train_data.provide_label,
            for_training=True,
            force_rebind=force_rebind,
        )
        if monitor is not None:
            self.install_monitor(monitor)
        given = arg_params is not None or aux_params is not None
        if given or force_init or not self.params_initialized:
            self.init_params(
                initializer=initializer,
                arg_params=arg_params,
                aux_params=aux_params,
                allow_missing=allow_missing,
                force_init=force_init,
            )
        self.init_optimizer(
            kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params
        )
        validation_metric = (
            eval_metric if validation_metric is None else (validation_metric)
        )
        eval_metric = metrics.create(eval_metric)
        for epoch in range(begin_epoch, num_epoch):
            tic = time.time()
            results = self._train_epoch(
                epoch, train_data, eval_metric, batch_end_callback, monitor,
                sparse_row_id_fn,
            )  # fmt: skip
            for name, value in results:
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - tic)
            arg_params, aux_params = self.get_params()
            self.set_params(arg_params, aux_params)  # the same on all devices
            _call(epoch_end_callback, epoch, self.symbol, arg_params, aux_params)
            if eval_data is not None:
                results = self.score(
                    eval_data,
                    validation_metric,
                    score_end_callback=eval_end_callback,
                    batch_end_callback=eval_batch_end_callback,
                    epoch=epoch,
                )
                for name, value in results:
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _train_epoch(
        self, epoch, train_data, eval_metric, batch_end_callback, monitor, row_id_fn
    ):
        """Trains on all batches; the metric's values over the whole epoch.

        Iterators may reuse a batch's memory, so the next one is fetched only when this
        one is done with.
        """
        eval_metric.reset()
        batches = iter(train_data)
        next_data_batch, nbatch, results = next(batches, None), 0, None
        if next_data_batch is None:
            raise CheckError(
                "%s.fit: train_data gave no batch in epoch %d; one that was used "
                "before is to be reset()" % (type(self).__name__, epoch)
            )
        while next_data_batch is not None:
            data_batch = next_data_batch
            if monitor is not None:
                monitor.tic()
            self.forward_backward(data_batch)
            self.update()
            self._update_metric_of(eval_metric, data_batch)
            next_data_batch = next(batches, None)
            if next_data_batch is not None:
                self.prepare(next_data_batch, sparse_row_id_fn=row_id_fn)
            if monitor is not None:
                monitor.toc_print()
            if next_data_batch is None:  # before a callback can reset the metric
                results = eval_metric.get_global_name_value()
            if batch_end_callback is not None:
                param = BatchEndParam(epoch, nbatch, eval_metric, locals())
                _call(batch_end_callback, param)
            nbatch += 1
        return results

    # Parameters.

    def set_params(
        self,
        arg_params,
        aux_params,
        allow_missing=False,
        force_init=True,
        allow_extra=False,
    ):
        """Sets parameters and auxiliary states by name."""
        self.init_params(
            initializer=None,
            arg_params=arg_params,
            aux_params=aux_params,
            allow_missing=allow_missing,
            force_init=force_init,
            allow_extra=allow_extra,
        )

    def save_params(self, fname):
        """Writes all parameters to a file, as arg:NAME and aux:NAME."""
        nd.save(fname, tagged_params(*self.get_params()))

    def load_params(self, fname):
        """Sets all parameters from such a file."""
        self.set_params(*split_params(nd.load(fname), fname, strict=True))

    # What subclasses define. Properties first.

    @property
    def data_names(self):
        """The names of the data inputs."""
        raise NotImplementedError()

    @property
    def output_names(self):
        """The names of the outputs."""
        raise NotImplementedError()

    @property
    def data_shapes(self):
        """A DataDesc for each data input."""
        raise NotImplementedError()

    @property
    def label_shapes(self):
        """A DataDesc for each label, or None."""
        raise NotImplementedError()

    @property
    def output_shapes(self):
        """(name, shape) of each output."""
        raise NotImplementedError()

    @property
    def symbol(self):
        """The symbol that is computed, if there is one."""
        return self._symbol

    def get_params(self):
        """(arg_params, aux_params): dicts of arrays by name."""
        raise NotImplementedError()

    def init_params(
        self,
        initializer=_UNIFORM,
        arg_params=None,
        aux_params=None,
        allow_missing=False,
        force_init=False,
        allow_extra=False,
    ):
        """Gives values to parameters: those named in arg_params and aux_params from
        there, the others (with allow_missing, or where both are None) by the
        initializer.
        """
        raise NotImplementedError()

    @after("binded", "params_initialized")
    def get_states(self, merge_multi_context=True):
        """The arrays of the inputs in state_names; here there are none."""
        check(not merge_multi_context, "get_states: merging states is not supported")
        return []

    @after("binded", "params_initialized")
    def set_states(self, states=None, value=None):
        """Sets the states to arrays, or all to one number."""
        check(not states and not value, "%s.set_states: no states", type(self).__name__)

    def install_monitor(self, mon):
        """Lets a Monitor see the outputs of all operators."""
        raise NotImplementedError()

    def prepare(self, data_batch, sparse_row_id_fn=None):
        """Called before a batch's forward pass: a place to switch or reshape.

        sparse_row_id_fn(data_batch) gives a dict from the names of row_sparse
        parameters to the rows that the batch needs.
        """
        if sparse_row_id_fn is not None:
            warnings.warn(
                "%s.prepare: sparse_row_id_fn is not used" % type(self).__name__,
                UserWarning,
                stacklevel=2,
            )

    def forward(self, data_batch, is_train=None):
        """Computes the outputs of a batch; is_train=None: as bound."""
        raise NotImplementedError()

    def backward(self, out_grads=None):
        """Computes gradients; out_grads are needed where the outputs are no losses."""
        raise NotImplementedError()

    def get_outputs(self, merge_multi_context=True):
        """The outputs of the last forward(), those of several devices put together."""
        raise NotImplementedError()

    def get_input_grads(self, merge_multi_context=True):
        """The gradients of the data inputs from the last backward()."""
        raise NotImplementedError()

    def update(self):
        """One step of the optimizer with the gradients of the last backward()."""
        raise NotImplementedError()

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """Lets a metric see the labels and the outputs of the last forward()."""
        raise NotImplementedError()

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
        """Makes executors for inputs of these shapes (DataDescs, or name and shape)."""
        raise NotImplementedError()

    def init_optimizer(
        self,
        kvstore="local",
        optimizer="sgd",
        optimizer_params=_SGD,
        force_init=False,
    ):
        """Makes the optimizer, by name or object, and the store that sums gradients."""
        raise NotImplementedError()
