"""Checks of metrics and handlers."""

from ....metric import Accuracy, CompositeEvalMetric, EvalMetric
from ...loss import SoftmaxCrossEntropyLoss


def _check_metrics(metrics):
    """A flat list of metrics."""
    if isinstance(metrics, CompositeEvalMetric):
        return [m for metric in metrics.metrics for m in _check_metrics(metric)]
    if isinstance(metrics, EvalMetric):
        return [metrics]
    metrics = metrics or []
    if not all(isinstance(metric, EvalMetric) for metric in metrics):
        raise ValueError(
            "metrics must be a Metric or a list of Metric, refer to "
            "mxnet.metric.EvalMetric: %s" % (metrics,)
        )
    return metrics


def _check_handler_metric_ref(handler, known_metrics):
    """Handlers of the user's must watch the estimator's own metrics."""
    for name, value in vars(handler).items():
        if "metric" not in name and "monitor" not in name:
            continue
        for metric in value if isinstance(value, list) else [value]:
            if isinstance(metric, EvalMetric) and all(
                metric is not m for m in known_metrics
            ):
                raise ValueError(
                    "Event handler %s refers to a metric instance %s outside of the "
                    "known training and validation metrics. Please use the metrics "
                    "from estimator.train_metrics and estimator.val_metrics instead."
                    % (type(handler).__name__, metric)
                )


def _suggest_metric_for_loss(loss):
    return Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None
