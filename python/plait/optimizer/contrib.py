"""Optimizers outside the common set."""

from .base import Optimizer, register

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one history for each row of a matrix; no weight decay."""

    _rule = "groupadagrad"
    eps = property(lambda self: self.float_stable_eps)

    def __init__(self, eps=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.float_stable_eps = eps
