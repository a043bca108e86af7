"""Stochastic gradient descent and its relatives."""

import math

import numpy as np

from .. import ndarray as nd
from .. import random
from . import fused
from .base import Optimizer, aggregation_size, register, zeros_like


class _Momentum(Optimizer):
    """Rules whose state is a momentum, then a float32 copy of a float16 weight."""

    momentum = 0.0
    lazy_update = False

    def create_state_multi_precision(self, index, weight):
        if self._wants_master(weight):
            master = weight.astype(np.float32)
            return (self.create_state(index, master), master)
        return self.create_state(index, weight)

    def create_state(self, index, weight):
        if self.momentum == 0.0:
            return None
        return zeros_like(weight, weight.stype if self.lazy_update else "default")

    def _uses_master(self, weight, state):
        return (
            self.multi_precision
            and weight.dtype == np.float16
            and isinstance(state, (tuple, list))
        )

    def _options(self):
        options = self._gradient_options()
        if self.momentum > 0:
            options["momentum"] = self.momentum
        return options


@register
class SGD(_Momentum):
    """w -= lr * (clip(s*g) + wd*w); with momentum m = mu*m - that, w += m.

    lazy_update: rows that a row_sparse gradient lacks are left alone, decay included.
    """

    def __init__(self, momentum=0.0, lazy_update=True, **kwargs):
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lazy_update = lazy_update
        self.aggregate_num = aggregation_size(45)

    def update_multi(self, indices, weights, grads, states):
        self._update_count(indices)
        lrs, wds = self._get_lrs(indices), self._get_wds(indices)
        self._apply(weights, grads, states, lrs, wds, self._options())

    def _apply(self, weights, grads, states, lrs, wds, options):
        """The update with given rates, fused where all arrays are dense."""
        for weight, grad in zip(weights, grads):
            if weight.stype != "default" or grad.stype != "default":
                for arguments in zip(weights, grads, states, lrs, wds):
                    self._apply_one(*arguments, options)
                return
        momenta = masters = None
        if self._uses_master(weights[0], states[0]):
            masters = [state[1] for state in states]
            states = [state[0] for state in states]
        if self.momentum > 0:
            momenta = states
        fused.sgd(weights, grads, momenta, masters, lrs, wds, **options)

    def _apply_one(self, weight, grad, state, lr, wd, options):
        if self._uses_master(weight, state):
            momentum, master = state
            if momentum is None:
                nd.mp_sgd_update(
                    weight, grad, master, out=weight, lr=lr, wd=wd, **options
                )
            else:
                nd.mp_sgd_mom_update(
                    weight, grad, momentum, master, out=weight, lr=lr, wd=wd, **options
                )
        elif state is None:
            nd.sgd_update(
                weight,
                grad,
                out=weight,
                lazy_update=self.lazy_update,
                lr=lr,
                wd=wd,
                **options,
            )
        else:
            nd.sgd_mom_update(
                weight,
                grad,
                state,
                out=weight,
                lazy_update=self.lazy_update,
                lr=lr,
                wd=wd,
                **options,
            )

    def update(self, index, weight, grad, state):
        if isinstance(index, (tuple, list)):
            self.update_multi(index, weight, grad, state)
        else:
            self.update_multi((index,), (weight,), (grad,), (state,))

    update_multi_precision = update


@register
class ccSGD(SGD):
    """[deprecated] SGD."""


@register
class NAG(_Momentum):
    """Nesterov's accelerated gradient."""

    def __init__(self, momentum=0.0, **kwargs):
        super().__init__(**kwargs)
        self.momentum = momentum

    def update(self, index, weight, grad, state):
        self._update_count(index)
        options = self._options()
        options.update(out=weight, lr=self._get_lr(index), wd=self._get_wd(index))
        if self._uses_master(weight, state):
            momentum, master = state
            if momentum is None:
                nd.mp_sgd_update(weight, grad, master, **options)
            else:
                nd.mp_nag_mom_update(weight, grad, momentum, master, **options)
        elif state is None:
            nd.sgd_update(weight, grad, **options)
        else:
            nd.nag_mom_update(weight, grad, state, **options)

    update_multi_precision = update


@register
class Signum(_Momentum):
    """Steps by the sign of the momentum, or of the gradient where momentum is 0.

    wd_lh decays weights outside the sign.
    """

    def __init__(self, learning_rate=0.01, momentum=0.9, wd_lh=0.0, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    create_state_multi_precision = Optimizer.create_state_multi_precision

    def create_state(self, index, weight):
        return None if self.momentum == 0.0 else zeros_like(weight, weight.stype)

    def update(self, index, weight, grad, state):
        self._update_count(index)
        options = self._options()
        if self.wd_lh:
            options["wd_lh"] = self.wd_lh
        options.update(out=weight, lr=self._get_lr(index), wd=self._get_wd(index))
        if state is None:
            nd.signsgd_update(weight, grad, **options)
        else:
            nd.signum_update(weight, grad, state, **options)


@register
class SGLD(Optimizer):
    """Stochastic gradient Langevin dynamics: half a step, plus noise N(0, sqrt(lr))."""

    def update(self, index, weight, grad, state):
        self._update_count(index)
        lr, wd = self._get_lr(index), self._get_wd(index)
        grad = self._clipped(grad)
        weight[:] += -lr / 2 * (grad + wd * weight)
        weight[:] += random.normal(
            0, math.sqrt(lr), shape=weight.shape, dtype=weight.dtype, ctx=weight.context
        )


@register
class DCASGD(Optimizer):
    """Delay-compensated asynchronous SGD: the gradient is corrected by how
    far w moved.
    """

    def __init__(self, momentum=0.0, lamda=0.04, **kwargs):
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lamda = lamda

    def create_state(self, index, weight):
        return (None if self.momentum == 0.0 else zeros_like(weight), weight.copy())

    def update(self, index, weight, grad, state):
        self._update_count(index)
        lr, wd = self._get_lr(index), self._get_wd(index)
        grad = self._clipped(grad)
        momentum, previous = state
        step = -lr * (
            grad + wd * weight + self.lamda * grad * grad * (weight - previous)
        )
        if momentum is not None:
            momentum[:] = self.momentum * momentum + step
            step = momentum
        previous[:] = weight
        weight[:] += step
