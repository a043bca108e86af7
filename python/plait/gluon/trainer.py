"""Trainer: applies an optimizer to a set of parameters after each backward pass."""

from .. import optimizer as opt
from ..error import check
from ..kvstore import KVStore
from ..util import atomic_write
from ._parameter import version
from .parameter import Parameter, ParameterDict
from .reduce import make_store

__all__ = ["Trainer"]

_STALE = (
    "Gradient of Parameter `%s` on context %s has not been updated by backward since "
    "last "
    "`step`. This could mean a bug in your model that made it only use a subset of the "
    "Parameters (Blocks) for this iteration. If you are intentionally only using a "
    "subset, "
    "call step with ignore_stale_grad=True to suppress this warning and skip updating "
    "of "
    "Parameters with stale gradient"
)


class _Plan:
    """What a step on one device works on, gathered once: indices, weights,
    gradients.
    """

    def __init__(self, params):
        self.version = version()
        chosen = [(i, p) for i, p in enumerate(params) if p.grad_req != "null"]
        self.params = [p for _, p in chosen]
        self.indices = [i for i, _ in chosen]
        self.weights = [p.list_data()[0] for _, p in chosen]
        self.grads = [p.list_grad()[0] for _, p in chosen]


class Trainer:
    """Updates `params` (a dict or list of Parameters) with an optimizer, by name or
    object.

    Gradients of several contexts are summed before the update. kvstore and
    update_on_kvstore say where; 'local' and 'device' (the default) work inside this
    process.
    """

    _amp_loss_scaler = None

    def __init__(
        self,
        params,
        optimizer,
        optimizer_params=None,
        kvstore="device",
        compression_params=None,
        update_on_kvstore=None,
    ):
        layers = params
        if isinstance(params, (dict, ParameterDict)):
            layers = list(params.values())
            params = [params[key] for key in sorted(params.keys())]
        if not isinstance(params, (list, tuple)):
            raise ValueError(
                "First argument must be a list or dict of Parameters, got %s."
                % type(params)
            )
        for param in params:
            if not isinstance(param, Parameter):
                raise ValueError(
                    "First argument must be a list or dict of Parameters, got list "
                    "of %s." % type(param)
                )
            param._set_trainer(self)
        self._params = list(params)
        self._param2idx = {param.name: i for i, param in enumerate(params)}
        # As the network uses them: the first layers' weights are needed first.
        self._by_urgency = [self._param2idx[param.name] for param in layers]
        self._contains_sparse_weight = any(p._stype != "default" for p in params)
        self._contains_sparse_grad = any(p._grad_stype != "default" for p in params)
        self._contexts = self._check_contexts()
        self._init_optimizer(optimizer, optimizer_params or {})
        self._scale = self._optimizer.rescale_grad
        self._compression_params = compression_params
        self._kvstore_params = {
            "kvstore": kvstore,
            "update_on_kvstore": update_on_kvstore,
        }
        self._kvstore = None
        self._reset_kvstore()

    def _check_contexts(self):
        contexts = None
        for param in self._params:
            ctx = param.list_ctx()
            check(
                contexts is None or contexts == ctx,
                "All Parameters must be initialized on the same set of contexts, but "
                "Parameter "
                "%s is initialized on %s while previous Parameters are initialized on "
                "%s.",
                param.name,
                ctx,
                contexts,
            )
            contexts = ctx
        return contexts or []

    def _init_optimizer(self, optimizer, optimizer_params):
        param_dict = dict(enumerate(self._params))
        if isinstance(optimizer, opt.Optimizer):
            check(
                not optimizer_params,
                "optimizer_params must be None if optimizer is an "
                "instance of Optimizer instead of str",
            )
            self._optimizer = optimizer
            optimizer.param_dict = param_dict
        else:
            self._optimizer = opt.create(
                optimizer, param_dict=param_dict, **optimizer_params
            )
        self._updaters = [opt.get_updater(self._optimizer) for _ in self._contexts]

    # The store that sums gradients; None on one device.

    def _reset_kvstore(self):
        if self._kvstore is not None and "dist" in self._kvstore.type:
            raise RuntimeError("Cannot reset distributed KVStore.")
        self._kv_initialized = False
        self._kvstore = None
        self._distributed = None
        self._update_on_kvstore = None
        self._params_to_init = list(self._params)
        self._plan = None

    def _init_kvstore(self):
        config = self._kvstore_params
        store, on_store = make_store(
            config["kvstore"], len(self._contexts), self._contains_sparse_weight
        )
        wanted = config["update_on_kvstore"]
        if self._contains_sparse_grad and not self._contains_sparse_weight:
            on_store = on_store and store is not None and "dist" in store.type
        if self._contains_sparse_weight and wanted is False:
            raise ValueError(
                "Cannot set update_on_kvstore=False when sparse weights are present."
            )
        if store is not None:
            self._distributed = "dist" in store.type
            if wanted is False and "async" in store.type:
                raise ValueError(
                    "Please set update_on_kvstore to True when training in async mode."
                )
            capable = store.is_capable("optimizer")
            if wanted and not capable:
                raise ValueError(
                    "Please set update_on_kvstore=False when training with %s"
                    % type(store)
                )
            self._update_on_kvstore = capable and (
                on_store if wanted is None else wanted
            )
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if self._update_on_kvstore:
                store.set_optimizer(self._optimizer)
        self._kvstore = store
        self._kv_initialized = True

    def _init_params(self):
        """Tells the store of the parameters that are initialized by now."""
        check(
            self._kv_initialized,
            "Cannot initialize parameters in KVStore when KVStore is not initialized.",
        )
        waiting = []
        for param in self._params_to_init if self._kvstore is not None else ():
            if param._deferred_init:
                waiting.append(param)
                continue
            arrays = param._find(param._data, list)
            index = self._param2idx[param.name]
            if param._stype == "default":
                self._kvstore.broadcast(index, arrays[0], arrays)
            else:
                self._kvstore.init(index, arrays[0])
        self._params_to_init = waiting

    def _prepare(self):
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    def _row_sparse_pull(self, parameter, out, row_id, full_idx=False):
        """Fetches rows of a sparse parameter from the store."""
        self._prepare()
        index = self._param2idx[parameter.name]
        if full_idx and "dist" not in self._kvstore.type:
            check(
                row_id.size == out.shape[0],
                "all %d rows are wanted, got %d row numbers",
                out.shape[0],
                row_id.size,
            )
            self._kvstore.pull(index, out=out, priority=-index, ignore_sparse=False)
        else:
            self._kvstore.row_sparse_pull(
                index, out=out, row_ids=row_id, priority=-index
            )

    # Rates.

    @property
    def learning_rate(self):
        """The optimizer's rate now."""
        return self._optimizer.learning_rate

    @property
    def optimizer(self):
        """The optimizer."""
        return self._optimizer

    def set_learning_rate(self, lr):
        """Sets the rate; an error where a scheduler decides it."""
        self._optimizer.set_learning_rate(lr)

    def _rescale(self, batch_size):
        scale = self._scale / batch_size
        if (
            self._update_on_kvstore
            and self._distributed
            and self._kv_initialized
            # In Plait's own every rank updates with its own optimizer object.
            and not isinstance(self._kvstore, KVStore)
            and self._optimizer.rescale_grad != scale
        ):
            raise UserWarning(
                "Possible change in the `batch_size` from previous `step` "
                "detected. Optimizer gradient normalizing factor will not change "
                "w.r.t new batch_size when update_on_kvstore=True and when "
                "distributed kvstore is used."
            )
        self._optimizer.rescale_grad = scale

    # Steps.

    def step(self, batch_size, ignore_stale_grad=False):
        """Sums gradients over devices, divides by batch_size and updates.

        A parameter whose gradient backward has not written since the last step is an
        error (UserWarning), or with ignore_stale_grad=True left alone.
        """
        self._rescale(batch_size)
        if not self._kv_initialized or self._params_to_init:
            self._prepare()
        if self._kvstore is not None:
            self._allreduce_grads()
        self._update(ignore_stale_grad)

    def allreduce_grads(self):
        """The first half of step(): sums gradients, so that they can be changed before
        update.
        """
        self._prepare()
        self._check_updates_here("allreduce_grads()")
        self._allreduce_grads()

    def update(self, batch_size, ignore_stale_grad=False):
        """The second half of step()."""
        self._prepare()
        self._check_updates_here("update()")
        self._rescale(batch_size)
        self._update(ignore_stale_grad)

    def _check_updates_here(self, what):
        check(
            not (self._kvstore is not None and self._update_on_kvstore),
            "%s when parameters are updated on kvstore is not supported. Try setting "
            "`update_on_kvstore` to False when creating trainer.",
            what,
        )

    def _allreduce_grads(self):
        if self._kvstore is None:
            return
        together = isinstance(self._kvstore, KVStore)
        indices, gradients, outs = [], [], []
        for i in self._by_urgency if together else range(len(self._params)):
            param = self._params[i]
            if param.grad_req == "null":
                continue
            grads = param.list_grad()
            if together and param._stype == grads[0].stype == "default":
                indices.append(i)
                gradients.append(grads)
                outs.append(param.list_data() if self._update_on_kvstore else grads)
                continue
            if grads[0].stype != "default":
                self._kvstore.push(i, grads, priority=-i)
                if param._stype == "default":
                    out = param.list_data() if self._update_on_kvstore else grads
                    self._kvstore.pull(i, out, priority=-i, ignore_sparse=False)
            elif self._update_on_kvstore:
                self._kvstore.pushpull(i, grads, out=param.list_data(), priority=-i)
            else:
                self._kvstore.pushpull(i, grads, priority=-i)
        if indices:  # in one call: the first is the most urgent
            self._kvstore.pushpull(indices, gradients, out=outs)

    def _update(self, ignore_stale_grad=False):
        scaler = self._amp_loss_scaler
        if scaler is not None and scaler.has_overflow(self._params):
            return
        if (
            self._kvstore is None
            and len(self._contexts) == 1
            and not self._contains_sparse_weight
        ):
            self._update_one_device(ignore_stale_grad)
        else:
            self._update_devices(ignore_stale_grad)

    def _update_one_device(self, ignore_stale_grad):
        plan = self._plan
        if plan is None or plan.version != version():
            plan = self._plan = _Plan(self._params)
        stale = [k for k, weight in enumerate(plan.weights) if not weight._fresh_grad]
        indices, weights, grads = plan.indices, plan.weights, plan.grads
        if stale:
            if not ignore_stale_grad:
                param = plan.params[stale[0]]
                raise UserWarning(_STALE % (param.name, plan.weights[stale[0]].context))
            fresh = sorted(set(range(len(indices))) - set(stale))
            indices, weights, grads = (
                [values[k] for k in fresh] for values in (indices, weights, grads)
            )
        for weight in weights:
            weight._fresh_grad = False
        self._updaters[0](indices, grads, weights)

    def _update_devices(self, ignore_stale_grad):
        updates = [[] for _ in self._updaters]
        on_store = self._kvstore is not None and self._update_on_kvstore
        for i, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            arrays = param._find(param._data, list)
            if not ignore_stale_grad:
                for array in arrays:
                    if not array._fresh_grad:
                        raise UserWarning(_STALE % (param.name, array.context))
            if on_store:
                continue
            for todo, array, grad in zip(updates, arrays, param.list_grad()):
                if array._fresh_grad:
                    todo.append((i, grad, array))
                    array._fresh_grad = False
        for updater, todo in zip(self._updaters, updates):
            if todo:
                updater(*map(list, zip(*todo)))

    # State.

    def save_states(self, fname):
        """Saves the optimizer and its states, for load_states()."""
        self._prepare()
        if self._update_on_kvstore:
            check(
                not self._params_to_init,
                "Cannot save trainer states when some parameters are "
                "not yet initialized in kvstore.",
            )
            self._kvstore.save_optimizer_states(fname, dump_optimizer=True)
        else:
            atomic_write(fname, self._updaters[0].get_states(dump_optimizer=True))

    def load_states(self, fname):
        """Loads what save_states() wrote, or MXNet's file of the same purpose."""
        self._prepare()
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
            self._optimizer = self._kvstore._updater.optimizer
        else:
            with open(fname, "rb") as f:
                states = f.read()
            for updater in self._updaters:
                updater.set_states(states)
                updater.optimizer = self._updaters[0].optimizer
            self._optimizer = self._updaters[0].optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))
