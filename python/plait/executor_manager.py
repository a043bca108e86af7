"""Parts of a batch for devices, and the executors on them that old programs drive by
hand: DataParallelExecutorGroup, and DataParallelExecutorManager.
"""

import logging

from .error import CheckError, MXNetNotImplementedError, MXNetValueError, check

__all__ = ["DataParallelExecutorGroup", "DataParallelExecutorManager"]


def _split_input_slice(batch_size, work_load_list):
    """A slice of the batch for each device, in proportion to its work load."""
    total = sum(work_load_list)
    counts = [round(load * batch_size / total) for load in work_load_list]
    if sum(counts) < batch_size:
        counts[-1] += batch_size - sum(counts)
    slices, begin = [], 0
    for count in counts:
        end = min(begin + count, batch_size)
        if begin >= end:
            raise MXNetValueError(
                "Module: a batch of %d cannot be split over %d devices with work loads "
                "%s: some would get nothing"
                % (batch_size, len(work_load_list), list(work_load_list))
            )
        slices.append(slice(int(begin), int(end)))
        begin = end
    return slices


def _check_arguments(symbol):
    """Raises where two arguments, or two auxiliary states, have the same name."""
    for kind, names in (
        ("argument", symbol.list_arguments()),
        ("auxiliary state", symbol.list_auxiliary_states()),
    ):
        seen = set()
        for name in names:
            if name in seen:
                raise MXNetValueError(
                    "the symbol has two %ss named %r; names must differ" % (kind, name)
                )
            seen.add(name)


class DataParallelExecutorGroup:
    """[deprecated] An executor for each device, each with its slice of the batch.

    `train_data` has provide_data and provide_label, of whole batches. With
    `shared_group` parameters, gradients and states are those of its executors.
    """

    def __init__(
        self, sym, arg_names, param_names, ctx, slices, train_data, shared_group=None
    ):
        _check_arguments(sym)
        given = [*train_data.provide_data, *train_data.provide_label]
        self.data_names = [d[0] for d in train_data.provide_data]
        self.label_names = [d[0] for d in train_data.provide_label]
        self.aux_names = sym.list_auxiliary_states()
        self.param_idx = [i for i, n in enumerate(arg_names) if n in param_names]
        self.param_names = [arg_names[i] for i in self.param_idx]
        self.slices = slices
        wanted = set(self.param_names)
        reqs = {n: "write" if n in wanted else "null" for n in sym.list_arguments()}
        types = {d[0]: getattr(d, "dtype", "float32") for d in given}
        self.train_execs = []
        for k, (device, part) in enumerate(zip(ctx, slices)):
            shapes = {d[0]: (part.stop - part.start, *d[1][1:]) for d in given}
            base = shared_group.train_execs[k] if shared_group else None
            self.train_execs.append(
                sym.simple_bind(
                    device,
                    grad_req=reqs,
                    type_dict=types,
                    shared_arg_names=self.param_names,
                    shared_exec=base,
                    **shapes,
                )
            )
        self.data_arrays = self._parts(self.data_names)
        self.label_arrays = self._parts(self.label_names)
        each = self.train_execs
        self.param_arrays = [[e.arg_dict[n] for e in each] for n in self.param_names]
        self.grad_arrays = [[e.grad_dict[n] for e in each] for n in self.param_names]
        self.aux_arrays = [[e.aux_dict[n] for e in each] for n in self.aux_names]

    def _parts(self, names):
        """For each name, the slices of the batch with the arrays they go to."""
        pairs = list(zip(self.slices, self.train_execs))
        return [[(part, e.arg_dict[name]) for part, e in pairs] for name in names]

    def load_data_batch(self, data_batch):
        """Copies data and labels of a batch to the devices."""
        for arrays, places in (
            (data_batch.data, self.data_arrays),
            (data_batch.label, self.label_arrays),
        ):
            for array, parts in zip(arrays, places):
                for part, place in parts:
                    array[part].copyto(place)

    def forward(self, is_train=False):
        """Computes the outputs on all devices."""
        for executor in self.train_execs:
            executor.forward(is_train=is_train)

    def backward(self):
        """Computes gradients on all devices."""
        for executor in self.train_execs:
            executor.backward()

    def update_metric(self, metric, labels, pre_sliced=False):
        """Lets a metric see labels (with `pre_sliced`, a list for each device) and
        outputs."""
        for k, (part, executor) in enumerate(zip(self.slices, self.train_execs)):
            own = labels[k] if pre_sliced else [label[part] for label in labels]
            metric.update(own, executor.outputs)


class DataParallelExecutorManager:
    """[deprecated] Executors on several devices with a batch loaded by hand; Module
    does all of it.
    """

    def __init__(
        self,
        symbol,
        ctx,
        train_data,
        arg_names,
        param_names,
        aux_names,
        work_load_list=None,
        logger=None,
        sym_gen=None,
    ):
        from .module import BucketingModule, Module

        _check_arguments(symbol)
        self.symbol = symbol
        self.ctx = ctx
        self.arg_names, self.param_names = arg_names, param_names
        self.aux_names = aux_names
        names = [
            [d[0] for d in shapes]
            for shapes in (train_data.provide_data, train_data.provide_label)
        ]
        settings = {
            "context": ctx,
            "work_load_list": work_load_list,
            "logger": logger or logging,
        }
        if sym_gen is None:
            self._module = Module(symbol, *names, **settings)
        else:
            self._module = BucketingModule(
                lambda key: (sym_gen(key), *names),
                train_data.default_bucket_key,
                **settings,
            )
        self._module.bind(train_data.provide_data, train_data.provide_label)
        self._batch = None

    @property
    def _group(self):
        current = getattr(self._module, "_curr_module", self._module)
        return current._exec_group

    param_arrays = property(lambda self: self._group.param_arrays)
    grad_arrays = property(lambda self: self._group.grad_arrays)
    aux_arrays = property(lambda self: self._group.aux_arrays)
    slices = property(lambda self: self._group.slices)

    def install_monitor(self, monitor):
        """Lets a Monitor see the outputs of all operators."""
        if hasattr(self._module, "_curr_module"):
            raise MXNetNotImplementedError("Monitor: buckets are not supported here")
        self._module.install_monitor(monitor)

    def set_params(self, arg_params, aux_params):
        """Copies parameters to all devices."""
        self._group.set_params(arg_params, aux_params)
        self._module.params_initialized = True
        getattr(self._module, "_curr_module", self._module).params_initialized = True

    def copy_to(self, arg_params, aux_params):
        """Copies parameters, the mean over devices, into given arrays."""
        self._group.get_params(arg_params, aux_params)

    def load_data_batch(self, data_batch):
        """Sets the batch that forward() takes."""
        self._batch = data_batch

    def forward(self, is_train=False):
        """Computes the outputs."""
        if self._batch is None:
            raise CheckError("forward: load_data_batch() was not called")
        check(
            self._module.params_initialized,
            "forward: set_params() was not called; call it first",
        )
        self._module.forward(self._batch, is_train=is_train)

    def backward(self):
        """Computes gradients."""
        self._module.backward()

    def update_metric(self, metric, labels, pre_sliced=False):
        """Lets a metric see the labels and outputs."""
        self._module.update_metric(metric, labels, pre_sliced)
