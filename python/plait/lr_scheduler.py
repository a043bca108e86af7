"""Learning-rate schedules: functions of the number of updates, with an optional
warm-up.
"""

import logging

from . import _plait as _core

__all__ = [
    "LRScheduler",
    "FactorScheduler",
    "MultiFactorScheduler",
    "PolyScheduler",
    "CosineScheduler",
]


class LRScheduler:
    """Base: a rate for each update number, warmed up over the first `warmup_steps`.

    warmup_mode "linear" goes from warmup_begin_lr to base_lr; "constant" stays at
    warmup_begin_lr until the warm-up ends.

    The arithmetic is in the core, which takes the attributes at each call. base_lr is
    the rate that the schedule has come to.
    """

    _kind = None  # the core's name; None: a subclass brings its own __call__

    def __init__(
        self, base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"
    ):
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_final_lr = base_lr
        self.warmup_mode = warmup_mode
        _core.schedule_check("constant", self)

    def get_warmup_lr(self, num_update):
        """The rate at an update inside the warm-up."""
        assert num_update < self.warmup_steps
        return _core.schedule_rate("constant", self, num_update)

    def __call__(self, num_update):
        if self._kind is None:
            raise NotImplementedError("must override this")
        return _core.schedule_rate(self._kind, self, num_update)


class _Stepping(LRScheduler):
    """Rates that change at some updates, which are logged."""

    def __call__(self, num_update):
        before = self.count
        rate = super().__call__(num_update)
        if self.count != before:
            logging.info("Update[%d]: Change learning rate to %0.5e", num_update, rate)
        return rate


class FactorScheduler(_Stepping):
    """Multiplies the rate by `factor` every `step` updates, down to stop_factor_lr."""

    _kind = "factor"

    def __init__(
        self,
        step,
        factor=1,
        stop_factor_lr=1e-8,
        base_lr=0.01,
        warmup_steps=0,
        warmup_begin_lr=0,
        warmup_mode="linear",
    ):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.step = step
        self.factor = factor
        self.stop_factor_lr = stop_factor_lr
        self.count = 0
        _core.schedule_check(self._kind, self)


class MultiFactorScheduler(_Stepping):
    """Multiplies the rate by `factor` after each of the update numbers in `step`."""

    _kind = "multifactor"

    def __init__(
        self,
        step,
        factor=1,
        base_lr=0.01,
        warmup_steps=0,
        warmup_begin_lr=0,
        warmup_mode="linear",
    ):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        assert isinstance(step, list) and step, "step must be a list of update numbers"
        self.step = step
        self.cur_step_ind = 0
        self.factor = factor
        self.count = 0
        _core.schedule_check(self._kind, self)


class _DecayTo(LRScheduler):
    """From base_lr to final_lr over max_update updates along a curve from 1 to 0."""

    def __init__(
        self, max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode
    ):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        assert isinstance(max_update, int), "max_update must be an int, got %r" % (
            max_update,
        )
        self.base_lr_orig = base_lr
        self.max_update = max_update
        self.final_lr = final_lr
        self.max_steps = max_update - warmup_steps


class PolyScheduler(_DecayTo):
    """Polynomial decay of power `pwr` to final_lr at update max_update."""

    _kind = "poly"

    def __init__(
        self,
        max_update,
        base_lr=0.01,
        pwr=2,
        final_lr=0,
        warmup_steps=0,
        warmup_begin_lr=0,
        warmup_mode="linear",
    ):
        super().__init__(
            max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode
        )
        self.power = pwr
        _core.schedule_check(self._kind, self)


class CosineScheduler(_DecayTo):
    """Half a cosine wave down to final_lr at update max_update."""

    _kind = "cosine"

    def __init__(
        self,
        max_update,
        base_lr=0.01,
        final_lr=0,
        warmup_steps=0,
        warmup_begin_lr=0,
        warmup_mode="linear",
    ):
        super().__init__(
            max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode
        )
        _core.schedule_check(self._kind, self)
