"""Metrics against known values, local and global."""

import copy
import json
import math
import pickle

import numpy as np
import pytest

import plait as mx
from plait import nd

M = mx.metric


def value(metric, label, pred):
    metric.update([nd.array(label)], [nd.array(pred)])
    return metric.get()[1]


PRED = [[0.3, 0.7], [0.0, 1.0], [0.4, 0.6]]


def test_accuracy():
    assert value(M.Accuracy(), [0, 1, 1], PRED) == pytest.approx(2 / 3)
    assert value(M.Accuracy(), [[0, 1], [1, 0]], [[0, 1], [1, 1]]) == 0.75
    assert value(M.Accuracy(axis=0), [0, 1], [[3.0, 0.0], [1.0, 2.0]]) == 1
    with pytest.raises(ValueError, match="does not match"):
        value(M.Accuracy(), [0, 1], PRED)


def test_top_k():
    pred = [[0.1, 0.2, 0.7], [0.5, 0.3, 0.2], [0.3, 0.4, 0.3]]
    metric = M.TopKAccuracy(top_k=2)
    assert value(metric, [1, 2, 1], pred) == pytest.approx(2 / 3)
    assert metric.get()[0] == "top_k_accuracy_2"
    with pytest.raises(AssertionError, match="use Accuracy"):
        M.TopKAccuracy(top_k=1)


def test_f1_of_columns():
    pred = [[0, 1], [0, 1], [1, 0], [0, 1.0]]
    assert value(M.F1(), [[1], [0], [1], [1]], pred) == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="binary"):
        value(M.F1(), [0, 1, 2, 1], pred)


def test_macro_and_micro():
    batches = [([1, 0, 1], [[0, 1], [0, 1], [1, 0.0]]), ([1], [[0, 1.0]])]
    macro, micro = M.F1(), M.F1(average="micro")
    for label, pred in batches:
        value(macro, label, pred)
        value(micro, label, pred)
    assert macro.get()[1] == pytest.approx((0.5 + 1) / 2)
    assert micro.get()[1] == pytest.approx(4 / 6)


def test_mcc_and_pcc_agree_for_two_classes():
    label = [0] * 10 + [1] * 7
    pred = np.eye(2)[[0] * 7 + [1] * 3 + [0] * 2 + [1] * 5]
    mcc = value(M.MCC(), label, pred)
    assert mcc == pytest.approx((5 * 7 - 3 * 2) / math.sqrt(8 * 7 * 10 * 9))
    assert value(M.PCC(), label, pred) == pytest.approx(mcc)
    assert value(M.MCC(), [0, 0], [[1, 0], [1, 0.0]]) == 0


def test_pcc_grows_with_the_classes():
    metric = M.PCC()
    value(metric, [0, 1], [[1, 0], [0, 1.0]])
    value(metric, [4, 2], [4, 2])
    assert metric.get()[1] == 1 and metric.lcm.shape == (5, 5)


def test_perplexity_and_ignored_labels():
    pred = [[0.8, 0.2], [0.2, 0.8], [0.1, 0.9]]
    plain = value(M.Perplexity(None), [0, 1, 1], pred)
    assert plain == pytest.approx((0.8 * 0.8 * 0.9) ** (-1 / 3))
    ignoring = value(M.Perplexity(0), [0, 1, 1], pred)
    assert ignoring == pytest.approx((0.8 * 0.9) ** -0.5, rel=1e-5)


def test_likelihoods():
    pred = [[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]]
    expected = -(math.log(0.5) + math.log(0.1)) / 2
    for metric in (M.CrossEntropy(), M.NegativeLogLikelihood()):
        assert value(metric, [2, 1], pred) == pytest.approx(expected)
    with pytest.raises(IndexError, match="out of range for 3 classes"):
        value(M.CrossEntropy(), [3, 1], pred)


def test_likelihoods_equal_numpy_in_single_precision():
    pred = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3]], dtype="float32")
    mean = float(-np.log(pred[[0, 1], [2, 1]]).sum()) / 2
    nll, perplexity = M.NegativeLogLikelihood(), M.Perplexity(None)
    assert value(nll, [2, 1], pred) == pytest.approx(mean, rel=1e-7)
    assert value(perplexity, [2, 1], pred) == pytest.approx(math.exp(mean), rel=1e-7)


def test_errors_average_over_batches():
    for metric, values in (
        (M.MAE(), (1.0, 3.0)),
        (M.MSE(), (1.0, 9.0)),
        (M.RMSE(), (1.0, 3.0)),
    ):
        value(metric, [1.0, 2.0], [2.0, 3.0])
        value(metric, [[0.0]], [[3.0]])
        assert metric.get()[1] == pytest.approx(sum(values) / 2)


def test_pearson():
    label, pred = np.random.normal(size=(2, 30))
    expected = np.corrcoef(label, pred)[0, 1]
    assert value(M.PearsonCorrelation(), label, pred) == pytest.approx(
        expected, abs=1e-6
    )
    micro = M.PearsonCorrelation(average="micro")
    for part in range(0, 30, 10):
        value(micro, label[part : part + 10], pred[part : part + 10])
    assert micro.get()[1] == pytest.approx(expected, abs=1e-6)


def test_loss_ignores_labels():
    metric = M.Loss()
    metric.update(None, nd.array([1.0, 3.0]))
    metric.update(0, [nd.array([5.0])])
    assert metric.get() == ("loss", 3)


def test_custom_metrics():
    metric = M.create(lambda label, pred: abs(label - pred).mean())
    assert value(metric, [1.0], [3.0]) == 2 and metric.get()[0] == "custom(<lambda>)"
    counted = M.np(lambda label, pred: (10.0, 4))
    assert value(counted, [1.0], [1.0]) == 2.5
    with pytest.raises(NotImplementedError):
        metric.get_config()


def test_bad_values_are_found_when_a_value_is_read():
    metric = M.CrossEntropy()
    metric.update([nd.array([3])], [nd.array([[0.5, 0.5]])])
    with pytest.raises(IndexError, match="label 3 is out of range for 2 classes"):
        metric.get()
    assert math.isnan(metric.sum_metric)
    metric.reset()
    assert value(metric, [1], [[0.5, 0.5]]) == pytest.approx(math.log(2))


def test_sums_can_be_read_and_set():
    metric = M.Accuracy()
    value(metric, [1, 0], [1, 1])
    assert (metric.sum_metric, metric.num_inst) == (1, 2)
    metric.sum_metric += 2
    metric.num_inst += 2
    assert metric.get()[1] == 0.75 and metric.get_global()[1] == 0.5
    counts = M.F1(average="micro")
    with pytest.raises(AttributeError, match="one by one"):
        counts.sum_metric = 1


def test_metrics_can_be_copied():
    metric = M.Accuracy()
    value(metric, [1], [1])
    for again in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric))):
        value(again, [0], [1])
        assert again.get()[1] == 0.5 and metric.get()[1] == 1


def test_inputs_that_are_no_arrays():
    assert M.Accuracy().update([[1, 0]], [np.array([[0.1, 0.9], [0.2, 0.8]])]) is None
    metric = M.MAE()
    metric.update([np.array([1.0])], [nd.array([3.0])])
    assert metric.get()[1] == 2
    with pytest.raises((TypeError, ValueError)):
        metric.update([None], [nd.array([3.0])])


def test_local_and_global_values():
    metric = M.Accuracy()
    value(metric, [1], [1])
    metric.reset_local()
    assert math.isnan(metric.get()[1]) and metric.get_global()[1] == 1
    value(metric, [0], [1])
    assert metric.get()[1] == 0 and metric.get_global()[1] == 0.5
    metric.reset()
    assert math.isnan(metric.get_global()[1])


def test_composites():
    metric = M.create(["acc", "mse"])
    metric.update([nd.array([1.0])], [nd.array([1.0])])
    assert metric.get() == (["accuracy", "mse"], [1, 0])
    assert metric.get_global_name_value() == [("accuracy", 1), ("mse", 0)]
    assert isinstance(metric.get_metric(0), M.Accuracy)
    with pytest.raises(ValueError, match="out of range"):
        metric.get_metric(2)
    metric.reset()
    assert math.isnan(metric.get()[1][0])


def test_dicts_choose_outputs():
    metric = M.Accuracy(output_names=["b"], label_names=["y"])
    one, zero = nd.array([1.0]), nd.array([0.0])
    metric.update_dict({"x": zero, "y": one}, {"a": zero, "b": one})
    assert metric.get()[1] == 1


@pytest.mark.parametrize(
    "name,arguments",
    [
        ("acc", {"axis": 0}),
        ("top_k_acc", {"top_k": 3}),
        ("f1", {"average": "micro"}),
        ("mcc", {}),
        ("perplexity", {"ignore_label": -1}),
        ("pearsonr", {"average": "micro"}),
        ("pcc", {}),
        ("nll_loss", {}),
        ("ce", {"eps": 1e-3}),
        ("rmse", {}),
    ],
)
def test_configs_make_equal_metrics(name, arguments):
    metric = M.create(name, **arguments)
    again = M.create(json.dumps(metric.get_config()))
    assert type(again) is type(metric) and again.get_config() == metric.get_config()


def test_unknown_names():
    with pytest.raises(AssertionError, match="is not registered"):
        M.create("nonsense")
