"""Metrics of numbers: errors, correlation, and the mean of a loss."""

from .. import ndarray as nd
from .base import Measured, alias, register
from .classification import _Averaged


@register
class MAE(Measured):
    """Mean absolute error."""

    _kind = "mae"

    def __init__(self, name="mae", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)


@register
class MSE(Measured):
    """Mean squared error."""

    _kind = "mse"

    def __init__(self, name="mse", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)


@register
class RMSE(Measured):
    """Root of the mean squared error of each batch, averaged."""

    _kind = "rmse"

    def __init__(self, name="rmse", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)


@register
@alias("pearsonr")
class PearsonCorrelation(_Averaged):
    """Pearson's correlation: the mean over batches (macro), or of all
    values (micro).
    """

    _kind = "pearsonr"

    def __init__(
        self, name="pearsonr", output_names=None, label_names=None, average="macro"
    ):
        super().__init__(name, output_names, label_names, average)

    def reset_micro(self):
        """Forgets the values since the last reset."""
        self.reset_local()


@register
class Loss(Measured):
    """The mean of all outputs; labels are ignored."""

    _kind = "loss"

    def __init__(self, name="loss", output_names=None, label_names=None):
        super().__init__(name, output_names, label_names)

    def update(self, _, preds):
        self._update_sums((), [preds] if isinstance(preds, nd.NDArray) else preds)


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
