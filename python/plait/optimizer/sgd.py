"""Stochastic gradient descent and its relatives."""

from .base import Optimizer, aggregation_size, register


@register
class SGD(Optimizer):
    """w -= lr * (clip(s*g) + wd*w); with momentum m = mu*m - that, w += m.

    lazy_update: rows that a row_sparse gradient lacks are left alone, decay included.
    """

    _rule = "sgd"

    def __init__(self, momentum=0.0, lazy_update=True, **kwargs):
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lazy_update = lazy_update
        self.aggregate_num = aggregation_size(1024)


@register
class ccSGD(SGD):
    """[deprecated] SGD."""


@register
class NAG(Optimizer):
    """Nesterov's accelerated gradient."""

    _rule = "nag"

    def __init__(self, momentum=0.0, **kwargs):
        super().__init__(**kwargs)
        self.momentum = momentum


@register
class Signum(Optimizer):
    """Steps by the sign of the momentum, or of the gradient where momentum is 0.

    wd_lh decays weights outside the sign.
    """

    _rule = "signum"

    def __init__(self, learning_rate=0.01, momentum=0.9, wd_lh=0.0, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh


@register
class SGLD(Optimizer):
    """Stochastic gradient Langevin dynamics: half a step, plus noise N(0, sqrt(lr))."""

    _rule = "sgld"


@register
class DCASGD(Optimizer):
    """Delay-compensated asynchronous SGD: the gradient is corrected by how
    far w moved.
    """

    _rule = "dcasgd"

    def __init__(self, momentum=0.0, lamda=0.04, **kwargs):
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lamda = lamda
