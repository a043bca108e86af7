"""Event handlers of an estimator: what happens around training, epochs and batches."""

import time
import warnings

import numpy as np

from ....metric import CompositeEvalMetric, EvalMetric
from ....metric import Loss as LossMetric
from .utils import _check_metrics

__all__ = [
    "TrainBegin",
    "TrainEnd",
    "EpochBegin",
    "EpochEnd",
    "BatchBegin",
    "BatchEnd",
    "StoppingHandler",
    "MetricHandler",
    "ValidationHandler",
    "LoggingHandler",
    "CheckpointHandler",
    "EarlyStoppingHandler",
    "GradientUpdateHandler",
]


class EventHandler:
    """Base of all handlers; those with lower `priority` are called first."""


def _check_event_handlers(handlers):
    handlers = [handlers] if isinstance(handlers, EventHandler) else handlers or []
    if not all(isinstance(handler, EventHandler) for handler in handlers):
        raise ValueError(
            "handlers must be an EventHandler or a list of EventHandler, got: %s"
            % (handlers,)
        )
    return handlers


class TrainBegin(EventHandler):
    """Called before training."""

    def train_begin(self, estimator, *args, **kwargs):
        """Before training."""


class TrainEnd(EventHandler):
    """Called after training."""

    def train_end(self, estimator, *args, **kwargs):
        """After training."""


class EpochBegin(EventHandler):
    """Called before each epoch."""

    def epoch_begin(self, estimator, *args, **kwargs):
        """Before an epoch."""


class EpochEnd(EventHandler):
    """Called after each epoch."""

    def epoch_end(self, estimator, *args, **kwargs):
        """After an epoch; true ends training."""
        return False


class BatchBegin(EventHandler):
    """Called before each batch."""

    def batch_begin(self, estimator, *args, **kwargs):
        """Before a batch."""


class BatchEnd(EventHandler):
    """Called after each batch."""

    def batch_end(self, estimator, *args, **kwargs):
        """After a batch; true ends the epoch."""
        return False


class StoppingHandler(TrainBegin, BatchEnd, EpochEnd):
    """Ends training after so many epochs or batches."""

    def __init__(self, max_epoch=None, max_batch=None):
        self.max_epoch = max_epoch
        self.max_batch = max_batch
        self.current_batch = 0
        self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator, *args, **kwargs):
        self.max_epoch = estimator.max_epoch
        self.max_batch = estimator.max_batch
        self.current_batch = 0
        self.current_epoch = 0

    def batch_end(self, estimator, *args, **kwargs):
        self.current_batch += 1
        self.stop_training |= self.current_batch == self.max_batch
        return self.stop_training

    def epoch_end(self, estimator, *args, **kwargs):
        self.current_epoch += 1
        self.stop_training |= self.current_epoch == self.max_epoch
        return self.stop_training


class MetricHandler(EpochBegin, BatchEnd):
    """Resets metrics before an epoch, and updates them after each batch."""

    def __init__(self, metrics, priority=-1000):
        self.metrics = _check_metrics(metrics)
        self.priority = priority

    def epoch_begin(self, estimator, *args, **kwargs):
        for metric in self.metrics:
            metric.reset()

    def batch_end(self, estimator, *args, **kwargs):
        for metric in self.metrics:
            if isinstance(metric, LossMetric):
                metric.update(0, kwargs["loss"])
            else:
                metric.update(kwargs["label"], kwargs["pred"])


class ValidationHandler(TrainBegin, BatchEnd, EpochEnd):
    """Calls eval_fn every so many epochs or batches."""

    def __init__(
        self,
        val_data,
        eval_fn,
        epoch_period=1,
        batch_period=None,
        priority=-1000,
        event_handlers=None,
    ):
        self.val_data = val_data
        self.eval_fn = eval_fn
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = 0
        self.current_epoch = 0
        self.priority = priority
        self.event_handlers = event_handlers

    def _evaluate(self, estimator, count, period):
        if period and count % period == 0:
            self.eval_fn(
                val_data=self.val_data,
                batch_axis=estimator.batch_axis,
                event_handlers=self.event_handlers,
            )

    def train_begin(self, estimator, *args, **kwargs):
        self.current_batch = 0
        self.current_epoch = 0

    def batch_end(self, estimator, *args, **kwargs):
        self.current_batch += 1
        self._evaluate(estimator, self.current_batch, self.batch_period)

    def epoch_end(self, estimator, *args, **kwargs):
        self.current_epoch += 1
        self._evaluate(estimator, self.current_epoch, self.epoch_period)


class LoggingHandler(TrainBegin, TrainEnd, EpochBegin, EpochEnd, BatchBegin, BatchEnd):
    """Logs metrics after each epoch, or every `log_interval` batches as well."""

    def __init__(self, log_interval="epoch", metrics=None, priority=float("inf")):
        if not isinstance(log_interval, int) and log_interval != "epoch":
            raise ValueError("log_interval must be either an integer or string 'epoch'")
        self.metrics = _check_metrics(metrics)
        self.priority = priority
        self.log_interval = log_interval
        self._start_counting()

    def _start_counting(self):
        self.batch_index = 0
        self.current_epoch = 0
        self.processed_samples = 0
        self.log_interval_time = 0

    def _values(self):
        return ", ".join("%s: %.4f" % metric.get() for metric in self.metrics)

    def train_begin(self, estimator, *args, **kwargs):
        self.train_start = time.time()
        estimator.logger.info(
            "Training begin: using optimizer %s with current learning rate %.4f ",
            type(estimator.trainer.optimizer).__name__,
            estimator.trainer.learning_rate,
        )
        if estimator.max_epoch:
            estimator.logger.info("Train for %d epochs.", estimator.max_epoch)
        else:
            estimator.logger.info("Train for %d batches.", estimator.max_batch)
        self._start_counting()

    def train_end(self, estimator, *args, **kwargs):
        estimator.logger.info(
            "Train finished using total %ds with %d epochs. %s",
            time.time() - self.train_start,
            self.current_epoch,
            self._values(),
        )

    def batch_begin(self, estimator, *args, **kwargs):
        self.batch_start = time.time()

    def batch_end(self, estimator, *args, **kwargs):
        if isinstance(self.log_interval, int):
            self.processed_samples += kwargs["batch"][0].shape[0]
            self.log_interval_time += time.time() - self.batch_start
            if self.batch_index % self.log_interval == 0:
                estimator.logger.info(
                    "[Epoch %d][Batch %d][Samples %s] time/interval: %.3fs %s",
                    self.current_epoch,
                    self.batch_index,
                    self.processed_samples,
                    self.log_interval_time,
                    self._values(),
                )
                self.log_interval_time = 0
        self.batch_index += 1

    def epoch_begin(self, estimator, *args, **kwargs):
        self.epoch_start = time.time()
        if any("training" in metric.name for metric in self.metrics):
            estimator.logger.info(
                "[Epoch %d] Begin, current learning rate: %.4f",
                self.current_epoch,
                estimator.trainer.learning_rate,
            )
        else:
            estimator.logger.info("Validation Begin")

    def epoch_end(self, estimator, *args, **kwargs):
        estimator.logger.info(
            "[Epoch %d] Finished in %.3fs, %s",
            self.current_epoch,
            time.time() - self.epoch_start,
            self._values(),
        )
        self.current_epoch += 1
        self.batch_index = 0


def _comparison(monitor, mode, what):
    """Whether a greater or a smaller value of a metric is better."""
    if mode not in ("auto", "min", "max"):
        warnings.warn(
            "%s mode %s is unknown, fallback to auto mode, which uses max for f1 and "
            "accuracy and min otherwise" % (what, mode),
            RuntimeWarning,
            stacklevel=2,
        )
        mode = "auto"
    if mode == "auto":
        name = monitor.get()[0].lower()
        mode = "max" if "acc" in name or "f1" in name else "min"
        warnings.warn(
            "`%s` operator will be used to determine if %s has improved. Please "
            "specify "
            "mode='min' or mode='max' to choose."
            % ("greater" if mode == "max" else "less", monitor.get()[0]),
            stacklevel=2,
        )
    return np.greater if mode == "max" else np.less


def _worst(comparison):
    return float("inf") if comparison is np.less else -float("inf")


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Ends training when a metric has not improved by min_delta for
    `patience` epochs.
    """

    def __init__(self, monitor, min_delta=0, patience=0, mode="auto", baseline=None):
        if not isinstance(monitor, EvalMetric):
            raise ValueError(
                "Please provide one of the metric objects from "
                "estimator.train_metrics and estimator.val_metrics as monitor."
            )
        if isinstance(monitor, CompositeEvalMetric):
            raise ValueError(
                "CompositeEvalMetric is not supported for EarlyStoppingHandler, "
                "please specify a simple metric instead."
            )
        self.monitor = monitor
        self.baseline = baseline
        self.patience = patience
        self.monitor_op = _comparison(monitor, mode, "EarlyStopping")
        self.min_delta = min_delta if self.monitor_op is np.greater else -min_delta
        self._start()

    def _start(self):
        self.wait = 0
        self.stopped_epoch = 0
        self.current_epoch = 0
        self.stop_training = False
        self.best = _worst(self.monitor_op) if self.baseline is None else self.baseline

    def train_begin(self, estimator, *args, **kwargs):
        self._start()

    def epoch_end(self, estimator, *args, **kwargs):
        name, value = self.monitor.get()
        if np.isnan(value):
            warnings.warn(
                "%s is not updated, make sure you pass one of the metric objects from "
                "estimator.train_metrics and estimator.val_metrics as monitor." % name,
                RuntimeWarning,
                stacklevel=2,
            )
        elif self.monitor_op(value - self.min_delta, self.best):
            self.best = value
            self.wait = 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch = self.current_epoch
                self.stop_training = True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator, *args, **kwargs):
        if self.stopped_epoch > 0:
            estimator.logger.info(
                "[Epoch %d] EarlyStoppingHanlder: early stopping due to %s not "
                "improving",
                self.stopped_epoch,
                self.monitor.get()[0],
            )


class GradientUpdateHandler(BatchEnd):
    """Steps the trainer after each batch, before all other handlers."""

    def __init__(self, priority=-2000):
        self.priority = priority

    def batch_end(self, estimator, *args, **kwargs):
        loss = kwargs["loss"]
        losses = loss if isinstance(loss, list) else [loss]
        estimator.trainer.step(sum(one.shape[0] for one in losses))


from .checkpoint import CheckpointHandler  # noqa: E402  (it derives from the classes above)
