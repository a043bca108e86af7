"""Learning-rate schedules: functions of the number of updates, with an optional
warm-up.
"""

import logging
from math import cos, pi

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
    """

    def __init__(
        self, base_lr=0.01, warmup_steps=0, warmup_begin_lr=0, warmup_mode="linear"
    ):
        if not isinstance(warmup_steps, int) or warmup_steps < 0:
            raise ValueError(
                "Warmup steps has to be positive or 0, got %r" % (warmup_steps,)
            )
        if warmup_begin_lr > base_lr:
            raise ValueError(
                "Base lr has to be higher than warmup_begin_lr, got %g and %g"
                % (base_lr, warmup_begin_lr)
            )
        if warmup_mode not in ("linear", "constant"):
            raise ValueError(
                "Supports only linear and constant modes of warmup, got %r"
                % (warmup_mode,)
            )
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_final_lr = base_lr
        self.warmup_mode = warmup_mode

    def get_warmup_lr(self, num_update):
        """The rate at an update inside the warm-up."""
        assert num_update < self.warmup_steps
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        done = num_update / float(self.warmup_steps)
        return (
            self.warmup_begin_lr + (self.warmup_final_lr - self.warmup_begin_lr) * done
        )

    def __call__(self, num_update):
        raise NotImplementedError("must override this")


class FactorScheduler(LRScheduler):
    """Multiplies the rate by `factor` every `step` updates, down to stop_factor_lr."""

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
        if step < 1:
            raise ValueError(
                "Schedule step must be greater or equal than 1 round, got %r" % (step,)
            )
        if factor > 1.0:
            raise ValueError(
                "Factor must be no more than 1 to make lr reduce, got %r" % (factor,)
            )
        self.step = step
        self.factor = factor
        self.stop_factor_lr = stop_factor_lr
        self.count = 0

    def __call__(self, num_update):
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        # A loop, as a resumed run may start many steps on.
        while num_update > self.count + self.step:
            self.count += self.step
            self.base_lr *= self.factor
            if self.base_lr < self.stop_factor_lr:
                self.base_lr = self.stop_factor_lr
                logging.info(
                    "Update[%d]: now learning rate arrived at %0.5e, will not change "
                    "in the future",
                    num_update,
                    self.base_lr,
                )
            else:
                logging.info(
                    "Update[%d]: Change learning rate to %0.5e",
                    num_update,
                    self.base_lr,
                )
        return self.base_lr


class MultiFactorScheduler(LRScheduler):
    """Multiplies the rate by `factor` after each of the update numbers in `step`."""

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
        if step[0] < 1:
            raise ValueError(
                "Schedule step must be greater or equal than 1 round, got %r" % (step,)
            )
        if any(b <= a for a, b in zip(step, step[1:])):
            raise ValueError(
                "Schedule step must be an increasing integer list, got %r" % (step,)
            )
        if factor > 1.0:
            raise ValueError(
                "Factor must be no more than 1 to make lr reduce, got %r" % (factor,)
            )
        self.step = step
        self.cur_step_ind = 0
        self.factor = factor
        self.count = 0

    def __call__(self, num_update):
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        while (
            self.cur_step_ind < len(self.step)
            and num_update > self.step[self.cur_step_ind]
        ):
            self.count = self.step[self.cur_step_ind]
            self.cur_step_ind += 1
            self.base_lr *= self.factor
            logging.info(
                "Update[%d]: Change learning rate to %0.5e", num_update, self.base_lr
            )
        return self.base_lr


class _DecayTo(LRScheduler):
    """From base_lr to final_lr over max_update updates along a curve from 1 to 0."""

    def __init__(
        self, max_update, base_lr, final_lr, warmup_steps, warmup_begin_lr, warmup_mode
    ):
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        assert isinstance(max_update, int), "max_update must be an int, got %r" % (
            max_update,
        )
        if max_update < 1:
            raise ValueError(
                "maximum number of updates must be strictly positive, got %d"
                % max_update
            )
        self.base_lr_orig = base_lr
        self.max_update = max_update
        self.final_lr = final_lr
        self.max_steps = max_update - warmup_steps

    def _curve(self, done):
        raise NotImplementedError

    def __call__(self, num_update):
        if num_update < self.warmup_steps:
            return self.get_warmup_lr(num_update)
        if num_update <= self.max_update:
            done = (num_update - self.warmup_steps) / float(self.max_steps)
            self.base_lr = self.final_lr + (
                self.base_lr_orig - self.final_lr
            ) * self._curve(done)
        return self.base_lr


class PolyScheduler(_DecayTo):
    """Polynomial decay of power `pwr` to final_lr at update max_update."""

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

    def _curve(self, done):
        return pow(1 - done, self.power)


class CosineScheduler(_DecayTo):
    """Half a cosine wave down to final_lr at update max_update."""

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

    def _curve(self, done):
        return (1 + cos(pi * done)) / 2
