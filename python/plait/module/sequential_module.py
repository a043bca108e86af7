"""SequentialModule: modules in a chain, each fed with the outputs before it."""

import copy
import logging

from ..error import CheckError, check
from .base_module import _SGD, _UNIFORM, BaseModule
from .checks import after, as_descs

__all__ = ["SequentialModule"]


class SequentialModule(BaseModule):
    """A chain of modules: gradients flow back through them all."""

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger=logging):
        super().__init__(logger=logger)
        self._modules = []
        self._metas = []
        self._label_shapes = None

    def add(self, module, **kwargs):
        """Appends a module; gives the chain back.

        take_labels=True gives it the labels; auto_wiring=True feeds the outputs before
        it to its data inputs in order, whatever their names.
        """
        known = (self.META_TAKE_LABELS, self.META_AUTO_WIRING)
        for key in kwargs:
            check(
                key in known,
                "SequentialModule.add: unknown argument %r; expected one of %s",
                key,
                ", ".join(known),
            )
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    def _takes_labels(self, meta):
        return bool(meta.get(self.META_TAKE_LABELS))

    @property
    def data_names(self):
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self):
        return self._modules[-1].output_names if self._modules else []

    @property
    @after("binded")
    def data_shapes(self):
        return self._modules[0].data_shapes

    @property
    @after("binded")
    def label_shapes(self):
        return self._label_shapes

    @property
    @after("binded")
    def output_shapes(self):
        return self._modules[-1].output_shapes

    @after("binded", "params_initialized")
    def get_params(self):
        arg_params, aux_params = {}, {}
        for module in self._modules:
            args, auxs = module.get_params()
            arg_params.update(args)
            aux_params.update(auxs)
        return arg_params, aux_params

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
        for module in self._modules:
            module.init_params(
                initializer,
                arg_params,
                aux_params,
                allow_missing,
                force_init,
                allow_extra,
            )
        owners = {}
        for number, module in enumerate(self._modules):
            for params in module.get_params():
                for name in params:
                    if name in owners:
                        raise CheckError(
                            "SequentialModule: modules %d and %d both have a "
                            "parameter %r; names must differ"
                            % (owners[name], number, name)
                        )
                    owners[name] = number
        self.params_initialized = True

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
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        check(
            for_training or not inputs_need_grad,
            "SequentialModule.bind: inputs_need_grad=True needs for_training=True",
        )
        check(
            shared_module is None,
            "SequentialModule.bind: shared_module is not supported",
        )
        check(bool(self._modules), "SequentialModule.bind: there are no modules")
        shapes = as_descs(data_shapes)
        for number, (module, meta) in enumerate(zip(self._modules, self._metas)):
            if meta.get(self.META_AUTO_WIRING):
                names = module.data_names
                check(
                    len(names) == len(shapes),
                    "SequentialModule.bind: module %d has %d data inputs; expected %d, "
                    "as many as the outputs before it",
                    number,
                    len(names),
                    len(shapes),
                )
                shapes = [(name, shape) for name, (_, shape) in zip(names, shapes)]
            module.bind(
                shapes,
                label_shapes if self._takes_labels(meta) else None,
                for_training=for_training,
                inputs_need_grad=bool(
                    inputs_need_grad if number == 0 else for_training
                ),
                force_rebind=force_rebind,
                grad_req=grad_req,
            )
            shapes = module.output_shapes
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        labelled = any(map(self._takes_labels, self._metas))
        self._label_shapes = label_shapes if labelled else None
        self.binded = True

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
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    @after("binded", "params_initialized")
    def forward(self, data_batch, is_train=None):
        batch = copy.copy(data_batch)  # whose data are replaced from module to module
        for module in self._modules:
            module.forward(batch, is_train=is_train)
            if module is self._modules[-1]:
                return
            batch.data = module.get_outputs()
            if getattr(batch, "provide_data", None):
                names = [name for name, _ in module.output_shapes]
                batch.provide_data = [
                    (name, x.shape) for name, x in zip(names, batch.data)
                ]

    @after("binded", "params_initialized")
    def backward(self, out_grads=None):
        for module in reversed(self._modules):
            module.backward(out_grads=out_grads)
            if module is not self._modules[0]:
                out_grads = module.get_input_grads()

    @after("binded", "params_initialized", "optimizer_initialized")
    def update(self):
        for module in self._modules:
            module.update()

    @after("binded", "params_initialized")
    def get_outputs(self, merge_multi_context=True):
        return self._modules[-1].get_outputs(merge_multi_context)

    @after("binded", "params_initialized")
    def get_input_grads(self, merge_multi_context=True):
        check(
            self.inputs_need_grad,
            "SequentialModule.get_input_grads: bind() was called with "
            "inputs_need_grad=False",
        )
        return self._modules[0].get_input_grads(merge_multi_context)

    @after("binded", "params_initialized")
    def update_metric(self, eval_metric, labels, pre_sliced=False):
        for module, meta in zip(self._modules, self._metas):
            if self._takes_labels(meta):
                module.update_metric(eval_metric, labels, pre_sliced)

    @after("binded")
    def install_monitor(self, mon):
        for module in self._modules:
            module.install_monitor(mon)
