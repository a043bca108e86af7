"""What the ranks of test_store.py do: one function for each test, by name."""

import sys

import numpy as np

import plait as mx
from plait import autograd, gluon, nd
from plait import distributed as dist

RANK, SIZE = dist.rank(), dist.size()
BATCH, STEPS = 8, 5


def data():
    rng = np.random.RandomState(3)
    x = rng.randn(STEPS, BATCH, 10)
    return x, np.tanh(x @ rng.randn(10, 2))


def net_of(seed):
    mx.random.seed(seed)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(300, activation="tanh", dtype="float64", in_units=10))
    net.add(gluon.nn.Dense(2, dtype="float64", in_units=300))
    net.initialize(mx.init.Xavier())
    return net


def train(kvstore, optimizer, part, on_store=None, hybrid=True, seed=1):
    """Trains on part (first, last) of each batch; returns the weights in one row."""
    net = net_of(seed)
    if hybrid:
        net.hybridize()
    if kvstore:  # a trainer does so too, but after the first backward pass
        dist.broadcast_parameters(net.collect_params())
    trainer = gluon.Trainer(
        net.collect_params(),
        optimizer,
        {"learning_rate": 0.05, "wd": 0.01},
        kvstore=kvstore,
        update_on_kvstore=on_store,
    )
    xs, ys = data()
    for x, y in zip(xs, ys):
        x = nd.array(x[part[0] : part[1]], dtype="float64")
        y = nd.array(y[part[0] : part[1]], dtype="float64")
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(x), y)
        loss.backward()
        trainer.step(BATCH)
    return weights_of(net)


def weights_of(net):
    params = net.collect_params()
    return np.concatenate([params[k].data().asnumpy().ravel() for k in sorted(params)])


def check_equal(got, expected, tolerance=1e-12):
    error = np.abs(got - expected).max()
    assert error <= tolerance, error


def trainer_equals_one_process():
    own = (BATCH * RANK // SIZE, BATCH * (RANK + 1) // SIZE)
    for optimizer in ("sgd", "adam", "nag", "lamb"):
        expected = train(None, optimizer, (0, BATCH))
        for on_store in (True, False):
            # Only rank 0's first weights count.
            seed = 1 if RANK == 0 else 7
            got = train("dist_sync", optimizer, own, on_store, seed=seed)
            check_equal(got, expected)


def module_equals_one_process():
    def fit(kvstore, first, last):
        x = mx.sym.Variable("data")
        x = mx.sym.FullyConnected(x, num_hidden=50, name="one")
        x = mx.sym.Activation(x, act_type="tanh")
        x = mx.sym.FullyConnected(x, num_hidden=2, name="two")
        net = mx.sym.LinearRegressionOutput(x, mx.sym.Variable("label"), name="out")
        xs, ys = data()
        batch = last - first
        it = mx.io.NDArrayIter(
            xs[:, first:last].reshape(-1, 10),
            ys[:, first:last].reshape(-1, 2),
            batch,
            label_name="label",
        )
        module = mx.mod.Module(net, label_names=["label"])
        mx.random.seed(5 + (RANK if kvstore else 0))
        module.fit(
            it,
            num_epoch=2,
            kvstore=kvstore,
            eval_metric="mse",
            optimizer_params={"learning_rate": 0.1, "momentum": 0.9},
            initializer=mx.init.Xavier(),
        )
        args, _ = module.get_params()
        return np.concatenate([args[k].asnumpy().ravel() for k in sorted(args)])

    alone = fit(None, 0, BATCH)
    got = fit("dist_sync", BATCH * RANK // SIZE, BATCH * (RANK + 1) // SIZE)
    check_equal(got, alone, 1e-5)  # float32


def functions():
    x = nd.ones((3, 5)) * (RANK + 1)
    total = SIZE * (SIZE + 1) / 2
    assert (dist.allreduce(x).asnumpy() == total).all()
    assert (dist.allreduce(x, average=True).asnumpy() == total / SIZE).all()
    assert (x.asnumpy() == RANK + 1).all()
    for dtype in ("float16", "float64", "int32", "int64", "uint8"):
        assert (dist.allreduce(x.astype(dtype)).asnumpy() == total).all()
    assert (dist.broadcast(x.copy(), SIZE - 1).asnumpy() == SIZE).all()
    net = net_of(RANK)
    dist.broadcast_parameters(net.collect_params())
    mean = dist.allreduce(nd.array(weights_of(net), dtype="float64"), average=True)
    check_equal(mean.asnumpy(), weights_of(net))
    metric = mx.metric.Accuracy()
    scores = nd.array([[1, 0]] * (RANK + 1))
    metric.update([nd.array([0] * RANK + [1])], [scores])
    dist.allreduce_metric(metric)
    right = SIZE * (SIZE - 1) / 2
    assert abs(metric.get()[1] - right / total) < 1e-12, metric.get()
    dist.barrier()


def compressed():
    for kind in ("2bit", "1bit", "bfloat16"):
        store = mx.kv.create("dist_device_sync")
        store.set_gradient_compression({"type": kind, "threshold": 0.5})
        store.init("w", nd.zeros((1000,)))
        total = 0
        for _ in range(20):
            store.push("w", nd.ones((1000,)) * 0.25 * (RANK + 1))
            out = nd.zeros((1000,))
            store.pull("w", out)
            total += out.asnumpy()[999]
        expected = 20 * 0.25 * SIZE * (SIZE + 1) / 2
        assert abs(total - expected) <= 0.5 * SIZE, (kind, total, expected)


def asynchronous():
    store = mx.kv.create("dist_async")
    store.init("w", nd.zeros((500, 300)))
    store.set_optimizer(mx.optimizer.SGD(learning_rate=1.0, wd=0))
    store._barrier()
    out = nd.zeros((500, 300))
    for i in range(6):
        store.push("w", nd.ones((500, 300)))
        store.pull("w", out)
        assert (out.asnumpy() <= -(i + 1)).all()
    store._barrier()
    store.pull("w", out)
    out.wait_to_read()
    store._barrier()
    store.pull("w", out)
    assert (out.asnumpy() == -6 * SIZE).all()
    # A net converges, and all ranks see one.
    net = net_of(1)
    trainer = gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 0.02}, kvstore="dist_async"
    )
    xs, ys = data()
    losses = []
    for step in range(60):
        k = (step + RANK) % STEPS
        x, y = (nd.array(v[k], dtype="float64") for v in (xs, ys))
        with autograd.record():
            loss = gluon.loss.L2Loss()(net(x), y)
        loss.backward()
        trainer.step(BATCH)
        losses.append(loss.mean().asscalar())
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5]), losses


def bad_shapes():
    store = mx.kv.create("dist_sync")
    try:
        store.init("w", nd.zeros((3 + RANK,)))
    except mx.MXNetError as error:
        assert "'w'" in str(error) and "rank 1" in str(error), error
    else:
        raise AssertionError("different shapes were accepted")
    store.init("v", nd.zeros((3,)))
    grad = nd.ones((4 if RANK == 1 else 3,))
    try:
        store.push("v", grad)
        out = nd.zeros((3,))
        store.pull("v", out)
        out.wait_to_read()
    except mx.MXNetError as error:
        assert "'v'" in str(error), error
        assert RANK == 1 or "rank 1" in str(error), error
    else:
        raise AssertionError("a wrong gradient was accepted")
    store.push("v", nd.ones((3,)))
    store.pull("v", out if RANK != 1 else nd.zeros((3,)))
    nd.waitall()


def uneven():
    """Rank 0 has one step more than the others."""
    store = mx.kv.create("dist_sync")
    store.init("w", nd.zeros((3,)))
    for _ in range(3 if RANK == 0 else 2):
        store.push("w", nd.ones((3,)))
    if RANK == 0:
        try:
            store.pull("w", out := nd.zeros((3,)))
            out.wait_to_read()
        except mx.MXNetError as error:
            assert "has ended its program" in str(error) and "'w'" in str(error), error
        else:
            raise AssertionError("a step without the others")


def states(folder):
    """Optimizer states are saved by part and loaded again."""

    def store_of():
        store = mx.kv.create("dist_sync")
        store.set_optimizer(mx.optimizer.SGD(learning_rate=0.5, momentum=0.9))
        store.init("w", nd.zeros((700,)))
        return store

    def step(store, value):
        store.push("w", nd.ones((700,)) * value)
        store.pull("w", out := nd.zeros((700,)))
        return out

    first = store_of()
    step(first, 1.0)
    first.save_optimizer_states(folder + "/states")
    second = store_of()
    second.load_optimizer_states(folder + "/states")
    weights = step(first, 2.0) - step(second, 2.0)
    # The momentum is the same, the first weight is not.
    assert (weights.asnumpy() == -0.5 * SIZE).all(), weights


def traffic():
    """Bytes on the wire of a step: 2 (N-1)/N of the model, and 1 % for entries."""
    store = mx.kv.create("dist_sync")
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.1))
    sizes = [64 * 3 * 49, 64, 512 * 512 * 9, 512, 1000 * 2048, 1000, 17]
    keys = list(range(len(sizes)))
    values = [nd.zeros((n,)) for n in sizes]
    store.init(keys, values)
    store.pull(keys, values)
    nd.waitall()
    store._barrier()
    before = dist.traffic()
    store.pushpull(keys, values)
    nd.waitall()
    after = dist.traffic()
    model = 4 * sum(sizes) * 2 * (SIZE - 1) / SIZE
    for name in ("payload_sent", "payload_received"):
        moved = after[name] - before[name]
        assert moved <= model * 1.001, (name, moved, model)
    assert after["entry_bytes_sent"] - before["entry_bytes_sent"] < 0.01 * model


globals()[sys.argv[1]](*sys.argv[2:])
print("ok", flush=True)
