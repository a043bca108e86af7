"""plait.contrib.tensorboard: a callback that writes metrics for TensorBoard."""

import importlib

__all__ = ["LogMetricsCallback"]

# Whichever is installed: each has a SummaryWriter with add_scalar().
_WRITERS = ("mxboard", "tensorboardX", "torch.utils.tensorboard")


def _writer(folder):
    for name in _WRITERS:
        try:
            return importlib.import_module(name).SummaryWriter(folder)
        except ImportError:
            continue
    raise ImportError(
        "LogMetricsCallback: none of the packages %s is installed; one of them writes "
        "the files" % ", ".join(_WRITERS)
    )


class LogMetricsCallback:
    """Writes the metrics of a batch or of an evaluation to logging_dir.

    A prefix, where given, stands before the name of each curve.
    """

    def __init__(self, logging_dir, prefix=None):
        self.prefix = prefix
        self.summary_writer = _writer(logging_dir)

    def __call__(self, param):
        """A batch or evaluation callback of fit() or score()."""
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            if self.prefix is not None:
                name = "%s-%s" % (self.prefix, name)
            self.summary_writer.add_scalar(name, value, global_step=param.epoch)
