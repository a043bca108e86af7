"""What transforms draw their random numbers from.

Within a DataLoader each sample has a generator of its own, a function of (seed, epoch,
number of the sample in the epoch): results do not depend on workers, nor on whether C++
makes the batch. Elsewhere it is NumPy's global generator.
"""

import math
import threading
import zlib

import numpy as np

from ... import _plait


class _Global:
    """NumPy's generator with the methods of SampleRandom."""

    @staticmethod
    def unit():
        return np.random.random()

    @staticmethod
    def uniform(low, high):
        return np.random.uniform(low, high)

    @staticmethod
    def whole(low, high):
        return int(np.random.randint(low, high + 1))

    @staticmethod
    def normal():
        return np.random.normal()


class _Local(threading.local):
    current = None


_GLOBAL = _Global()
_local = _Local()


def current():
    """unit() in [0, 1), uniform(low, high), whole(low, high) inclusive, normal()."""
    return _local.current or _GLOBAL


def shuffled(items):
    """A list of the items in random order."""
    items, chance = list(items), current()
    for i in range(len(items) - 1, 0, -1):
        j = chance.whole(0, i)
        items[i], items[j] = items[j], items[i]
    return items


def log_uniform(low, high):
    """Between two positive numbers, evenly by their ratio."""
    return math.exp(current().uniform(math.log(low), math.log(high)))


class of_sample:
    """Within it current() is the generator of one sample."""

    def __init__(self, place, number):
        self._random = _plait.SampleRandom(
            place.seed, place.epoch, place.first + number
        )

    def __enter__(self):
        self._before, _local.current = _local.current, self._random

    def __exit__(self, *_):
        _local.current = self._before


class Place:
    """Which numbers the samples of a batch have; `first` is that of the first one."""

    __slots__ = ("seed", "epoch", "first")

    def __init__(self, seed, epoch, first):
        self.seed, self.epoch, self.first = seed, epoch, first

    def batch_seed(self):
        """For generators that only know one seed for the whole batch."""
        return (self.seed + 7919 * self.epoch + 1000003 * self.first) & 0x7FFFFFFF


def seed_of_epoch():
    """A seed that NumPy's generator determines, without drawing from it: the order of
    samples must not depend on who asks.
    """
    state = np.random.get_state()
    return zlib.crc32(np.asarray(state[1]).tobytes(), state[2])
