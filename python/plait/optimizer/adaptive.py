"""Rules that scale each element's step by the history of its gradients."""

from .base import Optimizer, register


@register
class AdaGrad(Optimizer):
    """h += g^2; w -= lr * (g / sqrt(h + eps) + wd*w).

    Rows that a row_sparse gradient lacks are left alone.
    """

    _rule = "adagrad"
    eps = property(lambda self: self.float_stable_eps)

    def __init__(self, eps=1e-7, **kwargs):
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def _is_lazy(self, weight):
        return True


@register
class RMSProp(Optimizer):
    """n = mean(G^2); w -= lr * G / sqrt(n + epsilon); centered takes mean(G)^2 off n.

    gamma1 is the mean's decay; gamma2 the momentum of the centered form. clip_weights
    limits the weights afterwards.
    """

    _rule = "rmsprop"

    def __init__(
        self,
        learning_rate=0.001,
        gamma1=0.9,
        gamma2=0.9,
        epsilon=1e-8,
        centered=False,
        clip_weights=None,
        **kwargs,
    ):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.epsilon = epsilon
        self.centered = centered
        self.clip_weights = clip_weights


@register
class AdaDelta(Optimizer):
    """Steps in proportion to earlier steps; it has no learning rate."""

    _rule = "adadelta"

    def __init__(self, rho=0.90, epsilon=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon


@register
class Ftrl(Optimizer):
    """Follow the regularised leader, with L1 weight lamda1."""

    _rule = "ftrl"

    def __init__(self, lamda1=0.01, learning_rate=0.1, beta=1, **kwargs):
        super().__init__(**kwargs)
        self.lr = learning_rate  # a scheduler's rate goes first, as in MXNet
        self.lamda1 = lamda1
        self.beta = beta

    def _is_lazy(self, weight):
        return weight.stype == "row_sparse"


@register
class Test(Optimizer):
    """w += s*g, for tests."""

    _rule = "test"

    def _update_count(self, index):
        """Updates are not counted, as in MXNet."""
