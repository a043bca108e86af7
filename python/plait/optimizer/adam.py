"""Adam and the rules made after it."""

import math

import numpy as np

from .. import ndarray as nd
from . import fused
from .base import Optimizer, aggregation_size, register, zeros_like


class _TwoMoments(Optimizer):
    """Rules whose state is (mean, variance) of the gradient."""

    lazy_update = False

    def create_state(self, index, weight):
        stype = weight.stype if self.lazy_update else "default"
        return (zeros_like(weight, stype), zeros_like(weight, stype))


@register
class Adam(_TwoMoments):
    """G = clip(s*g + wd*w); w -= lr_t * mean(G) / (sqrt(mean(G^2)) + epsilon)."""

    def __init__(
        self,
        learning_rate=0.001,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-8,
        lazy_update=True,
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lazy_update = lazy_update

    def _rates(self, indices):
        """lr * sqrt(1 - beta2^t) / (1 - beta1^t) of each index."""
        counts = self._index_update_count
        factors = {}
        for t in {counts[i] for i in indices}:
            factors[t] = math.sqrt(1.0 - self.beta2**t) / (1.0 - self.beta1**t)
        return [
            lr * factors[counts[i]] for lr, i in zip(self._get_lrs(indices), indices)
        ]

    def _options(self):
        return self._gradient_options(
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            lazy_update=self.lazy_update,
        )

    def update(self, index, weight, grad, state):
        self._update_count(index)
        mean, variance = state
        nd.adam_update(
            weight,
            grad,
            mean,
            variance,
            out=weight,
            lr=self._rates((index,))[0],
            wd=self._get_wd(index),
            **self._options(),
        )

    def update_multi(self, indices, weights, grads, states):
        own = type(self).update is not Adam.update  # a subclass with its own rule
        if own or (self.multi_precision and weights[0].dtype == np.float16):
            super().update_multi(indices, weights, grads, states)
            return
        self._update_count(indices)
        means, variances = zip(*states)
        fused.adam(
            weights,
            grads,
            means,
            variances,
            self._rates(indices),
            self._get_wds(indices),
            **self._options(),
        )


@register
class Adamax(_TwoMoments):
    """Adam with the infinity norm instead of the variance."""

    def __init__(self, learning_rate=0.002, beta1=0.9, beta2=0.999, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2

    def update(self, index, weight, grad, state):
        self._update_count(index)
        lr = self._get_lr(index) / (1.0 - self.beta1 ** self._index_update_count[index])
        grad = _decayed(self, index, weight, grad)
        mean, norm = state
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * grad
        norm[:] = nd.maximum(self.beta2 * norm, nd.abs(grad))
        weight[:] -= lr * mean / norm


@register
class Nadam(_TwoMoments):
    """Adam with Nesterov's momentum; the momentum schedule is shared by all
    parameters.
    """

    def __init__(
        self,
        learning_rate=0.001,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-8,
        schedule_decay=0.004,
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    def _momentum(self, t):
        return self.beta1 * (1.0 - 0.5 * pow(0.96, t * self.schedule_decay))

    def update(self, index, weight, grad, state):
        self._update_count(index)
        lr, t = self._get_lr(index), self._index_update_count[index]
        grad = _decayed(self, index, weight, grad)
        now, following = self._momentum(t), self._momentum(t + 1)
        self.m_schedule *= now
        mean, variance = state
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * grad
        variance[:] = self.beta2 * variance + (1.0 - self.beta2) * grad * grad
        grad_part = grad / (1.0 - self.m_schedule)
        mean_part = mean / (1.0 - self.m_schedule * following)
        corrected = variance / (1.0 - pow(self.beta2, t))
        step = (1.0 - now) * grad_part + following * mean_part
        weight[:] -= lr * step / (nd.sqrt(corrected) + self.epsilon)


def _decayed(optimizer, index, weight, grad):
    """clip(s*g + wd*w): decay goes inside the clipping in these rules."""
    grad = grad * optimizer.rescale_grad + optimizer._get_wd(index) * weight
    limit = optimizer.clip_gradient
    return grad if limit is None else nd.clip(grad, -limit, limit)


@register
class FTML(Optimizer):
    """Follow the moving leader."""

    def __init__(self, beta1=0.6, beta2=0.999, epsilon=1e-8, **kwargs):
        super().__init__(**kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon

    def create_state(self, index, weight):
        return (zeros_like(weight), zeros_like(weight), zeros_like(weight))  # d, v, z

    def update(self, index, weight, grad, state):
        self._update_count(index)
        d, v, z = state
        options = {"clip_grad": self.clip_gradient} if self.clip_gradient else {}
        nd.ftml_update(
            weight,
            grad,
            d,
            v,
            z,
            out=weight,
            lr=self._get_lr(index),
            wd=self._get_wd(index),
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            rescale_grad=self.rescale_grad,
            t=self._index_update_count[index],
            **options,
        )


@register
class LAMB(_TwoMoments):
    """Adam's step, scaled layer by layer to the norm of the weight, for
    large batches.
    """

    def __init__(
        self,
        learning_rate=0.001,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-6,
        lower_bound=None,
        upper_bound=None,
        bias_correction=True,
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        self.bias_correction = bias_correction
        self.lazy_update = True  # states have the weight's storage type
        self.aggregate_num = max(1, min(45, aggregation_size(45)))

    def _options(self):
        return self._gradient_options(
            beta1=self.beta1,
            beta2=self.beta2,
            epsilon=self.epsilon,
            bias_correction=self.bias_correction,
        )

    def _bounds(self):
        bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        return {name: value for name, value in bounds.items() if value}

    def _uses_master(self, weight):
        return self.multi_precision and weight.dtype == np.float16

    def update(self, index, weight, grad, state):
        self._update_count(index)
        options = dict(
            wd=self._get_wd(index), t=self._index_update_count[index], **self._options()
        )
        bounds = dict(lr=self._get_lr(index), out=weight, **self._bounds())
        if self._uses_master(weight):
            master, (mean, variance) = state
            step = nd.mp_lamb_update_phase1(
                weight, grad, mean, variance, master, **options
            )
            nd.mp_lamb_update_phase2(
                weight, step, master.norm(), step.norm(), master, **bounds
            )
        else:
            mean, variance = state
            step = nd.lamb_update_phase1(weight, grad, mean, variance, **options)
            nd.lamb_update_phase2(weight, step, weight.norm(), step.norm(), **bounds)

    def update_multi_precision(self, index, weight, grad, state):
        if isinstance(index, (tuple, list)):
            self.update_multi(index, weight, grad, state)
        else:
            self.update(index, weight, grad, state)

    def update_multi(self, indices, weights, grads, states):
        if self.aggregate_num <= 1 or len(indices) == 1:
            for arguments in zip(indices, weights, grads, states):
                self.update(*arguments)
            return
        self._update_count(indices)
        masters = None
        if self._uses_master(weights[0]):
            masters, states = zip(*states)
        means, variances = zip(*states)
        fused.lamb(
            weights,
            grads,
            means,
            variances,
            masters,
            self._get_lrs(indices),
            wds=self._get_wds(indices),
            step_count=[self._index_update_count[i] for i in indices],
            **self._options(),
            **self._bounds(),
        )
