"""Estimator: a training loop whose steps are event handlers."""

import copy
import logging
import sys
import warnings

from ....context import Context, cpu, gpu, num_gpus
from ....error import check
from ....metric import Loss as LossMetric
from ...data import DataLoader
from ...loss import Loss
from ...trainer import Trainer
from .batch_processor import BatchProcessor
from .event_handler import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    GradientUpdateHandler,
    LoggingHandler,
    MetricHandler,
    StoppingHandler,
    TrainBegin,
    TrainEnd,
    ValidationHandler,
    _check_event_handlers,
)
from .utils import _check_handler_metric_ref, _check_metrics, _suggest_metric_for_loss

__all__ = ["Estimator"]


class Estimator:
    """Trains `net` by `loss`, with metrics, logging and validation.

    What is left out is chosen: the metric by the loss, SGD as optimizer, the first GPU
    or the CPU as context. val_net and val_loss are used for validation where they are
    given. `logger` is a logging.Logger of its own, which writes to standard output.
    """

    def __init__(
        self,
        net,
        loss,
        train_metrics=None,
        val_metrics=None,
        initializer=None,
        trainer=None,
        context=None,
        val_net=None,
        val_loss=None,
        batch_processor=None,
    ):
        self.net = net
        self.loss = self._check_loss(loss)
        self._train_metrics = _check_metrics(train_metrics)
        self._val_metrics = _check_metrics(val_metrics)
        self._name_metrics()
        self.val_loss = self.loss if val_loss is None else self._check_loss(val_loss)
        self.val_net = net if val_net is None else val_net
        self.logger = logging.Logger(name="Estimator", level=logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = self._check_context(context)
        self._initialize(initializer)
        self.trainer = self._check_trainer(trainer)
        self.batch_processor = self._check_batch_processor(batch_processor)

    @staticmethod
    def _check_loss(loss):
        if not isinstance(loss, Loss):
            raise ValueError(
                "loss must be a Loss, refer to gluon.loss.Loss:%s" % (loss,)
            )
        return loss

    @staticmethod
    def _check_context(context):
        gpus = [gpu(i) for i in range(num_gpus())]
        if not context:
            if len(gpus) > 1:
                warnings.warn(
                    "You have multiple GPUs, gpu(0) will be used by default. To "
                    "utilize "
                    "all your GPUs, specify context as a list of gpus.",
                    stacklevel=2,
                )
            return gpus[:1] or [cpu()]
        context = [context] if isinstance(context, Context) else context
        if not isinstance(context, list) or not all(
            isinstance(c, Context) for c in context
        ):
            raise ValueError(
                "context must be a Context or a list of Context, for example "
                "mx.cpu() or [mx.gpu(0), mx.gpu(1)], refer to mxnet.Context:%s"
                % (context,)
            )
        for ctx in context:
            check(
                ctx in gpus or str(ctx).startswith("cpu"),
                "%s is not available, please make "
                "sure your context is in one of: mx.cpu(), %s",
                ctx,
                ", ".join(map(str, gpus)),
            )
        return context

    @staticmethod
    def _check_batch_processor(processor):
        if processor is None:
            return BatchProcessor()
        if not all(
            callable(getattr(processor, name, None))
            for name in ("fit_batch", "evaluate_batch")
        ):
            raise ValueError(
                "Customized Batch Processor must contain fit_batch() and "
                "evaluate_batch() methods"
            )
        return processor

    def _initialize(self, initializer):
        try:
            for param in self.net.collect_params().values():
                param.list_ctx()
        except RuntimeError:
            options = {"init": initializer} if initializer else {}
            self.net.initialize(ctx=self.context, **options)
            return
        if initializer:
            warnings.warn(
                "Network already fully initialized, skipping initialization. You don't "
                "need to pass initializer if you already initialized your net. You can "
                "use net.initialize(init=your_initializer, force_reinit=True) to force "
                "re-initialize.",
                stacklevel=2,
            )

    def _check_trainer(self, trainer):
        if not trainer:
            warnings.warn(
                "No trainer specified, default SGD optimizer with learning rate 0.001 "
                "is used.",
                stacklevel=2,
            )
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise ValueError(
                "Trainer must be a Gluon Trainer instance, refer to "
                "gluon.Trainer:%s" % (trainer,)
            )
        return trainer

    def _name_metrics(self):
        """Adds the metrics that were left out; names begin with 'training' or
        'validation'.
        """
        if not self._train_metrics:
            suggested = _suggest_metric_for_loss(self.loss)
            self._train_metrics = [suggested] if suggested else []
            self._train_metrics.append(LossMetric(self.loss.name.rstrip("1234567890")))
        for metric in self._train_metrics:
            metric.name = "training " + metric.name
        if not self._val_metrics:
            self._val_metrics = [
                copy.deepcopy(metric) for metric in self._train_metrics
            ]
        for metric in self._val_metrics:
            if "training" in metric.name:
                metric.name = metric.name.replace("training", "validation")
            else:
                metric.name = "validation " + metric.name

    @property
    def train_metrics(self):
        """The metrics of training."""
        return self._train_metrics

    @property
    def val_metrics(self):
        """The metrics of validation."""
        return self._val_metrics

    @staticmethod
    def _check_data(data):
        if not isinstance(data, DataLoader):
            raise ValueError(
                "Estimator only support input as Gluon DataLoader. Alternatively, "
                "you can transform your DataIter or any NDArray into Gluon "
                "DataLoader. Refer to gluon.data.DataLoader"
            )

    def evaluate(self, val_data, batch_axis=0, event_handlers=None):
        """Updates the validation metrics by all batches."""
        self._check_data(val_data)
        for metric in self.val_metrics:
            metric.reset()
        events = _Events(
            self,
            self._with_defaults(
                event_handlers,
                [
                    (MetricHandler, lambda: MetricHandler(metrics=self.val_metrics)),
                    (LoggingHandler, lambda: LoggingHandler(metrics=self.val_metrics)),
                ],
                self.val_metrics,
            ),
        )
        events.call(EpochBegin, "epoch_begin")
        for batch in val_data:
            events.call(BatchBegin, "batch_begin", batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(
                self, batch, batch_axis
            )
            events.call(
                BatchEnd, "batch_end", batch=batch, pred=pred, label=label, loss=loss
            )
        events.call(EpochEnd, "epoch_end")

    def fit(
        self,
        train_data,
        val_data=None,
        epochs=None,
        event_handlers=None,
        batches=None,
        batch_axis=0,
    ):
        """Trains for a number of epochs, or of batches."""
        self._check_data(train_data)
        if (not epochs) == (not batches):
            raise ValueError(
                "Fit only support exactly one type of iteration, train by number of "
                "epochs or number of batches. Please specify one and only one of: "
                "epochs or batches."
            )
        self.max_epoch = epochs
        self.max_batch = batches
        self.batch_axis = batch_axis
        events = _Events(self, self._prepare_default_handlers(val_data, event_handlers))
        events.call(TrainBegin, "train_begin")
        stop = False
        while not stop:
            events.call(EpochBegin, "epoch_begin")
            for batch in train_data:
                events.call(BatchBegin, "batch_begin", batch=batch)
                _, label, pred, loss = self.batch_processor.fit_batch(
                    self, batch, batch_axis
                )
                if events.call(
                    BatchEnd,
                    "batch_end",
                    batch=batch,
                    pred=pred,
                    label=label,
                    loss=loss,
                ):
                    break
            stop = events.call(EpochEnd, "epoch_end")
        events.call(TrainEnd, "train_end")

    def _prepare_default_handlers(self, val_data, event_handlers):
        defaults = [
            (None, lambda: StoppingHandler(self.max_epoch, self.max_batch)),
            (GradientUpdateHandler, GradientUpdateHandler),
            (MetricHandler, lambda: MetricHandler(metrics=self.train_metrics)),
        ]
        if val_data:
            defaults.append(
                (
                    ValidationHandler,
                    lambda: ValidationHandler(val_data=val_data, eval_fn=self.evaluate),
                )
            )
        defaults.append(
            (LoggingHandler, lambda: LoggingHandler(metrics=self.train_metrics))
        )
        return self._with_defaults(
            event_handlers, defaults, self.train_metrics + self.val_metrics
        )

    def _categorize_handlers(self, event_handlers):
        """The handlers of each event, in the order in which events happen."""
        return tuple(
            [handler for handler in event_handlers if isinstance(handler, kind)]
            for kind in (
                TrainBegin,
                EpochBegin,
                BatchBegin,
                BatchEnd,
                EpochEnd,
                TrainEnd,
            )
        )

    @staticmethod
    def _with_defaults(event_handlers, defaults, known_metrics):
        """The handlers with those defaults of whose kind none is given, by priority."""
        given = _check_event_handlers(event_handlers)
        added = [
            make()
            for kind, make in defaults
            if kind is None or not any(isinstance(h, kind) for h in given)
        ]
        mixed = given and added
        given.extend(added)
        if mixed:
            for handler in given:
                _check_handler_metric_ref(handler, known_metrics)
        given.sort(key=lambda handler: getattr(handler, "priority", 0))
        return given


class _Events:
    """Calls the handlers of an event."""

    def __init__(self, estimator, handlers):
        self._estimator, self._handlers = estimator, handlers

    def call(self, kind, method, **kwargs):
        """Calls all handlers of that kind; true where any of them says stop."""
        results = [
            getattr(handler, method)(self._estimator, **kwargs)
            for handler in self._handlers
            if isinstance(handler, kind)
        ]
        return any(results)
