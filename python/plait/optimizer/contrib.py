"""Optimizers outside the common set."""

from .. import ndarray as nd
from ..error import check
from .base import Optimizer, register

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one history for each row of a matrix; no weight decay."""

    def __init__(self, eps=1e-5, **kwargs):
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index, weight):
        check(
            len(weight.shape) == 2,
            "GroupAdaGrad: got a weight of shape %s; expected two axes",
            weight.shape,
        )
        more = {} if weight.stype == "default" else {"stype": weight.stype}
        return nd.zeros((weight.shape[0], 1), weight.context, **more)

    def update(self, index, weight, grad, state):
        self._update_count(index)
        lr = self._get_lr(index)
        check(
            self._get_wd(index) == 0, "Weight decay is not supported for GroupAdaGrad"
        )
        if grad.stype == "row_sparse":
            nd.contrib.group_adagrad_update(
                weight,
                grad,
                state,
                out=weight,
                lr=lr,
                **self._gradient_options(epsilon=self.float_stable_eps),
            )
            return
        grad = self._clipped(grad)
        state[:] += nd.mean(nd.square(grad), axis=1, keepdims=True)
        weight[:] -= lr * grad / nd.sqrt(state + self.float_stable_eps)
