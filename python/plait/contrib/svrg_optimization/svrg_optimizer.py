"""The optimizer of an SVRGModule in a store: some keys hold weights, others mean
gradients."""

from ... import optimizer as _optimizer

_BASE = frozenset(
    (
        "rescale_grad", "param_idx2name", "wd", "clip_gradient", "learning_rate",
        "lr_scheduler", "sym", "begin_num_update", "multi_precision", "param_dict",
    )
)  # fmt: skip


@_optimizer.register
class _AssignmentOptimizer(_optimizer.Optimizer):
    """Sets the weight to the gradient."""

    def update(self, index, weight, grad, state):
        weight[:] = grad


@_optimizer.register
class _SVRGOptimizer(_optimizer.Optimizer):
    """Updates weights by default_optimizer, a name or an Optimizer; keys whose name
    ends in "_full" are set to what is pushed."""

    def __init__(self, default_optimizer, **kwargs):
        super().__init__(**{k: v for k, v in kwargs.items() if k in _BASE})
        if isinstance(default_optimizer, str):
            default_optimizer = _optimizer.create(default_optimizer, **kwargs)
        self.default_opt = default_optimizer
        self.aux_opt = _AssignmentOptimizer()

    def _for(self, index):
        name = index if isinstance(index, str) else self.idx2name[index]
        return self.aux_opt if name.endswith("_full") else self.default_opt

    def create_state(self, index, weight):
        return self._for(index).create_state(index, weight)

    def update(self, index, weight, grad, state):
        self._for(index).update(index, weight, grad, state)
