"""SGD for large batches: rates scaled layer by layer (LARS) or warmed up (LBSGD)."""

import logging

from .. import _plait as _core
from .base import Optimizer, register
from .sgd import SGD


@register
class LARS(SGD):
    """SGD with rates eta * |w| / (|s*g| + wd*|w| + eps) relative to the global one.

    Parameters named ...gamma, ...beta or ...bias keep the global rate.
    momentum_correction scales the momentum when the rate changes.
    """

    _rule = "lars"

    def __init__(
        self,
        momentum=0.0,
        lazy_update=True,
        eta=0.001,
        eps=0,
        momentum_correction=True,
        **kwargs,
    ):
        super().__init__(momentum=momentum, lazy_update=lazy_update, **kwargs)
        self.momentum_correction = momentum_correction
        self.eta = eta
        self.eps = eps
        self.skip = 0
        self.last_lr = None
        self.cur_lr = None

    def _apply(self, indices, *arguments):
        names = [self.idx2name.get(i, str(i)) for i in indices]
        super()._apply(indices, *arguments, names, self.learning_rate)

    def _is_lazy(self, weight):
        return False  # the norms are of all rows


@register
class LBSGD(Optimizer):
    """Averages `batch_scale` gradients into one step, with a warmed-up or layer-wise
    rate.
    """

    _rule = "lbsgd"

    def __init__(
        self,
        momentum=0.0,
        multi_precision=False,
        warmup_strategy="linear",
        warmup_epochs=5,
        batch_scale=1,
        updates_per_epoch=32,
        begin_epoch=0,
        num_epochs=60,
        **kwargs,
    ):
        super().__init__(multi_precision=multi_precision, **kwargs)
        logging.info(
            "Running Large-Batch SGD Algorithm (batch_scale=%f, warmup_epochs=%d, "
            "warmup_strategy=%s, updates_per_epoch=%d)",
            batch_scale,
            warmup_epochs,
            warmup_strategy,
            updates_per_epoch,
        )
        self.momentum = momentum
        self.warmup_strategy = warmup_strategy
        self.warmup_epochs = warmup_epochs
        self.batch_scale = batch_scale
        self.updates_per_epoch = updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self.cumgrads = {}  # index -> sum of gradients since the last step

    # The sums belong to the optimizer, as in MXNet, and not to the states.

    def create_state(self, index, weight):
        momentum, _ = _core.rule_new_state(self._rule, self, weight, False)
        return momentum

    def _with_sum(self, index, weight, state):
        """What the rule keeps for a weight: a float32 copy, (momentum, sum)."""
        master = None
        if self.multi_precision and isinstance(state, (tuple, list)):
            master, state = state
        target = weight if master is None else master
        if index not in self.cumgrads:
            _, total = _core.rule_new_state(self._rule, self, target, False)
            self.cumgrads[index] = total
        own = (state, self.cumgrads[index])
        return own if master is None else (master, own)

    def _update_all(self, indices, weights, grads, states, mixed):
        for index, *arrays in zip(indices, weights, grads, states):
            # The rate is taken before the update is counted, as in MXNet.
            rates = [self._get_lr(index)], [self._get_wd(index)]
            self._update_count(index)
            self._apply((index,), *([x] for x in arrays), *rates, mixed)

    def _apply(self, indices, weights, grads, states, *arguments):
        states = [self._with_sum(*x) for x in zip(indices, weights, states)]
        super()._apply(indices, weights, grads, states, *arguments)
