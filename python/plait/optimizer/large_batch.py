"""SGD for large batches: rates scaled layer by layer (LARS) or warmed up (LBSGD)."""

import logging
import math

from .. import ndarray as nd
from .base import register
from .sgd import SGD, _Momentum


@register
class LARS(SGD):
    """SGD with rates eta * |w| / (|s*g| + wd*|w| + eps) relative to the global one.

    Parameters named ...gamma, ...beta or ...bias keep the global rate.
    momentum_correction scales the momentum when the rate changes.
    """

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

    def _decays(self, name):
        return name.endswith("_weight")

    def _get_lrs(self, indices):
        scheduler = self.lr_scheduler
        lr = self.lr if scheduler is None else scheduler(self.num_update)
        self.last_lr = lr if self.cur_lr is None else self.cur_lr
        self.cur_lr = lr
        return super()._get_lrs(indices)

    def _is_scaled(self, index):
        return not self.idx2name.get(index, str(index)).endswith(
            ("gamma", "beta", "bias")
        )

    def _options(self):
        options = super()._options()
        if self.momentum > 0 and self.momentum_correction and self.last_lr:
            options["momentum"] = self.momentum * (self.cur_lr / self.last_lr)
        return options

    def update_multi(self, indices, weights, grads, states):
        self._update_count(indices)
        lrs, wds = self._get_lrs(indices), self._get_wds(indices)
        scaled = [k for k, i in enumerate(indices) if self._is_scaled(i)]
        norms = _norms([weights[k] for k in scaled] + [grads[k] for k in scaled])
        for k, w_norm, g_norm in zip(scaled, norms, norms[len(scaled) :]):
            g_norm *= self.rescale_grad
            if w_norm > 0.0 and g_norm > 0.0:
                lrs[k] *= self.eta * w_norm / (g_norm + wds[k] * w_norm + self.eps)
        self._apply(weights, grads, states, lrs, wds, self._options())


def _norms(arrays):
    """The 2-norms of several arrays, with one wait."""
    if not arrays:
        return []
    norms = [
        nd.norm(a if a.dtype == "float32" else a.astype("float32")).reshape((1,))
        for a in arrays
    ]
    return nd.concat(*norms, dim=0).asnumpy().tolist()


@register
class LBSGD(_Momentum):
    """Averages `batch_scale` gradients into one step, with a warmed-up or layer-wise
    rate.
    """

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
        self.cumgrads = {}  # index -> [sum of gradients, how many were ever added]

    def _get_lbmult(self, nup):
        """The warm-up's multiplier after `nup` gradients."""
        steps = self.warmup_epochs * self.updates_per_epoch
        highest = float(self.batch_scale)
        if nup >= steps:
            return highest
        curve = {
            "linear": lambda x: x,
            "power2": lambda x: x * x,
            "sqrt": math.sqrt,
        }.get(self.warmup_strategy)
        if steps <= 1 or curve is None:
            return 1.0
        return 1.0 + (highest - 1) * curve(nup / float(steps))

    @staticmethod
    def _get_lars(weight, grad, wd):
        w_norm, g_norm = _norms([weight, grad])
        w2, g2 = w_norm**2, g_norm**2
        return min(max(math.sqrt(w2 / (g2 + wd * w2 + 1e-18)), 0.01), 100)

    def update(self, index, weight, grad, state):
        lr, wd = self._get_lr(index), self._get_wd(index)
        self._update_count(index)
        entry = self.cumgrads.setdefault(index, [None, self.init_updates])
        entry[0] = grad.copy() if entry[0] is None else entry[0] + grad
        entry[1] += 1
        if entry[1] % self.batch_scale != 0:
            return
        grad, entry[0] = entry[0] / self.batch_scale, None
        if self.warmup_strategy == "lars":
            lr *= self._get_lars(weight, grad, wd)
        else:
            lr *= self._get_lbmult(entry[1])
        options = dict(out=weight, lr=lr, wd=wd, **self._options())
        if self._uses_master(weight, state):
            momentum, master = state
            if momentum is None:
                nd.mp_sgd_update(weight, grad, master, **options)
            else:
                nd.mp_sgd_mom_update(weight, grad, momentum, master, **options)
        elif state is None:
            nd.sgd_update(weight, grad, **options)
        else:
            nd.sgd_mom_update(weight, grad, state, **options)

    update_multi_precision = update
