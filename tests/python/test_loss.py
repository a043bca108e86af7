"""Losses against their formulas in NumPy."""

import numpy as np
import pytest

from plait import autograd, gluon, nd

L = gluon.loss
PRED = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
LABEL = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]])
SIGNED = LABEL * 2 - 1
WEIGHT = np.array([[1.0], [3.0]])


def log_softmax(x):
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def check(loss, expected, *arguments):
    found = loss(*[nd.array(a) for a in arguments]).asnumpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_distances():
    d = PRED - LABEL
    check(L.L2Loss(), (d**2 / 2).mean(axis=1), PRED, LABEL)
    check(L.L2Loss(weight=3), 3 * (d**2 / 2).mean(axis=1), PRED, LABEL)
    check(L.L2Loss(), (WEIGHT * d**2 / 2).mean(axis=1), PRED, LABEL, WEIGHT)
    check(L.L1Loss(), np.abs(d).mean(axis=1), PRED, LABEL)
    a = np.abs(d)
    huber = np.where(a > 0.7, a - 0.35, a**2 / 1.4)
    check(L.HuberLoss(rho=0.7), huber.mean(axis=1), PRED, LABEL)


def test_labels_take_the_shape_of_predictions():
    check(L.L1Loss(), [1, 2], [[1.0], [3.0]], [0.0, 1.0])


def test_margins():
    margin = np.maximum(0, 1 - PRED * SIGNED)
    check(L.HingeLoss(), margin.mean(axis=1), PRED, SIGNED)
    check(L.SquaredHingeLoss(), (margin**2).mean(axis=1), PRED, SIGNED)
    logistic = np.log1p(np.exp(-PRED * SIGNED)).mean(axis=1)
    check(L.LogisticLoss(), logistic, PRED, SIGNED)
    check(L.LogisticLoss(label_format="binary"), logistic, PRED, LABEL)
    with pytest.raises(ValueError, match="label_format"):
        L.LogisticLoss(label_format="odd")


def test_binary_cross_entropy():
    p = 1 / (1 + np.exp(-PRED))
    plain = -(LABEL * np.log(p) + (1 - LABEL) * np.log(1 - p))
    check(L.SigmoidBCELoss(), plain.mean(axis=1), PRED, LABEL)
    check(L.SigmoidBCELoss(from_sigmoid=True), plain.mean(axis=1), p, LABEL)
    weighted = -(4 * LABEL * np.log(p) + (1 - LABEL) * np.log(1 - p)).mean(axis=1)
    loss = L.SigmoidBinaryCrossEntropyLoss()
    four = nd.array([4.0])
    found = loss(nd.array(PRED), nd.array(LABEL), None, four).asnumpy()
    np.testing.assert_allclose(found, weighted, rtol=1e-5)
    far = loss(nd.array([[-200.0, 200.0]]), nd.array([[1.0, 0.0]])).asnumpy()
    assert far.tolist() == [200]


def test_softmax_cross_entropy():
    logp = log_softmax(PRED)
    sparse = -logp[[0, 1], [2, 0]]
    check(L.SoftmaxCELoss(), sparse, PRED, np.array([2, 0]))
    check(L.SoftmaxCELoss(from_logits=True), sparse, logp, np.array([2, 0]))
    dense = -(logp * LABEL).sum(axis=1)
    check(L.SoftmaxCELoss(sparse_label=False), dense, PRED, LABEL)
    check(L.SoftmaxCELoss(), sparse * WEIGHT[:, 0], PRED, np.array([2, 0]), WEIGHT)
    by_channel = L.SoftmaxCELoss(axis=1)
    pred = np.random.normal(size=(2, 3, 4))
    label = np.random.randint(0, 3, (2, 4))
    flat = log_softmax(pred.transpose(0, 2, 1)).reshape(8, 3)
    expected = -flat[np.arange(8), label.ravel()].reshape(2, 4).mean(axis=1)
    check(by_channel, expected, pred, label)


def test_softmax_cross_entropy_gradient():
    x = nd.array(PRED)
    x.attach_grad()
    with autograd.record():
        loss = L.SoftmaxCELoss()(x, nd.array([2, 0]))
    loss.backward()
    expected = np.exp(log_softmax(PRED)) - np.eye(3)[[2, 0]]
    np.testing.assert_allclose(x.grad.asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_kl_divergence_is_summed():
    target = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    kl = (target * (np.log(target) - log_softmax(PRED))).sum(axis=1)
    check(L.KLDivLoss(), kl, log_softmax(PRED), target)
    check(L.KLDivLoss(from_logits=False), kl, PRED, target)


def test_triplet_and_cosine():
    a, b, c = PRED, LABEL, SIGNED
    apart = ((b - a) ** 2 - (c - a) ** 2).sum(axis=1) + 1
    check(L.TripletLoss(), np.maximum(0, apart), a, b, c)
    cos = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    expected = np.where([True, False], 1 - cos, np.maximum(0, cos - 0.1))[:, None]
    check(L.CosineEmbeddingLoss(margin=0.1), expected, a, b, np.array([1.0, -1.0]))


def test_poisson():
    target = np.array([[0.0, 3.0, 2.0], [1.0, 5.0, 0.0]])
    check(L.PoissonNLLLoss(), (np.exp(PRED) - target * PRED).mean(), PRED, target)
    rate = np.exp(PRED)
    plain = rate - target * np.log(rate + 1e-8)
    check(L.PoissonNLLLoss(from_logits=False), plain.mean(), rate, target)
    big = np.where(target > 1, target, 2.0)
    stirling = big * np.log(big) - big + 0.5 * np.log(2 * np.pi * big)
    full = (plain + np.where(target > 1, stirling, 0)).mean()
    check(L.PoissonNLLLoss(from_logits=False, compute_full=True), full, rate, target)


def test_smoothed_deep_metric_learning():
    x1, x2 = np.random.normal(size=(2, 4, 3))
    distance = ((x1[:, None] - x2[None]) ** 2).sum(axis=2)
    label = np.full((4, 4), 0.1)
    np.fill_diagonal(label, 0.7)
    expected = (label * (np.log(label) - log_softmax(-distance))).sum(axis=1)
    check(L.SDMLLoss(0.3), expected, x1, x2)


def test_losses_are_blocks_with_a_batch_axis():
    pred, label = PRED.T, LABEL.T
    expected = ((pred - label) ** 2 / 2).mean(axis=0)
    check(L.L2Loss(batch_axis=1), expected, pred, label)
    assert repr(L.L1Loss()) == "L1Loss(batch_axis=0, w=None)"
    with pytest.raises(AssertionError, match="weight must be a number"):
        L.L1Loss(weight="2")(nd.array(PRED), nd.array(LABEL))
