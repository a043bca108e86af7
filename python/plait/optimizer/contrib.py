"""Optimizers outside the common set."""

from .base import Optimizer, register

__all__ = ["AdamW", "GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one history for each row of a matrix; no weight decay."""

    _rule = "groupadagrad"
    eps = property(lambda self: self.float_stable_eps)

    def __init__(self, eps=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def _is_lazy(self, weight):
        return True


@register
class AdamW(Optimizer):
    """Adam with decoupled decay: w -= lr_t * (mean(G) / (sqrt(mean(G^2)) + epsilon)
    + wd*w), with G = clip(s*g).
    """

    _rule = "adamw"

    def __init__(
        self,
        learning_rate=0.001,
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-6,
        correct_bias=True,
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.correct_bias = correct_bias
