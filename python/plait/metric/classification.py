"""Metrics of class predictions: accuracy, F1, correlation, likelihood."""

import math

import numpy

from .. import ndarray as nd
from ..error import check
from .base import EvalMetric, alias, check_label_shapes, register, to_numpy


@register
@alias("acc")
class Accuracy(EvalMetric):
    """Share of right predictions; scores are reduced by argmax over `axis`."""

    def __init__(self, axis=1, name="accuracy", output_names=None, label_names=None):
        super().__init__(
            name,
            axis=axis,
            output_names=output_names,
            label_names=label_names,
            has_global_stats=True,
        )
        self.axis = axis

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            if pred.shape != label.shape:
                pred = pred.argmax(axis=self.axis)  # where it lies: few bytes to copy
            pred = to_numpy(pred).astype("int32").ravel()
            label = to_numpy(label).astype("int32").ravel()
            check_label_shapes(label, pred)
            self._add(int((pred == label).sum()), len(pred))


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(EvalMetric):
    """Share of labels among the top_k highest scores."""

    def __init__(
        self, top_k=1, name="top_k_accuracy", output_names=None, label_names=None
    ):
        super().__init__(
            name,
            top_k=top_k,
            output_names=output_names,
            label_names=label_names,
            has_global_stats=True,
        )
        self.top_k = top_k
        check(
            top_k > 1, "Please use Accuracy if top_k is no more than 1, got %s", top_k
        )
        self.name += "_%d" % top_k

    def get_config(self):
        return dict(super().get_config(), name=self.name[: -len("_%d" % self.top_k)])

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            check(
                len(pred.shape) <= 2,
                "Predictions should be no more than 2 dims, got %s",
                pred.shape,
            )
            pred = to_numpy(pred).astype("float32", copy=False)
            label = to_numpy(label).astype("int32").ravel()
            check_label_shapes(label, pred)
            if pred.ndim == 1:
                right = (numpy.argsort(pred) == label).sum()
            else:
                k = min(pred.shape[1], self.top_k)
                best = numpy.argpartition(pred, -k, axis=1)[:, -k:]
                right = (best == label[:, None]).sum()
            self._add(int(right), pred.shape[0])


class _BinaryCounts:
    """A 2x2 table of counts, table[label, prediction]."""

    def __init__(self):
        self.clear()

    def clear(self):
        """Sets all counts to zero."""
        self.table = numpy.zeros((2, 2), dtype=numpy.int64)

    def add(self, label, pred, what):
        """Counts a batch of labels and of scores for both classes."""
        pred = to_numpy(pred)
        label = to_numpy(label).astype("int32").ravel()
        check_label_shapes(label, pred)
        if len(numpy.unique(label)) > 2:
            raise ValueError("%s currently only supports binary classification." % what)
        chosen = numpy.argmax(pred, axis=1) == 1
        batch = numpy.bincount(2 * (label == 1) + chosen, minlength=4).reshape(2, 2)
        self.table += batch

    @property
    def total(self):
        """How many were counted."""
        return int(self.table.sum())

    @property
    def f1(self):
        """2 tp / (2 tp + fp + fn); 0 without any positive."""
        (_, fp), (fn, tp) = self.table.tolist()
        return 2.0 * tp / (2 * tp + fp + fn) if tp else 0.0

    @property
    def mcc(self):
        """Matthews' correlation; sums that are 0 are left out of the denominator."""
        if not self.total:
            return 0.0
        (tn, fp), (fn, tp) = self.table.astype(float).tolist()
        denominator = 1.0
        for term in (tp + fp, tp + fn, tn + fp, tn + fn):
            denominator *= term or 1.0
        return (tp * tn - fp * fn) / math.sqrt(denominator)


class _BinaryMetric(EvalMetric):
    """A score of binary counts: the mean over batches (macro) or of all
    counts (micro).
    """

    _score = None  # the name of a property of _BinaryCounts

    def __init__(self, name, output_names, label_names, average):
        self.average = average
        self._local, self._global = _BinaryCounts(), _BinaryCounts()
        super().__init__(
            name,
            output_names=output_names,
            label_names=label_names,
            has_global_stats=True,
        )

    def get_config(self):
        return dict(super().get_config(), average=self.average)

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            self._local.add(label, pred, type(self).__name__)
            self._global.add(label, pred, type(self).__name__)
        if self.average == "macro":
            self._add(getattr(self._local, self._score), 1)
            self._local.clear()
            self._global.clear()
        else:
            self.num_inst = self._local.total
            self.sum_metric = getattr(self._local, self._score) * self.num_inst
            self.global_num_inst = self._global.total
            self.global_sum_metric = (
                getattr(self._global, self._score) * self.global_num_inst
            )

    def reset(self):
        super().reset()
        self._local.clear()
        self._global.clear()

    def reset_local(self):
        super().reset_local()
        self._local.clear()


@register
class F1(_BinaryMetric):
    """Harmonic mean of precision and recall, of two classes."""

    _score = "f1"

    def __init__(self, name="f1", output_names=None, label_names=None, average="macro"):
        super().__init__(name, output_names, label_names, average)


@register
class MCC(_BinaryMetric):
    """Matthews' correlation coefficient, of two classes."""

    _score = "mcc"

    def __init__(
        self, name="mcc", output_names=None, label_names=None, average="macro"
    ):
        super().__init__(name, output_names, label_names, average)


@register
class PCC(EvalMetric):
    """Matthews' correlation for any number of classes, from a growing
    confusion matrix.
    """

    def __init__(
        self, name="pcc", output_names=None, label_names=None, has_global_stats=True
    ):
        self.k = 2
        super().__init__(
            name=name,
            output_names=output_names,
            label_names=label_names,
            has_global_stats=has_global_stats,
        )

    def _grow(self, classes):
        more = ((0, classes - self.k), (0, classes - self.k))
        self.lcm, self.gcm = numpy.pad(self.lcm, more), numpy.pad(self.gcm, more)
        self.k = classes

    @staticmethod
    def _correlation(matrix):
        n, x, y = matrix.sum(), matrix.sum(axis=1), matrix.sum(axis=0)
        spread_x, spread_y = numpy.sum(x * (n - x)), numpy.sum(y * (n - y))
        if spread_x == 0 or spread_y == 0:
            return float("nan")
        return numpy.sum(matrix.diagonal() * n - x * y) / (spread_x * spread_y) ** 0.5

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            if pred.shape != label.shape:
                pred = pred.argmax(axis=1)
            label = to_numpy(label).astype("int64").ravel()
            pred = to_numpy(pred).astype("int64").ravel()
            classes = int(max(pred.max(), label.max())) + 1
            if classes > self.k:
                self._grow(classes)
            batch = numpy.bincount(pred * self.k + label, minlength=self.k**2)
            batch = batch.reshape(self.k, self.k)
            self.lcm += batch
            self.gcm += batch
        self.num_inst += 1
        self.global_num_inst += 1

    @property
    def sum_metric(self):
        """The correlation, times the number of batches."""
        return self._correlation(self.lcm) * self.num_inst

    @property
    def global_sum_metric(self):
        """The correlation over all time, times the number of batches."""
        return self._correlation(self.gcm) * self.global_num_inst

    def reset(self):
        self.global_num_inst = 0
        self.gcm = numpy.zeros((self.k, self.k))
        self.reset_local()

    def reset_local(self):
        self.num_inst = 0
        self.lcm = numpy.zeros((self.k, self.k))


@register
class Perplexity(EvalMetric):
    """exp of the mean of -log p[label]; labels equal to ignore_label do not count."""

    def __init__(
        self,
        ignore_label,
        axis=-1,
        name="perplexity",
        output_names=None,
        label_names=None,
    ):
        super().__init__(
            name,
            ignore_label=ignore_label,
            output_names=output_names,
            label_names=label_names,
            has_global_stats=True,
        )
        self.ignore_label = ignore_label
        self.axis = axis

    def get_config(self):
        return dict(super().get_config(), axis=self.axis)

    def update(self, labels, preds):
        check_label_shapes(labels, preds)
        total, count = 0.0, 0
        for label, pred in zip(labels, preds):
            check(
                label.size == pred.size / pred.shape[-1],
                "shape mismatch: %s vs. %s",
                label.shape,
                pred.shape,
            )
            label = label.as_in_context(pred.context).reshape((label.size,))
            prob = nd.pick(pred, label.astype("int32"), axis=self.axis)
            count += prob.size
            if self.ignore_label is not None:
                ignored = (
                    (label == self.ignore_label).astype(prob.dtype).reshape(prob.shape)
                )
                count -= int(nd.sum(ignored).asscalar())
                prob = prob * (1 - ignored) + ignored
            total -= float(nd.sum(nd.log(nd.maximum(1e-10, prob))).asscalar())
        self._add(total, count)

    def _value(self, total, count):
        return math.exp(total / count) if count else float("nan")


class _Likelihood(EvalMetric):
    """-log(p[label] + eps), per sample."""

    def __init__(self, eps, name, output_names, label_names):
        super().__init__(
            name,
            eps=eps,
            output_names=output_names,
            label_names=label_names,
            has_global_stats=True,
        )
        self.eps = eps

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            label = to_numpy(label).ravel().astype(numpy.int64)
            count, classes = pred.shape
            check(
                len(label) == count, "%d labels for %d predictions", len(label), count
            )
            if count and not (-classes <= label.min() and label.max() < classes):
                raise IndexError(
                    "%s: labels from %d to %d are out of range for %d classes"
                    % (self.name, label.min(), label.max(), classes)
                )
            if isinstance(
                pred, nd.NDArray
            ):  # picked on the device: only those are copied
                where = nd.array(label % classes, ctx=pred.context, dtype="int32")
                prob = nd.pick(pred, where, axis=1).asnumpy()
            else:
                prob = numpy.asarray(pred)[numpy.arange(count), label]
            self._add((-numpy.log(prob + self.eps)).sum(), count)


@register
@alias("ce")
class CrossEntropy(_Likelihood):
    """Mean of -log(p[label] + eps)."""

    def __init__(
        self, eps=1e-12, name="cross-entropy", output_names=None, label_names=None
    ):
        super().__init__(eps, name, output_names, label_names)


@register
@alias("nll_loss")
class NegativeLogLikelihood(_Likelihood):
    """Mean of -log(p[label] + eps)."""

    def __init__(self, eps=1e-12, name="nll-loss", output_names=None, label_names=None):
        super().__init__(eps, name, output_names, label_names)
