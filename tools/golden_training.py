#!/usr/bin/env python3
"""What optimizers, schedules and metrics give for small inputs, as arrays by name.

usage: PYTHON_WITH_MXNET tools/golden_training.py OUT.npz

Run with the real MXNet 1.9.1 (see golden_mxnet.py) it writes the file that
tests/python/test_golden_training.py compares Plait with.
"""

import sys
import warnings

import numpy as np

OPTIMIZERS = {
    "sgd": [{}, {"momentum": 0.9}],
    "nag": [{}, {"momentum": 0.9}],
    "signum": [{}, {"wd_lh": 0.1}],
    "dcasgd": [{}],
    "adam": [{}, {"beta1": 0.8}],
    "adamax": [{}],
    "nadam": [{}],
    "ftml": [{}],
    "lamb": [{}, {"lower_bound": 0.1, "upper_bound": 0.5}, {"bias_correction": False}],
    "adagrad": [{}],
    "rmsprop": [{}, {"centered": True}, {"clip_weights": 0.5}],
    "adadelta": [{}],
    "ftrl": [{}],
    "lars": [{}, {"momentum": 0.9}],
    "lbsgd": [{"batch_scale": 2, "momentum": 0.9}, {"warmup_strategy": "lars"}],
}
COMMON = [
    {"wd": 0.03, "rescale_grad": 0.5},
    {"wd": 0.03, "clip_gradient": 0.4},
    {"multi_precision": True, "wd": 0.1},
]
NO_COPIES = ("dcasgd",)  # fails in MXNet
# Those of which MXNet updates several weights at once.
TOGETHER = ("sgd", "lamb", "lars")
NAMES = {0: "a_weight", 1: "b_bias", 2: "c_gamma"}
SHAPES = [(3, 4), (5,), (2, 3, 2)]


def optimizer_rows(mx):
    """{"optimizer/sgd/0/1": all weights after five steps, flat}.

    "states/sgd/0/2" are the float32 copies and states of weights in float16, in order,
    and "together/sgd/0/2" is the same of updates of all weights at once.
    """
    rows = {}
    for name, options in OPTIMIZERS.items():
        for i, option in enumerate(options):
            for j, common in enumerate(COMMON):
                half = common.get("multi_precision", False)
                if half and name in NO_COPIES:
                    continue
                key = "%s/%d/%d" % (name, i, j)
                options = {**common, **option}
                weights, states = after_steps(mx, name, options, half)
                rows["optimizer/" + key] = weights
                if half:
                    rows["states/" + key] = states
                if half and name in TOGETHER:
                    states = after_steps(mx, name, options, half, together=True)[1]
                    rows["together/" + key] = states
    return rows


def flat(state):
    """The values of all arrays of a state, one after the other."""
    if state is None:
        return []
    if isinstance(state, (list, tuple)):
        return [x for part in state for x in flat(part)]
    return [state.asnumpy().astype("float32").ravel()]


def after_steps(mx, name, options, half, together=False):
    random = np.random.RandomState(3)
    dtype = "float16" if half else "float32"
    schedule = mx.lr_scheduler.FactorScheduler(2, 0.5, base_lr=0.1)
    optimizer = mx.optimizer.create(
        name, param_idx2name=NAMES, lr_scheduler=schedule, **options
    )
    updater = mx.optimizer.get_updater(optimizer)
    weights = [mx.nd.array(random.normal(size=s), dtype=dtype) for s in SHAPES]
    for _ in range(5):
        grads = [mx.nd.array(random.normal(size=s), dtype=dtype) for s in SHAPES]
        if together:
            updater(list(range(len(weights))), grads, weights)
            continue
        for i, weight in enumerate(weights):
            updater(i, grads[i], weight)
    states = flat([updater.states[i] for i in range(len(weights))])
    values = [np.concatenate(flat(weights)), np.concatenate(states or [np.zeros(1)])]
    return [x.astype("float32") for x in values]


def schedule_rows(mx):
    """{"schedule/0": the rates of updates 0 to 59}."""
    schedules = mx.lr_scheduler
    made = [
        schedules.FactorScheduler(
            7, 0.3, 1e-4, base_lr=0.7, warmup_steps=5, warmup_begin_lr=0.01
        ),
        schedules.MultiFactorScheduler([3, 9, 10], 0.7, base_lr=0.3),
        schedules.PolyScheduler(50, 0.4, 3, 0.02, warmup_steps=6, warmup_begin_lr=0.1),
        schedules.CosineScheduler(40, 0.4, 0.02, 3, 0.1),
    ]
    return {
        "schedule/%d" % k: np.array([schedule(n) for n in range(60)], dtype="float64")
        for k, schedule in enumerate(made)
    }


def metric_rows(mx):
    """{"metric/acc": the value after each of four batches}."""
    random = np.random.RandomState(5)
    metrics, rows = mx.metric, {}
    classes = {
        "acc": metrics.Accuracy,
        "top": lambda: metrics.TopKAccuracy(3),
        "ce": metrics.CrossEntropy,
        "nll": lambda: metrics.NegativeLogLikelihood(1e-3),
        "perplexity": lambda: metrics.Perplexity(None),
        "ignoring": lambda: metrics.Perplexity(2),
        "pcc": metrics.PCC,
    }
    binary = {
        "f1": metrics.F1,
        "mcc": metrics.MCC,
        "f1_micro": lambda: metrics.F1(average="micro"),
        "mcc_micro": lambda: metrics.MCC(average="micro"),
    }
    numbers = {
        "mae": metrics.MAE,
        "mse": metrics.MSE,
        "rmse": metrics.RMSE,
        "pearson": metrics.PearsonCorrelation,
        "pearson_micro": lambda: metrics.PearsonCorrelation(average="micro"),
        "loss": metrics.Loss,
    }
    for group, count in ((classes, 5), (binary, 2), (numbers, 0)):
        batches = []
        for _ in range(4):
            if count:
                label = random.randint(0, count, 8)
                pred = random.uniform(0.01, 1, size=(8, count))
            else:
                label, pred = random.normal(size=(8, 2)), random.normal(size=(8, 2))
            batches.append((mx.nd.array(label), mx.nd.array(pred)))
        for name, make in group.items():
            rows["metric/" + name] = running_values(make(), batches)
    return rows


def running_values(metric, batches):
    values = []
    for label, pred in batches:
        metric.update([label], [pred])
        values.append(metric.get()[1])
    return np.array(values, dtype="float64")


def rows(mx):
    """All of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {**optimizer_rows(mx), **schedule_rows(mx), **metric_rows(mx)}


if __name__ == "__main__":
    import mxnet

    np.savez_compressed(sys.argv[1], **rows(mxnet))
