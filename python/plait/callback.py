"""Callbacks for fit loops: checkpoints, speed, progress and metrics in the log."""

import logging
import math
import sys
import time

__all__ = [
    "module_checkpoint",
    "do_checkpoint",
    "log_train_metric",
    "Speedometer",
    "ProgressBar",
    "LogValidationMetricsCallback",
]


def module_checkpoint(mod, prefix, period=1, save_optimizer_states=False):
    """An epoch-end callback that saves `mod` every `period` epochs."""
    period = max(1, int(period))

    def save(iter_no, sym=None, arg=None, aux=None):
        if (iter_no + 1) % period == 0:
            mod.save_checkpoint(prefix, iter_no + 1, save_optimizer_states)

    return save


def do_checkpoint(prefix, period=1):
    """An epoch-end callback that saves symbol and parameters every `period` epochs."""
    period = max(1, int(period))

    def save(iter_no, sym, arg, aux):
        if (iter_no + 1) % period == 0:
            from .model import save_checkpoint

            save_checkpoint(prefix, iter_no + 1, sym, arg, aux)

    return save


def log_train_metric(period, auto_reset=False):
    """A batch-end callback that logs the training metric every `period` batches."""

    def log(param):
        if param.nbatch % period == 0 and param.eval_metric is not None:
            for name, value in param.eval_metric.get_name_value():
                logging.info(
                    "Iter[%d] Batch[%d] Train-%s=%f",
                    param.epoch,
                    param.nbatch,
                    name,
                    value,
                )
            if auto_reset:
                param.eval_metric.reset_local()

    return log


class Speedometer:
    """Logs samples per second and metrics every `frequent` batches."""

    def __init__(self, batch_size, frequent=50, auto_reset=True):
        self.batch_size = batch_size
        self.frequent = frequent
        self.auto_reset = auto_reset
        self.init = False
        self.tic = 0
        self.last_count = 0

    def __call__(self, param):
        count = param.nbatch
        if count < self.last_count:  # a new epoch
            self.init = False
        self.last_count = count
        if not self.init:
            self.init, self.tic = True, time.time()
        elif count % self.frequent == 0:
            self._log(param, count)
            self.tic = time.time()

    def _log(self, param, count):
        elapsed = time.time() - self.tic
        speed = self.frequent * self.batch_size / elapsed if elapsed else float("inf")
        if param.eval_metric is None:
            logging.info(
                "Iter[%d] Batch [%d]\tSpeed: %.2f samples/sec",
                param.epoch,
                count,
                speed,
            )
            return
        pairs = param.eval_metric.get_name_value()
        first = 0
        if self.auto_reset:
            param.eval_metric.reset_local()
            first = count - self.frequent
        logging.info(
            "Epoch[%d] Batch [%d-%d]\tSpeed: %.2f samples/sec" + "\t%s=%f" * len(pairs),
            param.epoch,
            first,
            count,
            speed,
            *(x for pair in pairs for x in pair),
        )


class ProgressBar:
    """Shows how much of an epoch is done, and how long the rest may take.

    A bar that moves on a terminal; where the output goes to a file, plain log lines.
    Serves training (batch_end_callback) and evaluation (eval_batch_end_callback).
    """

    def __init__(self, total, length=80):
        self.bar_len = length
        self.total = total
        self._began, self._first = 0, 0

    def __call__(self, param):
        if not self._began or param.nbatch <= self._first:  # a new epoch
            self._began, self._first = time.monotonic(), param.nbatch
        batch = param.nbatch + (self._first == 0)  # Module counts from 0
        done = batch / float(self.total)
        filled = int(round(self.bar_len * min(done, 1)))
        bar = "[%s%s] %d%%" % (
            "=" * filled,
            "-" * (self.bar_len - filled),
            math.ceil(100 * done),
        )
        if not sys.stderr.isatty():
            logging.info(bar)
            return
        # What was on the line before may have been longer.
        bar += self._rest(batch) + "   "
        sys.stderr.write("\r" + bar + ("\n" if done >= 1 else ""))
        sys.stderr.flush()

    def _rest(self, batch):
        """The time that the batches left will take, once that can be told."""
        seen = batch - max(self._first, 1)  # since the first call
        if seen <= 0 or batch >= self.total:
            return ""
        each = (time.monotonic() - self._began) / seen
        seconds = round(each * (self.total - batch))
        return ", %d:%02d left" % divmod(seconds, 60)


class LogValidationMetricsCallback:
    """Logs the validation metrics at the end of an epoch."""

    def __call__(self, param):
        if param.eval_metric:
            for name, value in param.eval_metric.get_name_value():
                logging.info("Epoch[%d] Validation-%s=%f", param.epoch, name, value)
