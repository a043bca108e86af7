"""Metrics of numbers: errors, correlation, and the mean of a loss."""

import numpy

from .. import ndarray as nd
from .base import EvalMetric, alias, check_label_shapes, register, to_numpy


def _column(array):
    """A NumPy array; one axis becomes a column."""
    array = to_numpy(array)
    return array.reshape(-1, 1) if array.ndim == 1 else array


class _Error(EvalMetric):
    """The mean over batches of an error of each batch."""

    def __init__(self, name, output_names, label_names):
        super().__init__(
            name,
            output_names=output_names,
            label_names=label_names,
            has_global_stats=True,
        )

    def _error(self, difference):
        raise NotImplementedError

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            self._add(self._error(_column(label) - _column(pred)), 1)


@register
class MAE(_Error):
    """Mean absolute error."""

    def __init__(self, name="mae", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)

    def _error(self, difference):
        return numpy.abs(difference).mean()


@register
class MSE(_Error):
    """Mean squared error."""

    def __init__(self, name="mse", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)

    def _error(self, difference):
        return (difference**2.0).mean()


@register
class RMSE(_Error):
    """Root of the mean squared error of each batch, averaged."""

    def __init__(self, name="rmse", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)

    def _error(self, difference):
        return numpy.sqrt((difference**2.0).mean())


class _Moments:
    """Streaming means, squares and products of two series, in double precision."""

    def __init__(self):
        self.n = 0
        self.mean = numpy.zeros(2)
        self.products = numpy.zeros((2, 2))

    def add(self, label, pred):
        """Takes in a batch; Chan's formula for joining two sets."""
        batch = numpy.stack([label, pred])
        n, mean = batch.shape[1], batch.mean(axis=1)
        centered = batch - mean[:, None]
        delta, total = mean - self.mean, self.n + n
        self.products += centered @ centered.T
        self.products += numpy.outer(delta, delta) * (self.n * n / total)
        self.mean += delta * (n / total)
        self.n = total

    @property
    def correlation(self):
        """Pearson's."""
        return self.products[0, 1] / numpy.sqrt(
            self.products[0, 0] * self.products[1, 1]
        )


@register
@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """Pearson's correlation: the mean over batches (macro), or of all
    values (micro).
    """

    def __init__(
        self, name="pearsonr", output_names=None, label_names=None, average="macro"
    ):
        self.average = average
        super().__init__(
            name,
            output_names=output_names,
            label_names=label_names,
            has_global_stats=True,
        )

    def get_config(self):
        return dict(super().get_config(), average=self.average)

    def reset_micro(self):
        """Forgets the streamed values."""
        self._moments = _Moments()

    def reset(self):
        super().reset()
        self.reset_micro()

    def reset_local(self):
        super().reset_local()
        self.reset_micro()

    def update(self, labels, preds):
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds):
            check_label_shapes(label, pred, False, True)
            label = to_numpy(label).ravel().astype(numpy.float64)
            pred = to_numpy(pred).ravel().astype(numpy.float64)
            if self.average == "macro":
                self._add(numpy.corrcoef(pred, label)[0, 1], 1)
            else:
                self._moments.add(label, pred)
                self._add(0.0, 1)

    def get(self):
        if self.average == "macro" or not self.num_inst:
            return super().get()
        return self.name, self._moments.correlation


@register
class Loss(EvalMetric):
    """The mean of all outputs; labels are ignored."""

    def __init__(self, name="loss", output_names=None, label_names=None):
        super().__init__(
            name,
            output_names=output_names,
            label_names=label_names,
            has_global_stats=True,
        )

    def update(self, _, preds):
        for pred in [preds] if isinstance(preds, nd.NDArray) else preds:
            self._add(float(nd.sum(pred).asscalar()), pred.size)


@register
class Torch(Loss):
    """[deprecated] Loss."""

    def __init__(self, name="torch", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """[deprecated] Loss."""

    def __init__(self, name="caffe", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)
