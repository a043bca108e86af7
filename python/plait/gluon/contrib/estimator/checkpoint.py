"""CheckpointHandler: saves parameters and optimizer states while an
estimator trains.
"""

import os
import re

import numpy as np

from ....error import check
from ....metric import EvalMetric
from .event_handler import BatchEnd, EpochEnd, TrainBegin, _comparison, _worst


class CheckpointHandler(TrainBegin, BatchEnd, EpochEnd):
    """Saves <prefix>-epoch<n>batch<m>.params and .states every so many epochs or
    batches.

    save_best also keeps <prefix>-best of the best value of `monitor`. At most
    max_checkpoints are kept. resume_from_checkpoint goes on from the last one in
    model_dir.
    """

    def __init__(
        self,
        model_dir,
        model_prefix="model",
        monitor=None,
        verbose=0,
        save_best=False,
        mode="auto",
        epoch_period=1,
        batch_period=None,
        max_checkpoints=5,
        resume_from_checkpoint=False,
    ):
        os.makedirs(model_dir, exist_ok=True)
        if save_best and not isinstance(monitor, EvalMetric):
            raise ValueError(
                "To save best model only, please provide one of the metric objects "
                "from estimator.train_metrics and estimator.val_metrics as monitor."
            )
        self.monitor = monitor
        self.verbose = verbose
        self.model_dir = model_dir
        self.model_prefix = model_prefix
        self.save_best = save_best
        self.epoch_period = epoch_period
        self.batch_period = batch_period
        self.current_batch = 0
        self.current_epoch = 0
        self.max_checkpoints = max_checkpoints
        self.resume_from_checkpoint = resume_from_checkpoint
        self.saved_checkpoints = []
        self.trained_epoch = self.trained_batch = -1
        if save_best:
            self.monitor_op = _comparison(monitor, mode, "ModelCheckpoint")
            self.best = _worst(self.monitor_op)

    def train_begin(self, estimator, *args, **kwargs):
        self.current_epoch = 0
        self.current_batch = 0
        if self.save_best:
            self.best = _worst(self.monitor_op)
        if self.resume_from_checkpoint:
            wanted, other = (
                (self.batch_period, self.epoch_period)
                if estimator.max_batch
                else (self.epoch_period, self.batch_period)
            )
            check(
                wanted and not other,
                "To use resume from checkpoint, you must only specify the "
                "same type of period you used for training. For example, if you are "
                "training "
                "based on number of epochs, you must save only based on epochs, and "
                "set "
                "batch_period to None.",
            )
            self._resume(estimator)

    def batch_end(self, estimator, *args, **kwargs):
        if self.current_batch == 0:
            self._save_symbol(estimator.net)
        if self.batch_period and (self.current_batch + 1) % self.batch_period == 0:
            self._save_checkpoint(estimator)
        self.current_batch += 1

    def epoch_end(self, estimator, *args, **kwargs):
        if self.epoch_period and (self.current_epoch + 1) % self.epoch_period == 0:
            self._save_checkpoint(estimator)
        self.current_epoch += 1

    def _log(self, estimator, text, *args):
        if self.verbose > 0:
            estimator.logger.info(
                "[Epoch %d] CheckpointHandler: " + text, self.current_epoch, *args
            )

    def _save_checkpoint(self, estimator):
        epoch, batch = self.current_epoch, self.current_batch
        if self.resume_from_checkpoint:
            epoch += self.trained_epoch + 1
            batch += self.trained_batch + (0 if estimator.max_epoch else 1)
        name = "%s-epoch%dbatch%d" % (self.model_prefix, epoch, batch)
        self._save(estimator, name)
        self.saved_checkpoints.append(name)
        while len(self.saved_checkpoints) > self.max_checkpoints:
            old = self.saved_checkpoints.pop(0)
            for ending in (".params", ".states"):
                path = os.path.join(self.model_dir, old + ending)
                if os.path.exists(path):
                    os.remove(path)
        self._log(
            estimator,
            "trained total %d batches, saving model at %s with prefix: %s",
            self.current_batch + 1,
            self.model_dir,
            name,
        )
        if self.save_best:
            self._save_if_best(estimator)

    def _save_if_best(self, estimator):
        name, value = self.monitor.get()
        if np.isnan(value):
            estimator.logger.warning(
                "Skipping save best because %s is not updated, make sure you "
                "pass one of the metric objects estimator.train_metrics and "
                "estimator.val_metrics as monitor",
                name,
            )
        elif self.monitor_op(value, self.best):
            self._save(estimator, self.model_prefix + "-best")
            self._log(
                estimator,
                "%s improved from %0.5f to %0.5f, updating best model at %s",
                name,
                self.best,
                value,
                self.model_dir,
            )
            self.best = value
        else:
            self._log(
                estimator,
                "%s did not improve from %0.5f, skipping updating best model",
                name,
                self.best,
            )

    def _save(self, estimator, name):
        path = os.path.join(self.model_dir, name)
        estimator.net.save_parameters(path + ".params")
        estimator.trainer.save_states(path + ".states")

    def _save_symbol(self, net):
        """Writes the graph of a hybridized net, once its first batch has made it."""
        graph = getattr(net, "_graph", None)
        if graph is not None and graph.symbol is not None:
            name = self.model_prefix + "-symbol.json"
            graph.symbol.save(os.path.join(self.model_dir, name))

    def _found(self):
        """(epoch, batch, name) of the checkpoints in the folder, the oldest first."""
        pattern = re.compile(
            re.escape(self.model_prefix) + r"-epoch(\d+)batch(\d+)\.params\Z"
        )
        matches = filter(None, map(pattern.match, os.listdir(self.model_dir)))
        return sorted(
            (int(m.group(1)), int(m.group(2)), m.group(0)[: -len(".params")])
            for m in matches
        )

    def _resume(self, estimator):
        found = self._found()
        self.saved_checkpoints = [name for _, _, name in found]
        if not found:
            self.trained_epoch = self.trained_batch = -1
            estimator.logger.info(
                "CheckpointHandler: No checkpoint found, training from scratch for %s",
                self._amount(estimator),
            )
            return
        self.trained_epoch, self.trained_batch, name = found[-1]
        for limit, trained, unit in (
            ("max_epoch", self.trained_epoch, "epoch"),
            ("max_batch", self.trained_batch, "batch"),
        ):
            wanted = getattr(estimator, limit)
            if not wanted:
                continue
            if trained >= wanted - 1:
                raise ValueError(
                    "Found checkpoint with maximum number of %s %d reached, please "
                    "specify resume_from_checkpoint=False (default value) if you "
                    "wan to train from scratch." % (unit, wanted)
                )
            setattr(estimator, limit, wanted - trained - 1)
        path = os.path.join(self.model_dir, name)
        check(
            os.path.exists(path + ".states"),
            "Failed to load checkpoint, %s.states does not exist",
            path,
        )
        estimator.net.load_parameters(path + ".params", ctx=estimator.context)
        estimator.trainer.load_states(path + ".states")
        estimator.logger.warning(
            "CheckpointHandler: Checkpoint resumed from epoch %d batch %d, "
            "continue to train for %s",
            self.trained_epoch,
            self.trained_batch,
            self._amount(estimator),
        )

    @staticmethod
    def _amount(estimator):
        if estimator.max_batch:
            return "%d batches" % estimator.max_batch
        return "%d epochs" % estimator.max_epoch
