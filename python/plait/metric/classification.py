"""Metrics of class predictions: accuracy, F1, correlation, likelihood."""

from ..error import check
from .base import Measured, alias, register


@register
@alias("acc")
class Accuracy(Measured):
    """Share of right predictions; scores are reduced by argmax over `axis`."""

    _kind = "accuracy"

    def __init__(self, axis=1, name="accuracy", output_names=None, label_names=None):
        self.axis = axis
        super().__init__(name, output_names, label_names, axis=axis)


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(Measured):
    """Share of labels among the top_k highest scores."""

    _kind = "top_k_accuracy"

    def __init__(
        self, top_k=1, name="top_k_accuracy", output_names=None, label_names=None
    ):
        self.top_k = top_k
        super().__init__(name, output_names, label_names, top_k=top_k)
        check(
            top_k > 1, "Please use Accuracy if top_k is no more than 1, got %s", top_k
        )
        self.name += "_%d" % top_k

    def get_config(self):
        return dict(super().get_config(), name=self.name[: -len("_%d" % self.top_k)])


class _Averaged(Measured):
    """A metric that averages over batches (macro), or takes all values together
    (micro).
    """

    def __init__(self, name, output_names, label_names, average):
        self.average = average
        super().__init__(name, output_names, label_names)

    def get_config(self):
        return dict(super().get_config(), average=self.average)


@register
class F1(_Averaged):
    """Harmonic mean of precision and recall, of two classes."""

    _kind = "f1"

    def __init__(self, name="f1", output_names=None, label_names=None, average="macro"):
        super().__init__(name, output_names, label_names, average)


@register
class MCC(_Averaged):
    """Matthews' correlation coefficient, of two classes."""

    _kind = "mcc"

    def __init__(
        self, name="mcc", output_names=None, label_names=None, average="macro"
    ):
        super().__init__(name, output_names, label_names, average)


@register
class PCC(Measured):
    """Matthews' correlation for any number of classes, from a growing
    confusion matrix.
    """

    _kind = "pcc"

    def __init__(
        self, name="pcc", output_names=None, label_names=None, has_global_stats=True
    ):
        super().__init__(name, output_names, label_names)
        self._has_global_stats = has_global_stats

    @staticmethod
    def _matrix(sums):
        counts = sums.asnumpy()[1:]
        return counts.reshape((round(len(counts) ** 0.5), -1))

    @property
    def k(self):
        """The number of classes so far, at least 2."""
        return len(self.lcm)

    @property
    def lcm(self):
        """Counts [prediction, label] since the last reset."""
        return self._matrix(self._local)

    @property
    def gcm(self):
        """Counts [prediction, label] over all time."""
        return self._matrix(self._global)


@register
class Perplexity(Measured):
    """exp of the mean of -log p[label]; labels equal to ignore_label do not count."""

    _kind = "perplexity"

    def __init__(
        self,
        ignore_label,
        axis=-1,
        name="perplexity",
        output_names=None,
        label_names=None,
    ):
        self.ignore_label = ignore_label
        self.axis = axis
        super().__init__(name, output_names, label_names, ignore_label=ignore_label)

    def get_config(self):
        return dict(super().get_config(), axis=self.axis)


class _Likelihood(Measured):
    """-log(p[label] + eps), per sample."""

    _kind = "cross-entropy"

    def __init__(self, eps, name, output_names, label_names):
        self.eps = eps
        super().__init__(name, output_names, label_names, eps=eps)


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
