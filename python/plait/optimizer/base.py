"""Optimizer: the base of all update rules; learning rates, weight decay and update
counts.
"""

import json
import os
import warnings

import numpy as np

from .. import _plait as _core
from .. import ndarray as nd
from ..error import check
from ..ndarray._sparse_update import update as sparse_update
from ..util import is_np_array


class Optimizer:
    """Updates weights in place. Subclasses implement create_state() and update().

    rescale_grad multiplies every gradient first; clip_gradient then limits each
    element. The rate is learning_rate, or lr_scheduler's at the number of updates,
    times the parameter's multiplier; weight decay wd likewise. multi_precision keeps
    float32 copies of float16 weights. param_idx2name names the indices; param_dict
    gives their Parameters.

    The arithmetic of Plait's own classes is in the core, which takes their attributes
    at each update; a subclass may override update() and create_state().
    """

    opt_registry = {}
    _rule = None  # the core's name of the arithmetic; None: a subclass brings its own

    def __init__(
        self,
        rescale_grad=1.0,
        param_idx2name=None,
        wd=0.0,
        clip_gradient=None,
        learning_rate=None,
        lr_scheduler=None,
        sym=None,
        begin_num_update=0,
        multi_precision=False,
        param_dict=None,
    ):
        self.rescale_grad = rescale_grad
        self.lr_scheduler = lr_scheduler
        if lr_scheduler is None:
            self.lr = 0.01 if learning_rate is None else learning_rate
        else:
            self.lr = learning_rate
            if learning_rate is not None and lr_scheduler.base_lr != learning_rate:
                warnings.warn(
                    "learning rate from ``lr_scheduler`` has been overwritten by "
                    "``learning_rate`` in optimizer.",
                    stacklevel=3,
                )
                lr_scheduler.base_lr = learning_rate
        self.wd = wd
        self.clip_gradient = clip_gradient
        self.multi_precision = multi_precision
        self.aggregate_num = 0
        self.begin_num_update = begin_num_update
        self.num_update = begin_num_update
        # Update counts by device number, then by index; the second name is the device
        # in use.
        self._all_index_update_counts = {0: {}}
        self._index_update_count = self._all_index_update_counts[0]
        check(
            param_idx2name is None or isinstance(param_idx2name, dict),
            "param_idx2name should be a dict of param indexes to names, got %s",
            type(param_idx2name).__name__,
        )
        self.idx2name = dict(param_idx2name or {})
        self.sym_info = (
            (sym.attr_dict(), sym.list_arguments()) if sym is not None else ()
        )
        self._fixed_gammas = fixed_gammas(sym) if sym is not None else []
        self.param_dict = param_dict if param_dict else {}
        self.allow_np_array = is_np_array()
        self.set_lr_mult({})
        self.set_wd_mult({})

    @staticmethod
    def register(klass):
        """Registers an optimizer class under its lower-case name; a decorator."""
        check(isinstance(klass, type), "register: expected a class, got %r", klass)
        name = klass.__name__.lower()
        old = Optimizer.opt_registry.get(name)
        if old is not None:
            warnings.warn(
                "WARNING: New optimizer %s.%s is overriding existing optimizer %s.%s"
                % (klass.__module__, klass.__name__, old.__module__, old.__name__),
                stacklevel=2,
            )
        Optimizer.opt_registry[name] = klass
        return klass

    @staticmethod
    def create_optimizer(name, **kwargs):
        """An optimizer by name, in any case: 'sgd', 'Adam', ..."""
        klass = Optimizer.opt_registry.get(name.lower())
        if klass is None:
            raise ValueError(
                "Cannot find optimizer %s; known are %s"
                % (name, ", ".join(sorted(Optimizer.opt_registry)))
            )
        return klass(**kwargs)

    # State and update.

    def create_state(self, index, weight):
        """The state that update() keeps for a weight; None when there is none."""
        if self._rule is None:
            return None
        return self._new_state(weight, False)

    def _new_state(self, weight, mixed):
        """States are dense, whatever the weight is."""
        weight = weight.tostype("default")
        return _core.rule_new_state(self._rule, self, weight, mixed)

    def create_state_multi_precision(self, index, weight):
        """The state with a float32 copy of a float16 weight, under multi_precision."""
        wanted = self._wants_master(weight)
        if self._rule is not None and self._has_own("create_state"):
            return self._new_state(weight, True)
        if not wanted:
            return self.create_state(index, weight)
        master = weight.astype(np.float32)
        state = self.create_state(index, master)
        return (state, master) if self._master_last() else (master, state)

    def update(self, index, weight, grad, state):
        """Updates one weight in place."""
        if self._rule is None:
            raise NotImplementedError(
                "%s: update() is not implemented" % type(self).__name__
            )
        self._update_listed(index, weight, grad, state, False)

    def update_multi_precision(self, index, weight, grad, state):
        """update(), through the float32 copy where there is one."""
        if self._rule is not None and self._has_own("update"):
            self._update_listed(index, weight, grad, state, True)
        elif isinstance(index, (tuple, list)):
            for one in zip(index, weight, grad, state):
                self.update_multi_precision(*one)
        elif self.multi_precision and weight.dtype == np.float16:
            master, inner = reversed(state) if self._master_last() else state
            self.update(index, master, grad.astype(np.float32), inner)
            nd.cast(master, dtype=weight.dtype, out=weight)
        else:
            self.update(index, weight, grad, state)

    def update_multi(self, indices, weights, grads, states):
        """Updates several weights of one device."""
        if self._rule is not None and self._has_own("update"):
            self._update_all(indices, weights, grads, states, True)
            return
        for one in zip(indices, weights, grads, states):
            self.update_multi_precision(*one)

    def _has_own(self, name):
        """Whether a method is still Optimizer's, so that the rule does it all."""
        return getattr(type(self), name) is getattr(Optimizer, name)

    def _master_last(self):
        return self._rule is not None and _core.rule_master_last(self._rule)

    def _update_listed(self, index, weight, grad, state, mixed):
        if isinstance(index, (tuple, list)):
            self._update_all(index, weight, grad, state, mixed)
        else:
            self._update_all((index,), (weight,), (grad,), (state,), mixed)

    def _update_all(self, indices, weights, grads, states, mixed):
        """Counts an update of each index and applies the rule with the rates of now."""
        self._update_count(indices)
        single = type(self)._get_lr is not Optimizer._get_lr
        lrs = [self._get_lr(i) for i in indices] if single else self._get_lrs(indices)
        self._apply(indices, weights, grads, states, lrs, self._get_wds(indices), mixed)

    def _apply(
        self, indices, weights, grads, states, lrs, wds, mixed, names=(), base_lr=0.0
    ):
        """The arithmetic, by the core's rule; mixed: with float32 copies."""
        counts = [self._index_update_count.get(i, 0) for i in indices]
        if any(type(x) is not nd.NDArray for x in (*weights, *grads)):
            self._apply_sparse(
                weights, grads, states, lrs, wds, counts, names, base_lr, mixed
            )
            return
        rest = (lrs, wds, counts, names, base_lr, mixed)
        _core.rule_apply(self._rule, self, weights, grads, states, *rest)

    def _apply_sparse(
        self, weights, grads, states, lrs, wds, counts, names, base_lr, mixed
    ):
        """_apply() one by one, as some weight or gradient is sparse."""
        for k, (weight, grad, state) in enumerate(zip(weights, grads, states)):

            def step(w, g, s, k=k):
                rates = [lrs[k]], [wds[k]], [counts[k]], names[k : k + 1]
                _core.rule_apply(
                    self._rule, self, [w], [g], [s], *rates, base_lr, mixed
                )

            sparse_update(step, weight, grad, state, self._is_lazy(weight))

    def _is_lazy(self, weight):
        """Whether row_sparse gradients change only their rows: as lazy_update says."""
        return bool(getattr(self, "lazy_update", False))

    def _only_rows(self, weight):
        """Whether update() with a row_sparse gradient changes its rows only."""
        return (
            self._rule is not None and self._has_own("update") and self._is_lazy(weight)
        )

    def _wants_master(self, weight):
        """Whether a weight gets a float32 copy; warns where it had better have one."""
        if weight.dtype != np.float16:
            return False
        if not self.multi_precision:
            warnings.warn(
                "Accumulating with float16 in optimizer can lead to poor accuracy or "
                "slow convergence. Consider using multi_precision=True option of the "
                "optimizer",
                stacklevel=4,
            )
        return self.multi_precision

    # Rates.

    @property
    def learning_rate(self):
        """The rate now, without multipliers."""
        if self.lr_scheduler is not None:
            return self.lr_scheduler(self.num_update)
        return self.lr

    def set_learning_rate(self, lr):
        """Sets the rate; an error where a scheduler decides it."""
        if self.lr_scheduler is not None:
            raise UserWarning(
                "LRScheduler of the optimizer has already been defined. Note that "
                "set_learning_rate can mutate the value of the learning rate of "
                "the optimizer only when the LRScheduler of the optimizer is "
                "undefined."
            )
        self.lr = lr

    def set_lr_scale(self, args_lrscale):
        """[deprecated] Use set_lr_mult."""
        raise DeprecationWarning("set_lr_scale: use set_lr_mult")

    def _symbol_multipliers(self, key):
        """Multipliers that a symbol's variables carry as attributes."""
        if not self.sym_info:
            return {}
        attributes, names = self.sym_info
        return {
            name: float(attributes[name][key])
            for name in names
            if key in attributes.get(name, ())
        }

    def set_lr_mult(self, args_lr_mult):
        """Sets multipliers of the rate by index or name, over those of the symbol."""
        self.lr_mult = self._symbol_multipliers("__lr_mult__")
        self.lr_mult.update(args_lr_mult)

    def _decays(self, name):
        """Whether a named parameter is decayed by default."""
        return _core.rule_decays(self._rule or "sgd", name)

    def set_wd_mult(self, args_wd_mult):
        """Sets multipliers of weight decay by index or name; biases have 0
        by default.
        """
        self.wd_mult = {
            name: 0.0 for name in self.idx2name.values() if not self._decays(name)
        }
        # Fixed gammas count as 1 and get no gradient; decay would move what is saved.
        self.wd_mult.update(dict.fromkeys(self._fixed_gammas, 0.0))
        self.wd_mult.update(self._symbol_multipliers("__wd_mult__"))
        self.wd_mult.update(args_wd_mult)

    def _set_current_context(self, device_id):
        """Chooses the device whose update counts are used."""
        self._index_update_count = self._all_index_update_counts.setdefault(
            device_id, {}
        )

    def _update_count(self, index):
        """Counts one update of an index, or of each in a list."""
        counts = self._index_update_count
        highest = self.num_update
        for i in index if isinstance(index, (list, tuple)) else (index,):
            count = counts[i] = counts.get(i, self.begin_num_update) + 1
            if count > highest:
                highest = count
        self.num_update = highest

    def _get_lrs(self, indices):
        """The rates of several indices."""
        scheduler = self.lr_scheduler
        lr = self.lr if scheduler is None else scheduler(self.num_update)
        params = self.param_dict
        return [
            lr
            * (params[i].lr_mult if i in params else self._multiplier(self.lr_mult, i))
            for i in indices
        ]

    def _get_lr(self, index):
        """The rate of one index."""
        return self._get_lrs((index,))[0]

    def _get_wds(self, indices):
        """The weight decays of several indices."""
        wd, params = self.wd, self.param_dict
        return [
            wd
            * (params[i].wd_mult if i in params else self._multiplier(self.wd_mult, i))
            for i in indices
        ]

    def _get_wd(self, index):
        """The weight decay of one index."""
        return self._get_wds((index,))[0]

    def _multiplier(self, table, index):
        if index in table:
            return table[index]
        name = self.idx2name.get(index)
        return 1.0 if name is None else table.get(name, 1.0)

    def __getstate__(self):
        state = dict(self.__dict__)
        state.pop("param_dict", None)  # the Trainer sets it again
        return state

    def __setstate__(self, state):
        self._fixed_gammas = []  # which states of MXNet's do not have
        self.__dict__.update(state)
        self.param_dict = {}
        # After pickling the two may be different objects.
        counts = self._all_index_update_counts
        device = next(
            (d for d, c in counts.items() if c == self._index_update_count), 0
        )
        self._index_update_count = counts.setdefault(device, {})


def fixed_gammas(symbol):
    """Names of the gammas of a symbol that count as 1, whatever they hold."""
    nodes = json.loads(symbol.tojson())["nodes"]
    names = set()
    for node in nodes:
        if "BatchNorm" not in node["op"]:
            continue
        fixed = node.get("attrs", {}).get("fix_gamma", "True")
        if fixed in ("True", "1"):
            names.add(nodes[node["inputs"][1][0]]["name"])
    return sorted(names)


register = Optimizer.register
create = Optimizer.create_optimizer


def aggregation_size(default):
    """How many parameters one fused update takes: $MXNET_OPTIMIZER_AGGREGATION_SIZE."""
    return int(os.environ.get("MXNET_OPTIMIZER_AGGREGATION_SIZE", default))
