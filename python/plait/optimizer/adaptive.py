"""Rules that scale each element's step by the history of its gradients."""

from .. import ndarray as nd
from .base import Optimizer, register, zeros_like


@register
class AdaGrad(Optimizer):
    """h += g^2; w -= lr * (g / sqrt(h + eps) + wd*w)."""

    def __init__(self, eps=1e-7, **kwargs):
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index, weight):
        return zeros_like(weight, weight.stype, dtype="float32")

    def update(self, index, weight, grad, state):
        self._update_count(index)
        lr, wd = self._get_lr(index), self._get_wd(index)
        if grad.stype == "row_sparse":
            nd.sparse.adagrad_update(
                weight,
                grad,
                state,
                out=weight,
                lr=lr,
                wd=wd,
                **self._gradient_options(epsilon=self.float_stable_eps),
            )
            return
        grad = self._clipped(grad)
        state[:] += nd.square(grad)
        step = grad / nd.sqrt(state + self.float_stable_eps)
        weight[:] += (step + weight * wd) * -lr


@register
class RMSProp(Optimizer):
    """n = mean(G^2); w -= lr * G / sqrt(n + epsilon); centered takes mean(G)^2 off n.

    gamma1 is the mean's decay; gamma2 the momentum of the centered form. clip_weights
    limits the weights afterwards.
    """

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

    def create_state(self, index, weight):
        return tuple(
            zeros_like(weight, weight.stype, dtype="float32")
            for _ in range(3 if self.centered else 1)
        )

    def update(self, index, weight, grad, state):
        self._update_count(index)
        options = self._gradient_options(gamma1=self.gamma1, epsilon=self.epsilon)
        if self.clip_weights:
            options["clip_weights"] = self.clip_weights
        options.update(out=weight, lr=self._get_lr(index), wd=self._get_wd(index))
        if self.centered:
            n, g, delta = state
            nd.rmspropalex_update(
                weight, grad, n, g, delta, gamma2=self.gamma2, **options
            )
        else:
            nd.rmsprop_update(weight, grad, state[0], **options)


@register
class AdaDelta(Optimizer):
    """Steps in proportion to earlier steps; it has no learning rate."""

    def __init__(self, rho=0.90, epsilon=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def create_state(self, index, weight):
        return (
            zeros_like(weight, dtype="float32"),
            zeros_like(weight, dtype="float32"),
        )

    def update(self, index, weight, grad, state):
        wd = self._get_wd(index)
        self._update_count(index)
        grad = self._clipped(grad)
        squares, steps = state
        squares[:] = self.rho * squares + (1.0 - self.rho) * grad * grad
        step = nd.sqrt(steps + self.epsilon) / nd.sqrt(squares + self.epsilon) * grad
        steps[:] = self.rho * steps + (1.0 - self.rho) * step * step
        weight[:] -= step + wd * weight


@register
class Ftrl(Optimizer):
    """Follow the regularised leader, with L1 weight lamda1."""

    def __init__(self, lamda1=0.01, learning_rate=0.1, beta=1, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.lamda1 = lamda1
        self.beta = beta

    def create_state(self, index, weight):
        return (
            zeros_like(weight, weight.stype, dtype="float32"),
            zeros_like(weight, weight.stype, dtype="float32"),
        )  # z, n

    def update(self, index, weight, grad, state):
        self._update_count(index)
        z, n = state
        nd.ftrl_update(
            weight,
            grad,
            z,
            n,
            out=weight,
            lr=self._get_lr(index),
            wd=self._get_wd(index),
            **self._gradient_options(lamda1=self.lamda1, beta=self.beta),
        )


@register
class Test(Optimizer):
    """w += s*g, for tests."""

    def create_state(self, index, weight):
        return zeros_like(weight, dtype="float32")

    def update(self, index, weight, grad, state):
        weight[:] += grad * self.rescale_grad
        state[:] = weight
