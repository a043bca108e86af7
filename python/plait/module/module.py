"""Module: one symbol on one or more devices."""

import logging
import warnings

from .. import ndarray as nd
from .. import optimizer as opt
from ..context import Context, cpu
from ..error import CheckError, MXNetTypeError, MXNetValueError, check
from ..executor import storages
from ..initializer import InitDesc
from ..model import (
    _create_kvstore,
    _initialize_kvstore,
    _sum_gradients,
    _update_params_on_kvstore,
    _updates,
    load_checkpoint,
)
from ..util import atomic_write
from .base_module import _SGD, _UNIFORM, BaseModule
from .batch_shapes import new_shapes
from .checks import after, check_input_names, names_list, parse_data_desc
from .executor_group import DataParallelExecutorGroup

__all__ = ["Module"]
_CPU = cpu()


class Module(BaseModule):
    """A symbol with parameters, trained on one device or on several with equal copies.

    data_names, label_names and state_names are the symbol's inputs; its other arguments
    are parameters. Those of fixed_param_names are never updated. group2ctxs maps the
    symbol's ctx_groups to devices, to spread one copy over several.
    """

    def __init__(
        self,
        symbol,
        data_names=("data",),
        label_names=("softmax_label",),
        logger=logging,
        context=_CPU,
        work_load_list=None,
        fixed_param_names=None,
        state_names=None,
        group2ctxs=None,
        compression_params=None,
    ):
        super().__init__(logger=logger)
        self._context = [context] if isinstance(context, Context) else list(context)
        self._work_load_list = work_load_list or [1] * len(self._context)
        check(
            len(self._work_load_list) == len(self._context),
            "Module: work_load_list has %d entries; expected %d, one for each device",
            len(self._work_load_list),
            len(self._context),
        )
        self._group2ctxs = group2ctxs
        self._compression_params = compression_params
        self._symbol = symbol
        self._data_names = names_list(data_names)
        self._label_names = names_list(label_names)
        self._state_names = names_list(state_names)
        self._fixed_param_names = names_list(fixed_param_names)
        check_input_names(symbol, self._data_names, "data", True)
        check_input_names(symbol, self._label_names, "label", False)
        check_input_names(symbol, self._state_names, "state", True)
        check_input_names(symbol, self._fixed_param_names, "fixed_param", True)
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [n for n in symbol.list_arguments() if n not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self._output_names = symbol.list_outputs()
        self._arg_params = self._aux_params = None  # copies on the CPU
        self._params_dirty = False  # whether the devices' copies are newer
        self._optimizer = self._updater = None
        self._kvstore = self._update_on_kvstore = None
        self._preload_opt_states = None
        self._grad_req = None
        Module._reset_bind(self)  # not a subclass's: that is not made yet

    def _reset_bind(self):
        self.binded = False
        self._exec_group = None
        self._plan = None
        self._data_shapes = self._label_shapes = None

    # Checkpoints.

    @staticmethod
    def load(prefix, epoch, load_optimizer_states=False, **kwargs):
        """A module from a checkpoint of save_checkpoint(), or of MXNet.

        Keyword arguments are those of Module. The optimizer's states are loaded when
        init_optimizer() makes one.
        """
        symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
        module = Module(symbol=symbol, **kwargs)
        module._arg_params, module._aux_params = arg_params, aux_params
        module.params_initialized = True
        if load_optimizer_states:
            module._preload_opt_states = "%s-%04d.states" % (prefix, epoch)
        return module

    def save_checkpoint(
        self,
        prefix,
        epoch,
        save_optimizer_states=False,
        remove_amp_cast=True,
        states_format="plait",
    ):
        """Writes PREFIX-symbol.json, PREFIX-EPOCH.params and where wanted .states.

        MXNet reads all of them where states_format is "mxnet".
        """
        self._symbol.save("%s-symbol.json" % prefix, remove_amp_cast=remove_amp_cast)
        fname = "%s-%04d.params" % (prefix, epoch)
        self.save_params(fname)
        logging.info('Saved checkpoint to "%s"', fname)
        if save_optimizer_states:
            fname = "%s-%04d.states" % (prefix, epoch)
            self.save_optimizer_states(fname, format=states_format)
            logging.info('Saved optimizer state to "%s"', fname)

    @after("optimizer_initialized")
    def save_optimizer_states(self, fname, format="plait"):
        """Writes the optimizer's states. format: "plait", or "mxnet": a pickle."""
        owner = self._kvstore._updater if self._update_on_kvstore else self._updater
        atomic_write(fname, owner.get_states(format=format))

    @after("optimizer_initialized")
    def load_optimizer_states(self, fname):
        """Reads the optimizer's states, Plait's or MXNet's."""
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
        else:
            with open(fname, "rb") as f:
                self._updater.set_states(f.read())

    # Names and shapes.

    data_names = property(lambda self: self._data_names)
    label_names = property(lambda self: self._label_names)
    output_names = property(lambda self: self._output_names)

    @property
    @after("binded")
    def data_shapes(self):
        return self._data_shapes

    @property
    @after("binded")
    def label_shapes(self):
        return self._label_shapes

    @property
    @after("binded")
    def output_shapes(self):
        return self._exec_group.get_output_shapes()

    # Parameters.

    @after("params_initialized")
    def get_params(self):
        if self._params_dirty:
            self._sync_params_from_devices()
        return self._arg_params, self._aux_params

    def _sync_params_from_devices(self):
        self._exec_group.get_params(self._arg_params, self._aux_params)
        if self._kvstore and self._update_on_kvstore:
            for name, value in sorted(self._arg_params.items()):
                if value.stype == "row_sparse":
                    rows = nd.arange(0, value.shape[0], dtype="int64")
                    self._kvstore.row_sparse_pull(name, value, row_ids=rows)
        self._params_dirty = False

    @after("binded")
    def init_params(
        self,
        initializer=_UNIFORM,
        arg_params=None,
        aux_params=None,
        allow_missing=False,
        force_init=False,
        allow_extra=False,
    ):
        if self._ignored("init_params", force_init):
            return
        attributes = self._symbol.attr_dict()
        for own, given in (
            (self._arg_params, arg_params),
            (self._aux_params, aux_params),
        ):
            for name, array in sorted(own.items()):
                if given is not None and name in given:
                    _assign(name, array, given[name])
                elif given is not None and not allow_missing:
                    raise CheckError(
                        "Module.init_params: there is no value for %r; "
                        "allow_missing=True leaves it to the initializer" % name
                    )
                elif initializer is not None:
                    initializer(InitDesc(name, attributes.get(name)), array)
        self.params_initialized = True
        self._params_dirty = False
        self._exec_group.set_params(
            self._arg_params, self._aux_params, allow_extra=allow_extra
        )

    @after("binded")
    def set_params(
        self,
        arg_params,
        aux_params,
        allow_missing=False,
        force_init=True,
        allow_extra=False,
    ):
        if not allow_missing:
            super().set_params(
                arg_params, aux_params, allow_missing, force_init, allow_extra
            )
        elif not self._ignored("set_params", force_init):
            # Straight to the devices, whose other parameters stay as they are.
            self._exec_group.set_params(arg_params, aux_params, allow_extra)
            self._params_dirty = True
            self.params_initialized = True

    # Binding.

    def bind(
        self,
        data_shapes,
        label_shapes=None,
        for_training=True,
        inputs_need_grad=False,
        force_rebind=False,
        shared_module=None,
        grad_req="write",
    ):
        if force_rebind:
            if self.params_initialized and self._params_dirty:
                self._sync_params_from_devices()
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        check(
            for_training or not inputs_need_grad,
            "Module.bind: inputs_need_grad=True needs for_training=True",
        )
        shared_group = self._group_of(shared_module)
        data_shapes, label_shapes = parse_data_desc(
            self._data_names, self._label_names, data_shapes, label_shapes, for_training
        )
        self._exec_group = DataParallelExecutorGroup(
            self._symbol,
            self._context,
            self._work_load_list,
            data_shapes,
            label_shapes,
            self._param_names,
            for_training,
            inputs_need_grad,
            shared_group,
            logger=self.logger,
            fixed_param_names=self._fixed_param_names,
            grad_req=grad_req,
            state_names=self._state_names,
            group2ctxs=self._group2ctxs,
        )
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self._grad_req = grad_req
        self._data_shapes, self._label_shapes = data_shapes, label_shapes
        self._total_exec_bytes = self._exec_group._total_exec_bytes
        self.binded = True
        self._bind_params(shared_module)

    def _group_of(self, shared_module):
        if shared_module is None:
            return None
        check(
            isinstance(shared_module, Module)
            and shared_module.binded
            and shared_module.params_initialized,
            "Module.bind: shared_module must be a Module that is bound and has "
            "parameters",
        )
        group = shared_module._exec_group
        check(
            len(group.execs) >= len(self._context),
            "Module.bind: shared_module is on %d devices; expected at least %d",
            len(group.execs),
            len(self._context),
        )
        return group

    def _bind_params(self, shared_module):
        """Where the parameters of newly bound executors come from."""
        group = self._exec_group
        if shared_module is not None:
            self.params_initialized = True
            self._arg_params = shared_module._arg_params
            self._aux_params = shared_module._aux_params
            if shared_module.optimizer_initialized:
                self.borrow_optimizer(shared_module)
        elif self.params_initialized:
            group.set_params(self._arg_params, self._aux_params)
        else:
            wanted, _ = storages(self._symbol)
            self._arg_params = _zeros_of(group.param_names, group.param_arrays, wanted)
            self._aux_params = _zeros_of(self._aux_names, group.aux_arrays, {})

    @after("binded")
    def reshape(self, data_shapes, label_shapes=None):
        """Binds anew for other shapes of data; the parameters stay."""
        self._data_shapes, self._label_shapes = parse_data_desc(
            self._data_names,
            self._label_names,
            data_shapes,
            label_shapes,
            self.for_training,
        )
        self._exec_group.reshape(self._data_shapes, self._label_shapes)
        self._plan = None

    # The optimizer.

    @after("binded", "params_initialized")
    def init_optimizer(
        self,
        kvstore="local",
        optimizer="sgd",
        optimizer_params=_SGD,
        force_init=False,
    ):
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        if self._params_dirty:
            self._sync_params_from_devices()
        devices, names = len(self._context), self._exec_group.param_names
        store, on_store = _create_kvstore(kvstore, devices, self._arg_params)
        batch_size = self._exec_group.batch_size or 1
        if store and "dist" in store.type and "_sync" in store.type:
            batch_size *= store.num_workers
        # A store counts parameters; each device's updater has indices of its own.
        copies = 1 if on_store else devices
        idx2name = {
            i * copies + k: n for i, n in enumerate(names) for k in range(copies)
        }
        self._optimizer = self._make_optimizer(
            optimizer, dict(optimizer_params), 1.0 / batch_size, idx2name
        )
        self._kvstore, self._update_on_kvstore = store, on_store
        self._updater = None if on_store else opt.get_updater(self._optimizer)
        if store:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if on_store:
                store.set_optimizer(self._optimizer)
            _initialize_kvstore(
                store, self._exec_group.param_arrays, self._arg_params, names, on_store
            )
        self.optimizer_initialized = True
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def _make_optimizer(self, optimizer, params, rescale_grad, idx2name):
        if isinstance(optimizer, str):
            params.setdefault("rescale_grad", rescale_grad)
            return opt.create(
                optimizer, sym=self.symbol, param_idx2name=idx2name, **params
            )
        if not isinstance(optimizer, opt.Optimizer):
            raise MXNetTypeError(
                "Module.init_optimizer: optimizer is a %s; expected a name or an "
                "Optimizer" % type(optimizer).__name__
            )
        if optimizer.rescale_grad != rescale_grad:
            warnings.warn(
                "Module.init_optimizer: the optimizer's rescale_grad is %s, not %s, "
                "one by the batch size; is this intended?"
                % (optimizer.rescale_grad, rescale_grad),
                stacklevel=4,
            )
        if not optimizer.idx2name:
            optimizer.idx2name = idx2name
        return optimizer

    def borrow_optimizer(self, shared_module):
        """Uses the optimizer of another module, with its states."""
        check(
            shared_module.optimizer_initialized,
            "Module.borrow_optimizer: the other module has none; call its "
            "init_optimizer() first",
        )
        self._optimizer = shared_module._optimizer
        self._kvstore = shared_module._kvstore
        self._update_on_kvstore = shared_module._update_on_kvstore
        self._updater = shared_module._updater
        self.optimizer_initialized = True

    # Running.

    @after("binded", "params_initialized")
    def forward(self, data_batch, is_train=None):
        shapes = new_shapes(data_batch, self._data_shapes, self._label_shapes)
        if shapes is not None:
            self.reshape(*shapes)
        self._exec_group.forward(data_batch, is_train)

    @after("binded", "params_initialized")
    def backward(self, out_grads=None):
        self._exec_group.backward(out_grads)

    @after("binded", "params_initialized", "optimizer_initialized")
    def update(self):
        self._params_dirty = True
        group = self._exec_group
        if self._update_on_kvstore:
            _update_params_on_kvstore(
                group.param_arrays, group.grad_arrays, self._kvstore, group.param_names
            )
            return
        if self._kvstore:
            _sum_gradients(
                group.param_arrays, group.grad_arrays, self._kvstore, group.param_names
            )
        if self._plan is None:  # the lists stay the same, which updaters count on
            self._plan = _updates(
                group.param_arrays, group.grad_arrays or (), len(self._context)
            )
        for indices, grads, weights in self._plan:
            self._updater(indices, grads, weights)

    @after("binded", "params_initialized")
    def get_outputs(self, merge_multi_context=True):
        return self._exec_group.get_outputs(merge_multi_context)

    @after("binded", "params_initialized")
    def get_input_grads(self, merge_multi_context=True):
        return self._exec_group.get_input_grads(merge_multi_context)

    @after("binded", "params_initialized")
    def get_states(self, merge_multi_context=True):
        return self._exec_group.get_states(merge_multi_context)

    @after("binded", "params_initialized")
    def set_states(self, states=None, value=None):
        self._exec_group.set_states(states, value)

    @after("binded")
    def update_metric(self, eval_metric, labels, pre_sliced=False):
        self._exec_group.update_metric(eval_metric, labels, pre_sliced)

    @after("binded")
    def install_monitor(self, mon):
        self._exec_group.install_monitor(mon)

    @after("binded")
    def prepare(self, data_batch, sparse_row_id_fn=None):
        if sparse_row_id_fn is None:
            return
        if not self._kvstore or not self._update_on_kvstore:
            super().prepare(data_batch, sparse_row_id_fn)  # which warns
            return
        rows = sparse_row_id_fn(data_batch)
        if not isinstance(rows, dict):
            raise MXNetTypeError(
                "Module.prepare: sparse_row_id_fn gave a %s; expected a dict from "
                "names to rows" % type(rows).__name__
            )
        group = self._exec_group
        for name, row_ids in rows.items():
            index = group.param_names.index(name)
            arrays = group.param_arrays[index]
            if arrays[0].stype == "row_sparse":
                self._kvstore.row_sparse_pull(
                    name, arrays, row_ids=row_ids, priority=-index
                )
            else:
                warnings.warn(
                    "Module.prepare: %s is not row_sparse; its rows are not pulled"
                    % name,
                    stacklevel=2,
                )


def _assign(name, array, value):
    """Copies a given value into a parameter."""
    if value is array:
        return
    if value.shape != array.shape:
        raise MXNetValueError(
            "Module.init_params: the value of %r has shape %s; expected %s"
            % (name, value.shape, array.shape)
        )
    value.copyto(array)


def _zeros_of(names, arrays, wanted):
    """CPU arrays of zeros like the first device's, row_sparse where that is wanted."""
    return {
        name: nd.zeros(
            parts[0].shape,
            dtype=parts[0].dtype,
            stype=wanted.get(name, parts[0].stype),
        )
        for name, parts in zip(names, arrays)
    }
