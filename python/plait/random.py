"""Random numbers: the seed, and the samplers of plait.nd.random."""

from . import _plait
from .ndarray import random as _random
from .ndarray.random import *  # noqa: F401, F403

__all__ = _random.__all__ + ["seed"]


def seed(seed_state=None, ctx="all"):
    """Starts the generators afresh: all devices', or one's.

    Without a number a new one is taken from the system, so that runs differ.
    """
    if seed_state is None:
        import secrets

        seed_state = secrets.randbits(63)
    number = int(seed_state) & 0xFFFFFFFFFFFFFFFF
    if ctx == "all":
        _plait.seed(number)
    else:
        _plait.seed_device(number, ctx.device_typeid, ctx.device_id)
