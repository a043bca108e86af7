"""Training with row_sparse gradients: lazy updates, gluon, Module, the store."""

from pathlib import Path

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon
from plait.error import MXNetError
from plait.ndarray import sparse

nd = mx.nd

# Weight and states after three updates by real MXNet 1.9.1 with weight
# arange(1, 9).reshape(4, 2) / 8, gradient rows [1, 3] of [[1, -2], [3, 0.5]], wd 0.1.
GOLDEN = np.load(
    Path(__file__).parents[1] / "golden" / "mxnet-1.9.1-sparse-updates.npz"
)
OPTIMIZERS = {
    "sgd": ("sgd", {"learning_rate": 0.1, "wd": 0.1}),
    "sgd_mom": ("sgd", {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1}),
    "sgd_std": (
        "sgd",
        {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1, "lazy_update": False},
    ),
    "adam": ("adam", {"learning_rate": 0.1, "wd": 0.1}),
    "adam_std": ("adam", {"learning_rate": 0.1, "wd": 0.1, "lazy_update": False}),
    "adagrad": ("adagrad", {"learning_rate": 0.1}),
    "ftrl": ("ftrl", {"learning_rate": 0.1, "wd": 0.1}),
}


@pytest.mark.parametrize("stype", ["default", "row_sparse"])
@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_updates_are_mxnet_s(name, stype):
    kind, options = OPTIMIZERS[name]
    updater = mx.optimizer.get_updater(mx.optimizer.create(kind, **options))
    weight = nd.arange(1, 9).reshape((4, 2)) / 8
    weight = weight.tostype(stype)
    grad = nd.sparse.row_sparse_array(([[1, -2], [3, 0.5]], [1, 3]), shape=(4, 2))
    for _ in range(3):
        updater(0, grad, weight)
    assert weight.stype == stype
    expected = GOLDEN["%s_%s" % (name, stype)]
    np.testing.assert_allclose(weight.asnumpy(), expected, rtol=2e-5, atol=1e-6)


def test_operators_update_rows():
    weight, momentum = nd.ones((3, 2)), nd.ones((3, 2))
    grad = nd.sparse.row_sparse_array(([[1.0, 2.0]], [1]), shape=(3, 2))
    nd.sparse.sgd_mom_update(weight, grad, momentum, out=weight, lr=1, momentum=0.5)
    assert weight.asnumpy().tolist() == [[1, 1], [0.5, -0.5], [1, 1]]
    assert momentum.asnumpy().tolist() == [[1, 1], [-0.5, -1.5], [1, 1]]
    nd.sgd_mom_update(
        weight, grad, momentum, out=weight, lr=1, momentum=0.5, lazy_update=False
    )
    assert weight.asnumpy()[0].tolist() == [1.5, 1.5]


def test_a_gradient_without_rows_changes_nothing():
    weight = nd.ones((3, 2))
    updater = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=1, wd=0.5))
    updater(0, nd.zeros((3, 2), stype="row_sparse"), weight)
    assert weight.asnumpy().tolist() == [[1, 1]] * 3


@pytest.mark.parametrize("hybrid", [False, True])
def test_embedding_trains_the_rows_that_it_sees(hybrid):
    net = gluon.nn.Embedding(6, 3, sparse_grad=True)
    net.initialize(mx.init.One())
    if hybrid:
        net.hybridize()
    trainer = gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 1.0, "wd": 0.1}
    )
    with autograd.record():
        loss = net(nd.array([[1, 4], [4, 4]])).sum()
    loss.backward()
    grad = net.weight.grad()
    assert grad.stype == "row_sparse"
    assert grad.indices.asnumpy().tolist() == [1, 4]
    trainer.step(1)
    rows = net.weight.data().asnumpy()[:, 0]
    np.testing.assert_allclose(rows, [1, -0.1, 1, 1, -2.1, 1], rtol=1e-6)


def test_sparse_parameters_come_by_row():
    params = gluon.ParameterDict()
    x = params.get("x", shape=(5, 2), stype="row_sparse", grad_stype="row_sparse")
    params.initialize(mx.init.One())
    with pytest.raises(RuntimeError, match="row_sparse_data"):
        x.data()
    trainer = gluon.Trainer(params, "sgd", {"learning_rate": 1.0}, kvstore="local")
    rows = x.row_sparse_data(nd.array([3, 1, 3]))
    assert rows.indices.asnumpy().tolist() == [1, 3]
    assert trainer.learning_rate == 1.0


def test_linear_classifier_of_csr_data():
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(64, 20)) * (rng.random((64, 20)) < 0.3)
    truth = rng.normal(size=(20, 1))
    labels = (dense @ truth > 0).astype("float32")
    data = nd.array(dense).tostype("csr")
    weight = nd.zeros((20, 1))
    weight.attach_grad(stype="row_sparse")
    updater = mx.optimizer.get_updater(mx.optimizer.AdaGrad(learning_rate=0.5))
    loss_of = gluon.loss.SigmoidBCELoss()
    for _ in range(30):
        for first in range(0, 64, 16):
            batch = data[first : first + 16]
            with autograd.record():
                loss = loss_of(nd.dot(batch, weight), nd.array(labels[first:][:16]))
            loss.backward()
            updater(0, weight.grad, weight)
    found = nd.dot(data, weight).asnumpy() > 0
    assert (found == labels).mean() > 0.95


def test_store_sums_rows():
    store = mx.kv.create("local")
    store.init(1, nd.ones((4, 2)).tostype("row_sparse"))
    grads = [
        nd.sparse.row_sparse_array(([[1.0, 1.0]], [k]), shape=(4, 2)) for k in (0, 2)
    ]
    store.push(1, grads)
    out = nd.zeros((4, 2), stype="row_sparse")
    store.row_sparse_pull(1, out=out, row_ids=nd.array([2, 3]))
    assert out.asnumpy().tolist() == [[0, 0], [0, 0], [1, 1], [0, 0]]
    with pytest.raises(MXNetError, match="row_sparse"):
        store.row_sparse_pull(1, out=nd.zeros((4, 2)), row_ids=nd.array([2]))


def test_executor_keeps_storage_at_its_edge():
    x, w = mx.sym.var("x"), mx.sym.var("w")
    symbol = mx.sym.dot(x, w)
    data = nd.array([[0, 2.0, 0]]).tostype("csr")
    grad = nd.zeros((3, 1), stype="row_sparse")
    executor = symbol.bind(
        mx.cpu(),
        {"x": data, "w": nd.array([[1], [2], [3]])},
        {"w": grad},
        {"x": "null", "w": "write"},
    )
    assert executor.forward(is_train=True)[0].asnumpy().tolist() == [[4]]
    executor.backward([nd.ones((1, 1))])
    assert grad.indices.asnumpy().tolist() == [1]
    data[:] = nd.array([[1.0, 0, 0]])
    assert executor.forward()[0].asnumpy().tolist() == [[1]]


def test_updates_in_place_leave_copies_alone():
    own = nd.ones((4, 2))
    weight = sparse.row_sparse_array((own, [0, 1, 2, 3]), shape=(4, 2))
    grad = sparse.row_sparse_array((nd.ones((2, 2)), [1, 3]), shape=(4, 2))
    update = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=0.5))
    expected, seen = np.ones((4, 2)), []
    for step in range(4):
        update(0, grad, weight)
        expected[[1, 3]] -= 0.5
        np.testing.assert_array_equal(weight.asnumpy(), expected)
        kinds = {
            0: weight.copy,
            1: lambda: weight.data,
            2: lambda: weight.tostype("default"),
            3: lambda: sparse.dot(nd.array(np.eye(4)).tostype("csr"), weight),
        }
        seen.append((kinds[step](), expected.copy()))
    update(0, grad, weight)
    for array, value in seen:
        np.testing.assert_array_equal(array.asnumpy(), value)
    assert (own.asnumpy() == 1).all()


def test_gradients_of_a_weight_that_is_updated_before_backward():
    weight = nd.ones((4, 2)).tostype("row_sparse")
    data = nd.array(np.eye(4)).tostype("csr")
    grad = nd.ones((4, 2)).tostype("row_sparse")
    update = mx.optimizer.get_updater(mx.optimizer.SGD(learning_rate=0.5))
    update(0, grad, weight)
    weight.attach_grad()
    with mx.autograd.record():
        y = nd.dot(data, weight)
        z = y * y
    update(0, grad, weight)
    z.backward()
    assert (weight.grad.asnumpy() == 2 * 0.5).all()
    assert (weight.asnumpy() == 0).all()
