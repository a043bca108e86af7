"""Metrics: running values of how good predictions are, since reset() and
over all time.
"""

from .. import ndarray  # noqa: F401  (libraries look for it here)
from .base import (
    CompositeEvalMetric,
    CustomMetric,
    EvalMetric,
    alias,
    check_label_shapes,
    create,
    np,
    register,
)
from .classification import (
    F1,
    MCC,
    PCC,
    Accuracy,
    CrossEntropy,
    NegativeLogLikelihood,
    Perplexity,
    TopKAccuracy,
)
from .regression import MAE, MSE, RMSE, Caffe, Loss, PearsonCorrelation, Torch

__all__ = [
    "EvalMetric",
    "CompositeEvalMetric",
    "CustomMetric",
    "Accuracy",
    "TopKAccuracy",
    "F1",
    "MCC",
    "PCC",
    "Perplexity",
    "MAE",
    "MSE",
    "RMSE",
    "CrossEntropy",
    "NegativeLogLikelihood",
    "PearsonCorrelation",
    "Loss",
    "Torch",
    "Caffe",
    "check_label_shapes",
    "create",
    "np",
    "register",
    "alias",
]
