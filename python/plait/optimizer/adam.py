"""Adam and the rules made after it."""

from .base import Optimizer, aggregation_size, register


@register
class Adam(Optimizer):
    """G = clip(s*g + wd*w); w -= lr_t * mean(G) / (sqrt(mean(G^2)) + epsilon).

    lazy_update: rows that a row_sparse gradient lacks are left alone, decay included.
    """

    _rule = "adam"

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


@register
class Adamax(Optimizer):
    """Adam with the infinity norm instead of the variance."""

    _rule = "adamax"

    def __init__(self, learning_rate=0.002, beta1=0.9, beta2=0.999, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2


@register
class Nadam(Optimizer):
    """Adam with Nesterov's momentum; the momentum schedule is shared by all
    parameters.
    """

    _rule = "nadam"

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


@register
class FTML(Optimizer):
    """Follow the moving leader."""

    _rule = "ftml"

    def __init__(self, beta1=0.6, beta2=0.999, epsilon=1e-8, **kwargs):
        super().__init__(**kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon


@register
class LAMB(Optimizer):
    """Adam's step, scaled layer by layer to the norm of the weight, for
    large batches.
    """

    _rule = "lamb"

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
        self.aggregate_num = max(1, min(45, aggregation_size(45)))
