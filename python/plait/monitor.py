"""Monitor: a statistic of all operators' outputs and the arguments, now and then."""

import logging
import re
from math import sqrt

from . import ndarray as nd
from .error import MXNetTypeError

__all__ = ["Monitor"]


def _scaled_norm(x):
    """The norm by the square root of the size: the root of the mean square."""
    return nd.norm(x) / sqrt(x.size)


class Monitor:
    """Collects (batch, name, text of the statistic) in every `interval`-th batch.

    stat_func gives an NDArray, or a list of them, for an array. Only names that
    `pattern` matches at their beginning count. monitor_all=True: operators' inputs too.
    """

    def __init__(
        self, interval, stat_func=None, pattern=".*", sort=False, monitor_all=False
    ):
        self.interval = interval
        self.stat_func = stat_func or _scaled_norm
        self.re_prog = re.compile(pattern)
        self.sort = sort
        self.monitor_all = monitor_all
        self.activated = False
        self.queue = []
        self.step = 0
        self.exes = []

    def stat_helper(self, name, array):
        """What executors call with each name and array."""
        if self.activated and self.re_prog.match(name):
            self.queue.append((self.step, name, self.stat_func(array)))

    def install(self, exe):
        """Watches an executor."""
        exe.set_monitor_callback(self.stat_helper, self.monitor_all)
        self.exes.append(exe)

    def tic(self):
        """Before a batch: starts to collect, if it is one of those to look at."""
        if self.step % self.interval == 0:
            self.queue = []
            self.activated = True
        self.step += 1

    def toc(self):
        """After the batch: what was collected, arguments and auxiliary states last."""
        if not self.activated:
            return []
        for exe in self.exes:
            for arrays in (exe.arg_dict, exe.aux_dict):
                for name, array in arrays.items():
                    self.stat_helper(name, array)
        self.activated = False
        queue, self.queue = self.queue, []
        if self.sort:
            queue.sort(key=lambda entry: entry[1])
        return [(step, name, _text(name, stat)) for step, name, stat in queue]

    def toc_print(self):
        """Logs what toc() gives."""
        for step, name, text in self.toc():
            logging.info("Batch: %7d %30s %s", step, name, text)


def _text(name, stat):
    parts = []
    for value in stat if isinstance(stat, (list, tuple)) else [stat]:
        if not isinstance(value, nd.NDArray):
            raise MXNetTypeError(
                "Monitor: stat_func gave a %s for %s; expected an NDArray"
                % (type(value).__name__, name)
            )
        values = value.asnumpy()
        parts.append(str(values.item() if values.size == 1 else values))
    return "".join(part + "\t" for part in parts)
