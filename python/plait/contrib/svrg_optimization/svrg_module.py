"""SVRGModule: a Module that trains by stochastic variance reduced gradients."""

from ... import model
from ... import ndarray as nd
from ...error import MXNetTypeError, MXNetValueError
from ...module import Module
from .svrg_optimizer import _SVRGOptimizer

__all__ = ["SVRGModule"]

_SGD = (("learning_rate", 0.01),)


class SVRGModule(Module):
    """A Module whose steps use g(w) - g(s) + mean: g is the gradient of the batch at
    the weights w and at a snapshot s of them, mean that of all data at s.

    fit() takes a snapshot every update_freq epochs, which costs a pass over the data.
    The other arguments are Module's.
    """

    def __init__(self, symbol, *args, update_freq=None, **kwargs):
        if not isinstance(update_freq, int):
            raise MXNetTypeError(
                "SVRGModule: update_freq is a %s; a number of epochs was expected"
                % type(update_freq).__name__
            )
        if update_freq <= 0:
            raise MXNetValueError(
                "SVRGModule: update_freq is %d; a positive number of epochs was "
                "expected" % update_freq
            )
        super().__init__(symbol, *args, **kwargs)
        self.update_freq = update_freq
        self._mod_aux = Module(symbol, *args, **kwargs)  # runs at the snapshot
        self._param_dict = None  # the mean gradients, by name for each device

    def _reset_bind(self):
        super()._reset_bind()
        self._mod_aux._reset_bind()

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
        options = inputs_need_grad, force_rebind, shared_module, grad_req
        super().bind(data_shapes, label_shapes, for_training, *options)
        if for_training:
            self._mod_aux.bind(data_shapes, label_shapes, for_training, *options)

    def reshape(self, data_shapes, label_shapes=None):
        super().reshape(data_shapes, label_shapes)
        if self._mod_aux.binded:
            self._mod_aux.reshape(data_shapes, label_shapes)

    def init_optimizer(
        self, kvstore="local", optimizer="sgd", optimizer_params=_SGD, force_init=False
    ):
        self._clear_mean()
        devices, names = len(self._context), self._exec_group.param_names
        params = dict(optimizer_params)
        store, on_store = model._create_kvstore(kvstore, devices, self._arg_params)
        rows = self._exec_group.batch_size
        if store is not None and "dist" in store.type and "_sync" in store.type:
            rows *= store.num_workers
        params.setdefault("rescale_grad", 1.0 / rows)
        copies = 1 if on_store else devices
        indices = {
            i * copies + k: name for i, name in enumerate(names) for k in range(copies)
        }
        first = len(indices)
        indices.update({first + i: name + "_full" for i, name in enumerate(names)})
        wrapped = _SVRGOptimizer(
            default_optimizer=optimizer, param_idx2name=indices, **params
        )
        super().init_optimizer(kvstore, wrapped, optimizer_params, force_init)
        if self._kvstore:
            for name in names:
                self._kvstore.init(
                    name + "_full", nd.zeros(self._arg_params[name].shape)
                )

    def _clear_mean(self):
        arrays = self._exec_group.param_arrays
        self._param_dict = [
            {
                name: nd.zeros_like(arrays[i][k])
                for i, name in enumerate(self._exec_group.param_names)
            }
            for k in range(len(self._context))
        ]

    def forward(self, data_batch, is_train=None):
        super().forward(data_batch, is_train)
        if self.for_training if is_train is None else is_train:
            if not self._mod_aux.params_initialized:  # before any snapshot: s is w
                self._mod_aux.set_params(*self.get_params())
            self._mod_aux.forward(data_batch, is_train=True)

    def backward(self, out_grads=None):
        super().backward(out_grads)
        if self._mod_aux.binded:
            self._mod_aux.backward(out_grads)

    def update(self):
        grads, snapshot = self._exec_group.grad_arrays, self._mod_aux._exec_group
        for i, name in enumerate(self._exec_group.param_names):
            for k, grad in enumerate(grads[i]):
                if grad is not None:
                    grad -= snapshot.grad_arrays[i][k]
                    grad += self._param_dict[k][name]
        super().update()

    def update_full_grads(self, train_data):
        """Takes a snapshot of the weights and the mean gradient of all batches there.

        What fills up a last batch counts as part of it.
        """
        self._mod_aux.set_params(*self.get_params())
        self._clear_mean()
        train_data.reset()
        batches = 0.0
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            batches += 1 - (batch.pad or 0) / train_data.batch_size
            for i, name in enumerate(self._exec_group.param_names):
                for k, grad in enumerate(self._mod_aux._exec_group.grad_arrays[i]):
                    if grad is not None:
                        self._param_dict[k][name] += grad
        for name in self._exec_group.param_names:
            means = [part[name] for part in self._param_dict]
            for mean in means:
                mean /= batches
            if self._kvstore:
                self._share(name + "_full", means)

    def _share(self, key, means):
        """The mean over all devices and workers, in each of `means`."""
        self._kvstore.push(key, means)
        self._kvstore._barrier()
        self._kvstore.pull(key, means)
        for mean in means:
            mean /= len(means) * self._kvstore.num_workers

    def _train_epoch(self, epoch, train_data, *args):
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
            train_data.reset()
        return super()._train_epoch(epoch, train_data, *args)

    def prepare(self, data_batch, sparse_row_id_fn=None):
        super().prepare(data_batch, sparse_row_id_fn)
        if sparse_row_id_fn is not None:
            self._mod_aux.prepare(data_batch, sparse_row_id_fn)
