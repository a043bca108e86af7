"""DataParallelExecutorGroup: one executor for each device, each with its part of the
batch.
"""

import logging
import re
from collections import OrderedDict

from .. import ndarray as nd
from ..context import Context, cpu
from ..error import MXNetTypeError, MXNetValueError, check
from ..executor_manager import _split_input_slice
from ..io import DataDesc
from ..ndarray.ndarray import _DTYPE_MX_TO_NP
from .checks import as_descs, names_list

__all__ = ["DataParallelExecutorGroup"]

_MOST_KNOWN = 8  # combinations of shapes whose executors are kept


def _groups_of_devices(group2ctxs, count):
    """For each device, the dict from the names of ctx_groups to devices, or None."""
    if group2ctxs is None:
        return [None] * count
    if isinstance(group2ctxs, (list, tuple)):
        check(
            len(group2ctxs) == count,
            "Module: group2ctxs has %d dicts; expected one for each of %d devices",
            len(group2ctxs),
            count,
        )
        return list(group2ctxs)
    if not isinstance(group2ctxs, dict):
        raise MXNetTypeError(
            "Module: group2ctxs is a %s; expected a dict from groups to devices, or a "
            "list of such" % type(group2ctxs).__name__
        )
    result = [{} for _ in range(count)]
    for group, devices in group2ctxs.items():
        if isinstance(devices, Context):
            devices = [devices]
        devices = list(devices) * (count if len(devices) == 1 else 1)
        check(
            len(devices) == count,
            "Module: group2ctxs[%r] names %d devices; expected 1 or %d",
            group,
            len(devices),
            count,
        )
        for mapping, device in zip(result, devices):
            mapping[group] = device
    return result


def _part(array, axis, begin, end):
    """Rows begin to end along an axis; the array itself where that is all of it."""
    if axis < 0 or (begin == 0 and end == array.shape[axis]):
        return array
    if axis == 0:
        return array[begin:end]
    return nd.slice_axis(array, axis=axis, begin=begin, end=end)


def _scatter(sources, targets, axes):
    """Copies each source to its targets, a list of (slice, array) of the devices.

    A source may be a list with one array for each device.
    """
    for source, parts, axis in zip(sources, targets, axes):
        if isinstance(source, (list, tuple)):
            for piece, (_, target) in zip(source, parts):
                piece.copyto(target)
        else:
            for rows, target in parts:
                _part(source, axis, rows.start, rows.stop).copyto(target)


def _merge(outputs, axes):
    """For each output the parts of all devices as one array."""
    merged = []
    for parts, axis in zip(outputs, axes):
        first = parts[0]
        if len(parts) > 1 and axis >= 0:
            parts = [p.as_in_context(first.context) for p in parts]
            first = nd.concat(*parts, dim=axis)
        merged.append(first)
    return merged


def _mean(arrays):
    """The mean of the devices' copies, on the CPU."""
    if len(arrays) == 1:
        return arrays[0]
    return nd.add_n(*[a.as_in_context(cpu()) for a in arrays]) / len(arrays)


class DataParallelExecutorGroup:
    """Binds a symbol on each device, and sends it its part of each batch.

    Lists of arrays (param_arrays, grad_arrays, aux_arrays, ...) have an entry for each
    name, which is a list with an array for each device.
    """

    def __init__(
        self,
        symbol,
        contexts,
        workload,
        data_shapes,
        label_shapes,
        param_names,
        for_training,
        inputs_need_grad,
        shared_group=None,
        logger=logging,
        fixed_param_names=None,
        grad_req="write",
        state_names=None,
        group2ctxs=None,
    ):
        self.symbol = symbol
        self.contexts = contexts
        self.workload = workload
        self.group2ctxs = _groups_of_devices(group2ctxs, len(contexts))
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self.logger = logger
        self.param_names = param_names
        self.fixed_param_names = names_list(fixed_param_names)
        self.state_names = names_list(state_names)
        self.arg_names = symbol.list_arguments()
        self.aux_names = symbol.list_auxiliary_states()
        self.output_names = symbol.list_outputs()
        self.num_outputs = len(self.output_names)
        self.output_layouts = [
            DataDesc.get_batch_axis(symbol[i].attr("__layout__"))
            for i in range(self.num_outputs)
        ]
        data_shapes = as_descs(data_shapes)
        label_shapes = as_descs(label_shapes or ()) or None
        self.grad_req = self._requests(
            grad_req if for_training else "null", [d.name for d in data_shapes]
        )
        self.shared_data_arrays = (
            [{} for _ in contexts]
            if shared_group is None
            else shared_group.shared_data_arrays
        )
        self._total_exec_bytes = 0
        self.execs = []
        self._known = (
            OrderedDict()
        )  # shapes of inputs -> executors; the first ones stay
        self.bind_exec(data_shapes, label_shapes, shared_group)

    def _requests(self, grad_req, data_names):
        """The request of each argument's gradient: parameters that are not fixed, and
        with inputs_need_grad the data.
        """
        if isinstance(grad_req, (list, tuple)):
            check(
                len(grad_req) == len(self.arg_names),
                "Module.bind: grad_req has %d entries; expected %d, one for each "
                "argument",
                len(grad_req),
                len(self.arg_names),
            )
            return dict(zip(self.arg_names, grad_req))
        if not isinstance(grad_req, (str, dict)):
            raise MXNetTypeError(
                "Module.bind: grad_req is a %s; expected str, list or dict"
                % type(grad_req).__name__
            )
        wanted = set(self.param_names) - set(self.fixed_param_names)
        if self.inputs_need_grad:
            wanted.update(data_names)
        request = grad_req if isinstance(grad_req, str) else "write"
        requests = {n: request if n in wanted else "null" for n in self.arg_names}
        if isinstance(grad_req, dict):
            requests.update(grad_req)
        return requests

    # Binding.

    def decide_slices(self, data_shapes):
        """The batch axis of each input; sets batch_size, and slices: each device's
        part of it.
        """
        axes = [DataDesc.get_batch_axis(d.layout) for d in data_shapes]
        for desc, axis in zip(data_shapes, axes):
            if axis < 0:
                continue
            size = desc.shape[axis]
            if self.batch_size is None:
                self.batch_size = size
                self.slices = _split_input_slice(size, self.workload)
            check(
                size == self.batch_size,
                "Module.bind: %s has shape %s, a batch of %d; expected %d, as others "
                "have",
                desc.name,
                desc.shape,
                size,
                self.batch_size,
            )
        return axes

    def bind_exec(self, data_shapes, label_shapes, shared_group=None, reshape=False):
        """Makes the executors for these shapes, or with reshape=True others that share
        the memory of the first.
        """
        self.batch_size = self.slices = None
        self.data_layouts = self.decide_slices(data_shapes)
        self.label_layouts = self.decide_slices(label_shapes or ())
        if self.slices is None:  # no batch axis at all: every device gets everything
            self.slices = [slice(i, i + 1) for i in range(len(self.contexts))]
        key = tuple((d.name, d.shape) for d in [*data_shapes, *(label_shapes or ())])
        self.execs = self._known.get(key, [])
        for i in range(len(self.contexts) if not self.execs else 0):
            inputs = self._sliced(data_shapes, i, self.data_layouts)
            labels = self._sliced(label_shapes or (), i, self.label_layouts)
            if reshape:
                shapes = self._with_other_inputs(inputs + labels)
                first = next(iter(self._known.values()))[i]
                executor = first.reshape(allow_up_sizing=True, **shapes)
            else:
                shared = None if shared_group is None else shared_group.execs[i]
                executor = self._bind_one(i, inputs, labels, shared)
            self.execs.append(executor)
        self._remember(key)
        self.data_shapes, self.label_shapes = data_shapes, label_shapes
        self.data_names = [d.name for d in data_shapes]
        self.label_names = [d.name for d in label_shapes or ()]
        self._collect_arrays()

    def _with_other_inputs(self, descs):
        """Shapes by name, also of inputs that follow from them: labels that are not
        given, states.
        """
        shapes = {d.name: d.shape for d in descs}
        known = set(self.param_names).union(shapes)
        others = [name for name in self.arg_names if name not in known]
        if others:
            inferred, _, _ = self.symbol.infer_shape(**shapes)
            all_shapes = dict(zip(self.arg_names, inferred or ()))
            shapes.update((n, all_shapes[n]) for n in others if n in all_shapes)
        return shapes

    def _remember(self, key):
        """Keeps the executors of the last few shapes, and of the first."""
        self._known[key] = self.execs
        if len(self._known) > _MOST_KNOWN:
            self._known.pop(list(self._known)[1])

    def _sliced(self, shapes, i, axes):
        result = []
        for desc, axis in zip(shapes, axes):
            shape = list(desc.shape)
            if axis >= 0:
                shape[axis] = self.slices[i].stop - self.slices[i].start
            result.append(DataDesc(desc.name, tuple(shape), desc.dtype, desc.layout))
        return result

    def _bind_one(self, i, inputs, labels, shared_exec):
        types = {d.name: d.dtype for d in inputs}
        attributes = self.symbol.attr_dict()
        for name in types:
            flag = attributes.get(name, {}).get("__dtype__", "-1")
            if flag != "-1":
                types[name] = _DTYPE_MX_TO_NP[int(flag)]
        types.update({d.name: d.dtype for d in labels})
        executor = self.symbol.simple_bind(
            ctx=self.contexts[i],
            grad_req=self.grad_req,
            type_dict=types,
            group2ctx=self.group2ctxs[i],
            shared_arg_names=self.param_names,
            shared_exec=shared_exec,
            shared_buffer=self.shared_data_arrays[i],
            **{d.name: d.shape for d in inputs + labels},
        )
        found = re.search(r"Total (\d+) MB allocated", executor.debug_str())
        self._total_exec_bytes += int(found.group(1)) if found else 0
        return executor

    def reshape(self, data_shapes, label_shapes):
        """Binds anew for other shapes; the parameters stay."""
        if data_shapes == self.data_shapes and label_shapes == self.label_shapes:
            return
        self.bind_exec(data_shapes, label_shapes, reshape=True)

    def _collect_arrays(self):
        """Sorts the arrays of all executors by what they are."""

        def of_devices(arrays_of, names):
            dicts = [arrays_of(e) for e in self.execs]
            return [[d.get(name) for d in dicts] for name in names]

        def inputs(shapes):
            names = [d.name for d in shapes or ()]
            for name in names:
                if name not in self.execs[0].arg_dict:
                    raise MXNetValueError(
                        "Module.bind: the symbol has no argument %r; it has %s"
                        % (name, ", ".join(self.arg_names))
                    )
            arrays = of_devices(lambda e: e.arg_dict, names)
            return [list(zip(self.slices, parts)) for parts in arrays]

        # In the order of the symbol's arguments, which optimizers count by.
        self.param_names = [n for n in self.arg_names if n in set(self.param_names)]
        self.data_arrays = inputs(self.data_shapes)
        self.label_arrays = inputs(self.label_shapes) if self.label_shapes else None
        self.state_arrays = of_devices(lambda e: e.arg_dict, self.state_names)
        self.param_arrays = of_devices(lambda e: e.arg_dict, self.param_names)
        self.aux_arrays = of_devices(lambda e: e.aux_dict, self.aux_names)
        self.grad_arrays = self.input_grad_arrays = None
        if self.for_training:
            self.grad_arrays = of_devices(lambda e: e.grad_dict, self.param_names)
        if self.inputs_need_grad:
            self.input_grad_arrays = of_devices(lambda e: e.grad_dict, self.data_names)

    # Parameters and states.

    def set_params(self, arg_params, aux_params, allow_extra=False):
        """Copies parameters to all devices."""
        for executor in self.execs:
            executor.copy_params_from(
                arg_params, aux_params, allow_extra_params=allow_extra
            )

    def get_params(self, arg_params, aux_params):
        """Copies parameters, the mean over devices, into given arrays."""
        for names, arrays, target in (
            (self.param_names, self.param_arrays, arg_params),
            (self.aux_names, self.aux_arrays, aux_params),
        ):
            for name, parts in zip(names, arrays):
                _mean(parts).copyto(target[name])

    def get_states(self, merge_multi_context=True):
        """The arrays of the states, a list for each."""
        check(not merge_multi_context, "get_states: merging states is not supported")
        return self.state_arrays

    def set_states(self, states=None, value=None):
        """Sets the states to arrays, or all to one number."""
        check(
            (states is None) != (value is None),
            "set_states: give either states or value",
        )
        if states is not None:
            targets = [list(zip(self.slices, parts)) for parts in self.state_arrays]
            _scatter(states, targets, [0] * len(targets))
            return
        for parts in self.state_arrays:
            for array in parts:
                array[:] = value

    # Running.

    def forward(self, data_batch, is_train=None):
        """Sends the batch (or a list with one for each device) to the devices, and
        computes the outputs.
        """
        several = isinstance(data_batch, list)

        def arrays(kind):
            if not several:
                return getattr(data_batch, kind, None)
            return list(zip(*[getattr(batch, kind) or () for batch in data_batch]))

        _scatter(arrays("data"), self.data_arrays, self.data_layouts)
        labels = arrays("label") if self.label_arrays else None
        if labels:
            _scatter(labels, self.label_arrays, self.label_layouts)
        if is_train is None:
            is_train = self.for_training
        for executor in self.execs:
            executor.forward(is_train=is_train)

    def backward(self, out_grads=None):
        """Computes gradients, from those of the outputs where these are no losses."""
        check(
            self.for_training, "Module.backward: bind() was called for_training=False"
        )
        for i, (executor, rows) in enumerate(zip(self.execs, self.slices)):
            parts = [
                _part(grad, axis, rows.start, rows.stop).as_in_context(self.contexts[i])
                for grad, axis in zip(out_grads or (), self.output_layouts)
            ]
            executor.backward(out_grads=parts)

    def get_output_shapes(self):
        """[(name, shape)] for the whole batch."""
        result = []
        for name, out, axis in zip(
            self.output_names, self.execs[0].outputs, self.output_layouts
        ):
            shape = list(out.shape)
            if axis >= 0:
                shape[axis] = self.batch_size
            result.append((name, tuple(shape)))
        return result

    def get_outputs(self, merge_multi_context=True, begin=0, end=None):
        """The outputs begin to end, put together, or a list of parts for each."""
        outputs = list(zip(*[e.outputs for e in self.execs]))[begin:end]
        if merge_multi_context:
            return _merge(outputs, self.output_layouts[begin:end])
        return [list(parts) for parts in outputs]

    def get_input_grads(self, merge_multi_context=True):
        """The gradients of the data, put together, or a list of parts for each."""
        check(
            self.inputs_need_grad,
            "Module.get_input_grads: bind() was called with inputs_need_grad=False",
        )
        if merge_multi_context:
            return _merge(self.input_grad_arrays, self.data_layouts)
        return self.input_grad_arrays

    def update_metric(self, eval_metric, labels, pre_sliced=False):
        """Lets a metric see each device's labels and outputs."""
        for i, (executor, rows) in enumerate(zip(self.execs, self.slices)):
            if pre_sliced:
                parts = labels[i]
            else:
                parts = [
                    _part(label, axis, rows.start, rows.stop)
                    for label, axis in zip(labels or (), self.label_layouts)
                ]
            eval_metric.update_dict(
                OrderedDict(zip(self.label_names, parts)),
                OrderedDict(zip(self.output_names, executor.outputs)),
            )

    def install_monitor(self, mon):
        """Lets a Monitor see the outputs of all operators."""
        for executors in self._known.values():
            for executor in executors:
                mon.install(executor)
