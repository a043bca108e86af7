"""BucketingModule: a family of symbols, one for each bucket of data, with the same
parameters.
"""

import logging

import numpy as np

from .. import ndarray as nd
from .. import symbol as sym
from ..context import cpu
from ..error import check
from ..model import load_params
from ..name import NameManager
from .base_module import _SGD, _UNIFORM, BaseModule
from .checks import after, check_input_names, names_list
from .module import Module

__all__ = ["BucketingModule"]
_CPU = cpu()


class BucketingModule(BaseModule):
    """A Module for each bucket key, made when its first batch comes.

    sym_gen(key) gives (symbol, data_names, label_names). All modules share parameters,
    optimizer and memory with the one of default_bucket_key, which should be that of the
    largest shapes. A batch names its bucket by `bucket_key`, and its shapes by
    provide_data and provide_label. The other arguments are Module's.
    """

    def __init__(
        self,
        sym_gen,
        default_bucket_key=None,
        logger=logging,
        context=_CPU,
        work_load_list=None,
        fixed_param_names=None,
        state_names=None,
        group2ctxs=None,
        compression_params=None,
    ):
        super().__init__(logger=logger)
        check(
            default_bucket_key is not None,
            "BucketingModule: default_bucket_key is missing; it has no default",
        )
        self._default_bucket_key = default_bucket_key
        self._sym_gen = sym_gen
        self._settings = {
            "logger": logger,
            "context": context,
            "work_load_list": work_load_list,
            "fixed_param_names": names_list(fixed_param_names),
            "state_names": names_list(state_names),
            "group2ctxs": group2ctxs,
            "compression_params": compression_params,
        }
        symbol, data_names, label_names = self._call_sym_gen(default_bucket_key)
        for kind, names, throw in (
            ("data", data_names, True),
            ("label", label_names, False),
            ("state", state_names, True),
            ("fixed_param", fixed_param_names, True),
        ):
            check_input_names(symbol, names_list(names), kind, throw)
        self._params_dirty = False
        self._monitor = None
        self._grad_req = None
        self._reset_bind()

    def _reset_bind(self):
        self.binded = False
        self._buckets = {}
        self._curr_module = None
        self._curr_bucket_key = None

    def _call_sym_gen(self, key):
        with NameManager():  # the same automatic names for each bucket
            return self._sym_gen(key)

    def _module_of(self, key):
        """The module of a bucket, perhaps a new one, which may not be bound yet."""
        if key not in self._buckets:
            self._buckets[key] = Module(*self._call_sym_gen(key), **self._settings)
        return self._buckets[key]

    # Names and shapes: those of the current bucket.

    @property
    def data_names(self):
        if self.binded:
            return self._curr_module.data_names
        return self._call_sym_gen(self._default_bucket_key)[1]

    @property
    def output_names(self):
        if self.binded:
            return self._curr_module.output_names
        return self._call_sym_gen(self._default_bucket_key)[0].list_outputs()

    @property
    @after("binded")
    def data_shapes(self):
        return self._curr_module.data_shapes

    @property
    @after("binded")
    def label_shapes(self):
        return self._curr_module.label_shapes

    @property
    @after("binded")
    def output_shapes(self):
        return self._curr_module.output_shapes

    @property
    @after("binded")
    def symbol(self):
        return self._curr_module.symbol

    # Parameters.

    @after("params_initialized")
    def get_params(self):
        self._curr_module._params_dirty = self._params_dirty
        self._params_dirty = False
        return self._curr_module.get_params()

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
            self._curr_module.set_params(
                arg_params, aux_params, allow_missing, force_init, allow_extra
            )
            self._params_dirty = True
            self.params_initialized = True

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
        if self.params_initialized and not force_init:
            return
        self._curr_module.init_params(
            initializer, arg_params, aux_params, allow_missing, force_init, allow_extra
        )
        self._params_dirty = False
        self.params_initialized = True

    @after("binded", "params_initialized")
    def get_states(self, merge_multi_context=True):
        return self._curr_module.get_states(merge_multi_context)

    @after("binded", "params_initialized")
    def set_states(self, states=None, value=None):
        self._curr_module.set_states(states, value)

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
        """Binds the bucket of the default key, to its shapes."""
        params = self.get_params() if self.params_initialized else None
        if force_rebind:
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        check(
            shared_module is None,
            "BucketingModule.bind: shared_module is not supported",
        )
        key = self._default_bucket_key
        module = self._module_of(key)
        module.bind(
            data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req
        )
        self._grad_req = grad_req
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._curr_module, self._curr_bucket_key = module, key
        self.binded = True
        if params is not None:
            self.set_params(*params)

    @after("binded")
    def switch_bucket(self, bucket_key, data_shapes, label_shapes=None):
        """Makes a bucket the current one; binds it first where it is new."""
        module = self._module_of(bucket_key)
        if not module.binded:
            module.bind(
                data_shapes,
                label_shapes,
                self.for_training,
                self.inputs_need_grad,
                shared_module=self._buckets[self._default_bucket_key],
                grad_req=self._grad_req,
            )
            if self._monitor is not None:
                module.install_monitor(self._monitor)
        self._curr_module, self._curr_bucket_key = module, bucket_key

    @after("binded", "params_initialized")
    def init_optimizer(
        self,
        kvstore="local",
        optimizer="sgd",
        optimizer_params=_SGD,
        force_init=False,
    ):
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        current = self._curr_module
        current.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        for module in self._buckets.values():
            if module is not current:
                module.borrow_optimizer(current)
        self.optimizer_initialized = True

    # Running.

    def _switch_to(self, data_batch):
        key = data_batch.bucket_key
        self.switch_bucket(key, data_batch.provide_data, data_batch.provide_label)

    @after("binded", "params_initialized")
    def prepare(self, data_batch, sparse_row_id_fn=None):
        """Binds the batch's bucket where it is new, while the last one still runs."""
        current = self._curr_module, self._curr_bucket_key
        self._switch_to(data_batch)
        self._curr_module.prepare(data_batch, sparse_row_id_fn)
        self._curr_module, self._curr_bucket_key = current

    @after("binded", "params_initialized")
    def forward(self, data_batch, is_train=None):
        self._switch_to(data_batch)
        self._curr_module.forward(data_batch, is_train)

    @after("binded", "params_initialized")
    def backward(self, out_grads=None):
        self._curr_module.backward(out_grads)

    @after("binded", "params_initialized", "optimizer_initialized")
    def update(self):
        self._params_dirty = True
        self._curr_module.update()

    @after("binded", "params_initialized")
    def get_outputs(self, merge_multi_context=True):
        return self._curr_module.get_outputs(merge_multi_context)

    @after("binded", "params_initialized")
    def get_input_grads(self, merge_multi_context=True):
        return self._curr_module.get_input_grads(merge_multi_context)

    @after("binded", "params_initialized")
    def update_metric(self, eval_metric, labels, pre_sliced=False):
        self._curr_module.update_metric(eval_metric, labels, pre_sliced)

    @after("binded")
    def install_monitor(self, mon):
        self._monitor = mon
        for module in self._buckets.values():
            module.install_monitor(mon)

    # Checkpoints.

    def save_checkpoint(self, prefix, epoch, remove_amp_cast=False):
        """Writes PREFIX-EPOCH.params, PREFIX-KEY-symbol.json for each bucket so far,
        and PREFIX.buckets with their keys, which are to be integers.
        """
        check(
            bool(self._buckets),
            "BucketingModule.save_checkpoint: there are no buckets; call bind() first",
        )
        self.save_params("%s-%04d.params" % (prefix, epoch))
        for key in self._buckets:
            symbol = self._call_sym_gen(key)[0]
            symbol.save(
                "%s-%s-symbol.json" % (prefix, key), remove_amp_cast=remove_amp_cast
            )
        keys = nd.array(list(self._buckets), dtype=np.int32)
        nd.save("%s.buckets" % prefix, keys)

    @staticmethod
    def load(prefix, epoch, sym_gen=None, default_bucket_key=None, **kwargs):
        """A module from such a checkpoint, or MXNet's."""
        keys = nd.load("%s.buckets" % prefix)[0].asnumpy().astype("int32").tolist()
        symbols = {
            key: sym.load("%s-%s-symbol.json" % (prefix, key))
            for key in (tuple(k) if isinstance(k, list) else k for k in keys)
        }
        arg_params, aux_params = load_params(prefix, epoch)
        return BucketingModule.load_dict(
            symbols, sym_gen, default_bucket_key, arg_params, aux_params, **kwargs
        )

    @staticmethod
    def load_dict(
        sym_dict=None,
        sym_gen=None,
        default_bucket_key=None,
        arg_params=None,
        aux_params=None,
        **kwargs,
    ):
        """A module from a dict of symbols by bucket key, and parameters."""
        for name, value in (
            ("sym_dict", sym_dict),
            ("sym_gen", sym_gen),
            ("default_bucket_key", default_bucket_key),
            ("arg_params", arg_params),
            ("aux_params", aux_params),
        ):
            check(value is not None, "BucketingModule.load: %s is missing", name)
        check(
            default_bucket_key in sym_dict,
            "BucketingModule.load: there is no symbol for the default key %r; the "
            "keys are %s",
            default_bucket_key,
            list(sym_dict),
        )
        result = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        for key, symbol in sym_dict.items():
            _, data_names, label_names = result._call_sym_gen(key)
            result._buckets[key] = Module(
                symbol, data_names, label_names, **result._settings
            )
        current = result._curr_module = result._buckets[default_bucket_key]
        current._arg_params, current._aux_params = arg_params, aux_params
        current.params_initialized = result.params_initialized = True
        return result
