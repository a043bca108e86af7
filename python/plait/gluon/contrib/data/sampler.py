"""More samplers."""

from ....error import check
from ...data import sampler

__all__ = ["IntervalSampler"]


class IntervalSampler(sampler.Sampler):
    """0, interval, 2*interval, ...; with rollover then 1, 1 + interval, ...
    and so on.
    """

    def __init__(self, length, interval, rollover=True):
        check(
            interval <= length,
            "Interval %d must be smaller than or equal to length %d",
            interval,
            length,
        )
        self._length = length
        self._interval = interval
        self._rollover = rollover

    def __iter__(self):
        for first in range(self._interval if self._rollover else 1):
            yield from range(first, self._length, self._interval)

    def __len__(self):
        return self._length if self._rollover else -(-self._length // self._interval)
