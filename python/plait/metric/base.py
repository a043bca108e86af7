"""EvalMetric, the registry of metrics, composites, and metrics made of a function."""

from collections import OrderedDict

import numpy

from .. import _plait as _core
from .. import ndarray as nd
from .. import registry
from ..base import numeric_types


def check_label_shapes(labels, preds, wrap=False, shape=False):
    """Checks that both have the same length (shape=True: the same shape); returns both.

    wrap puts single arrays into lists.
    """
    got = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if got[0] != got[1]:
        raise ValueError(
            "Shape of labels %s does not match shape of predictions %s" % got
        )
    if wrap:
        labels = [labels] if isinstance(labels, nd.NDArray) else labels
        preds = [preds] if isinstance(preds, nd.NDArray) else preds
    return labels, preds


def to_numpy(array):
    """A NumPy array, from an NDArray or anything array-like."""
    return array.asnumpy() if isinstance(array, nd.NDArray) else numpy.asarray(array)


class EvalMetric:
    """Base. Subclasses implement update() and call _add().

    sum_metric / num_inst is the value since reset() or reset_local(); global_... since
    reset(). output_names and label_names choose what update_dict() takes.
    """

    def __init__(self, name, output_names=None, label_names=None, **kwargs):
        self.name = str(name)
        self.output_names = output_names
        self.label_names = label_names
        self._has_global_stats = kwargs.pop("has_global_stats", False)
        self._kwargs = kwargs
        self.reset()

    def __str__(self):
        return "EvalMetric: %s" % dict(self.get_name_value())

    def get_config(self):
        """What create() needs to make an equal metric."""
        return dict(
            self._kwargs,
            metric=type(self).__name__,
            name=self.name,
            output_names=self.output_names,
            label_names=self.label_names,
        )

    def update_dict(self, label, pred):
        """update() with the named labels and outputs, or all of them in order."""
        self.update(_chosen(label, self.label_names), _chosen(pred, self.output_names))

    def update(self, labels, preds):
        """Takes in lists of labels and predictions of one batch."""
        raise NotImplementedError(
            "%s: update() is not implemented" % type(self).__name__
        )

    def _add(self, total, count):
        """Adds to the local and to the global sums."""
        self.sum_metric += total
        self.global_sum_metric += total
        self.num_inst += count
        self.global_num_inst += count

    def reset(self):
        """Forgets everything."""
        self.num_inst = 0
        self.sum_metric = 0.0
        self.global_num_inst = 0
        self.global_sum_metric = 0.0

    def reset_local(self):
        """Starts the local value anew, and keeps the global one."""
        self.num_inst = 0
        self.sum_metric = 0.0

    @staticmethod
    def _mean(total, count):
        return total / count if count else float("nan")

    def get(self):
        """(name, value), since the last reset."""
        return self.name, self._mean(self.sum_metric, self.num_inst)

    def get_global(self):
        """(name, value), over all time."""
        if not self._has_global_stats:
            return self.get()
        return self.name, self._mean(self.global_sum_metric, self.global_num_inst)

    def get_name_value(self):
        """[(name, value), ...] of get()."""
        return _pairs(*self.get())

    def get_global_name_value(self):
        """[(name, value), ...] of get_global()."""
        if not self._has_global_stats:
            return self.get_name_value()
        return _pairs(*self.get_global())


def to_ndarray(array):
    """An NDArray, from one or from anything array-like, in its own dtype."""
    if isinstance(array, nd.NDArray):
        return array
    array = numpy.asarray(array)
    return nd.array(array, dtype=array.dtype)


def _total_property(sums, position, doc):
    def get(self):
        return _core.metric_total(self._kind, self, getattr(self, sums))[position]

    def put(self, value):
        array = getattr(self, sums)
        if array.size != 2:
            raise AttributeError(
                "%s: its sums cannot be set one by one" % type(self).__name__
            )
        array[position] = value

    return property(get, put, doc=doc)


class Measured(EvalMetric):
    """A metric of the core: sums are arrays that the engine adds to, so that update()
    does not wait; reading a value or a sum does.

    The attributes that the core's metric has are set before __init__ of this class.
    """

    _kind = None  # the core's name

    sum_metric = _total_property("_local", 0, "The sum since the last reset.")
    num_inst = _total_property("_local", 1, "How many it is of.")
    global_sum_metric = _total_property("_global", 0, "The sum over all time.")
    global_num_inst = _total_property("_global", 1, "How many it is of.")

    def __init__(self, name, output_names, label_names, **kwargs):
        super().__init__(name, output_names, label_names, **kwargs)
        self._has_global_stats = True

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        self._update_sums(labels, preds)

    def _update_sums(self, labels, preds):
        sums = _core.metric_update(
            self._kind,
            self,
            [to_ndarray(x) for x in labels],
            [to_ndarray(x) for x in preds],
            self._local,
            self._global,
        )
        if sums is not None:
            self._local, self._global = sums

    def reset(self):
        self.reset_local()
        self._global = _core.metric_new_sums(self._kind, self)

    def reset_local(self):
        self._local = _core.metric_new_sums(self._kind, self)

    def get(self):
        return self.name, _core.metric_value(self._kind, self, self._local)

    def get_global(self):
        if not self._has_global_stats:
            return self.get()
        return self.name, _core.metric_value(self._kind, self, self._global)


def _chosen(values, names):
    return list(values.values()) if names is None else [values[name] for name in names]


def _pairs(name, value):
    names = name if isinstance(name, list) else [name]
    values = value if isinstance(value, list) else [value]
    return list(zip(names, values))


register = registry.get_register_func(EvalMetric, "metric")
alias = registry.get_alias_func(EvalMetric, "metric")
_create = registry.get_create_func(EvalMetric, "metric")


def create(metric, *args, **kwargs):
    """A metric from a name, a function feval(label, pred), a list of those, or a
    metric.
    """
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        composite = CompositeEvalMetric()
        for part in metric:
            composite.add(create(part, *args, **kwargs))
        return composite
    return _create(metric, *args, **kwargs)


@register
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Several metrics as one."""

    def __init__(
        self, metrics=None, name="composite", output_names=None, label_names=None
    ):
        self.metrics = []
        super().__init__(
            name,
            output_names=output_names,
            label_names=label_names,
            has_global_stats=True,
        )
        self.metrics = [create(m) for m in metrics or ()]

    def add(self, metric):
        """Adds a metric."""
        self.metrics.append(create(metric))

    def get_metric(self, index):
        """The metric number `index`."""
        if not -len(self.metrics) <= index < len(self.metrics):
            raise ValueError(
                "Metric index %d is out of range 0 and %d" % (index, len(self.metrics))
            )
        return self.metrics[index]

    def update_dict(self, labels, preds):
        if self.label_names is not None:
            labels = OrderedDict(i for i in labels.items() if i[0] in self.label_names)
        if self.output_names is not None:
            preds = OrderedDict(i for i in preds.items() if i[0] in self.output_names)
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    def update(self, labels, preds):
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self):
        for metric in self.metrics:
            metric.reset()

    def reset_local(self):
        for metric in self.metrics:
            metric.reset_local()

    @staticmethod
    def _joined(results):
        names, values = [], []
        for name, value in results:
            names += [name] if isinstance(name, str) else name
            values += [value] if isinstance(value, numeric_types) else value
        return names, values

    def get(self):
        return self._joined(m.get() for m in self.metrics)

    def get_global(self):
        return self._joined(m.get_global() for m in self.metrics)

    def get_config(self):
        return dict(
            super().get_config(), metrics=[m.get_config() for m in self.metrics]
        )


@register
class CustomMetric(EvalMetric):
    """feval(label, pred) on NumPy arrays: a value for the batch, or (sum, count)."""

    def __init__(
        self,
        feval,
        name=None,
        allow_extra_outputs=False,
        output_names=None,
        label_names=None,
    ):
        if name is None:
            name = feval.__name__
            if "<" in name:  # a lambda
                name = "custom(%s)" % name
        super().__init__(
            name,
            feval=feval,
            allow_extra_outputs=allow_extra_outputs,
            output_names=output_names,
            label_names=label_names,
            has_global_stats=True,
        )
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    def update(self, labels, preds):
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, True)
        for pred, label in zip(preds, labels):
            result = self._feval(to_numpy(label), to_numpy(pred))
            self._add(*result if isinstance(result, tuple) else (result, 1))

    def get_config(self):
        raise NotImplementedError("CustomMetric cannot be serialized")


def np(numpy_feval, name=None, allow_extra_outputs=False):
    """A CustomMetric of a function on NumPy arrays."""

    def feval(label, pred):
        return numpy_feval(label, pred)

    feval.__name__ = numpy_feval.__name__
    return CustomMetric(feval, name, allow_extra_outputs)
