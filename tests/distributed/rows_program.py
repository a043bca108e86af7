"""What the ranks of test_rows.py do: one function for each test, by name."""

import sys

import numpy as np

import plait as mx
from plait import autograd, gluon, nd
from plait import distributed as dist
from plait.ndarray import sparse

RANK, SIZE = dist.rank(), dist.size()
SMALL, BIG = (2, 3), (1200, 120)
RATE = 2


def nothing_but(x, expected):
    got = x.asnumpy()
    assert (got == expected).all(), (RANK, got, expected)


def store_of(kind="dist_sync", optimizer=None):
    store = mx.kv.create(kind)
    if optimizer is not None:
        store.set_optimizer(optimizer)
    return store


def adding(dtype="float32"):
    return mx.optimizer.create(
        "test", rescale_grad=RATE, multi_precision=dtype == "float16"
    )


def pulled(store, key, rows, shape, dtype="float32"):
    out = nd.zeros(shape, stype="row_sparse", dtype=dtype)
    store.row_sparse_pull(key, out=out, row_ids=nd.array(rows))
    return out


def of_values(make_store=store_of):
    """What a row_sparse key starts with is what rank 0 has; one rank can pull alone."""
    for dtype in ("float16", "float32"):
        store = make_store()
        value = np.arange(12).reshape(4, 3) + 1.0
        value[2] = 0
        given = nd.array(value if RANK == 0 else value * 7, dtype=dtype)
        store.init("w", given.tostype("row_sparse"))
        if RANK == SIZE - 1:
            out = pulled(store, "w", [3, 0, 2, 3], (4, 3), dtype)
            assert out.indices.asnumpy().tolist() == [0, 2, 3]
            value[1] = 0
            nothing_but(out, value)
        for stype in ("default", "row_sparse"):
            out = nd.ones((4, 3), dtype=dtype).tostype(stype)
            store.pull("w", out, ignore_sparse=False)
            nothing_but(out[:2], (np.arange(12).reshape(4, 3) + 1)[:2]) if (
                stype == "default"
            ) else nothing_but(out.tostype("default")[3], [10, 11, 12])


def in_step():
    """As MXNet's tests/nightly/dist_sync_kvstore.py has it."""
    for dtype in ("float16", "float32"):
        store = store_of()
        ones = nd.ones(SMALL, dtype=dtype).tostype("row_sparse")
        big_ones = nd.ones(BIG, dtype=dtype).tostype("row_sparse")
        store.init(["9", "11"], [ones] * 2)
        store.init("97", big_ones)
        store.set_optimizer(adding(dtype))
        own = np.zeros(SMALL)
        own[RANK % SMALL[0]] = RANK + 1
        expected = np.ones(SMALL)
        random = np.random.RandomState(RANK)
        for _ in range(3):
            store.push("9", nd.array(own, dtype=dtype).tostype("row_sparse"))
            for rank in range(SIZE):
                expected[rank % SMALL[0]] += (rank + 1) * RATE
            rows = random.randint(SMALL[0], size=(1, 2))
            seen = np.zeros(SMALL)
            seen[rows] = expected[rows]
            nothing_but(pulled(store, "9", rows, SMALL, dtype), seen)
        # Gradients without a row, and no rows at all.
        for key, shape in (("11", SMALL), ("97", BIG)):
            for _ in range(2):
                store.push(key, sparse.zeros("row_sparse", shape, dtype=dtype))
                nothing_but(pulled(store, key, range(shape[0]), shape, dtype), 1)
                nothing_but(pulled(store, key, [], shape, dtype), 0)
        # Each rank other rows of a large key.
        touched = np.flatnonzero(np.random.RandomState(123).rand(BIG[0]) < 0.3)
        parts = [touched[:: (rank + 1) * 2] for rank in range(SIZE)]
        own, expected = np.zeros(BIG), np.ones(BIG)
        own[parts[RANK]] = RANK + 1
        for _ in range(3):
            store.push("97", nd.array(own, dtype=dtype).tostype("row_sparse"))
            for rank, rows in enumerate(parts):
                expected[rows] += (rank + 1) * RATE
            rows = random.randint(BIG[0], size=BIG[0])
            seen = np.zeros(BIG)
            seen[rows] = expected[rows]
            nothing_but(pulled(store, "97", rows, BIG, dtype), seen)


def without_updater():
    """The sum takes the place of the stored array."""
    store = store_of()
    store.init("s", sparse.zeros("row_sparse", (6, 2)))
    store.init("d", nd.ones((6, 2)))
    for step in range(3):
        rows = [step, RANK % 6]
        value = np.zeros((6, 2))
        value[rows] = RANK + 1
        expected = np.zeros((6, 2))
        for rank in range(SIZE):
            expected[[step, rank % 6]] += rank + 1
        for key in "sd":
            grad = nd.array(value).tostype("row_sparse")
            store.push(key, [grad])
            for stype in ("default", "row_sparse"):
                out = nd.ones((6, 2)).tostype(stype)
                store.pull(key, out, ignore_sparse=False)
                nothing_but(out, expected)


def whole_keys():
    """A function of the user sees all rows of a key, on one rank."""
    store = store_of()
    shapes = {"a": (5, 2), "b": (3, 2), "d": (7, 2)}
    for key, shape in shapes.items():
        ones = nd.ones(shape)
        store.init(key, ones if key == "d" else ones.tostype("row_sparse"))
    seen = []

    def update(key, grad, weight):
        assert grad.shape == weight.shape == shapes[key], (key, grad.shape)
        seen.append(key)
        weight[:] = weight + grad / grad.tostype("default").max()

    store._set_updater(update)
    for key, shape in shapes.items():
        value = np.zeros(shape)
        value[RANK % shape[0]] = 3
        store.push(key, nd.array(value).tostype("row_sparse"))
        expected, count = np.ones(shape), np.zeros(shape)
        for rank in range(SIZE):
            count[rank % shape[0]] += 1
        expected += count / count.max()
        store.pull(key, out := nd.zeros(shape), ignore_sparse=False)
        nothing_but(out, expected)
    counts = dist.allreduce(nd.array([len(seen)])).asscalar()
    assert counts == 3, (counts, seen)


class Net(gluon.HybridBlock):
    def __init__(self, sparse_grad):
        super().__init__()
        with self.name_scope():
            self.words = gluon.nn.Embedding(
                50, 8, sparse_grad=sparse_grad, dtype="float64"
            )
            self.out = gluon.nn.Dense(2, dtype="float64", in_units=8)

    def hybrid_forward(self, F, x):
        return self.out(self.words(x).mean(axis=1))


def trained(kvstore, optimizer, first, last, options=(), on_store=None, hybrid=False):
    mx.random.seed(3)
    net = Net(True)
    net.initialize(mx.init.Uniform(0.5))
    if hybrid:
        net.hybridize()
    options = dict(options, learning_rate=0.1)
    trainer = gluon.Trainer(
        net.collect_params(),
        optimizer,
        options,
        kvstore=kvstore,
        update_on_kvstore=on_store,
    )
    random = np.random.RandomState(5)
    for step in range(6):
        words = random.randint(0, 40, size=(8, 4))
        labels = random.randn(8, 2)
        with autograd.record():
            y = net(nd.array(words[first:last], dtype="int32"))
            loss = gluon.loss.L2Loss()(y, nd.array(labels[first:last], dtype="float64"))
        loss.backward()
        trainer.set_learning_rate(0.1 / (1 + step))
        trainer.step(8)
    return [p.data().asnumpy() for _, p in sorted(net.collect_params().items())]


def embedding_equals_one_process():
    """Row_sparse gradients of a dense weight."""
    own = (8 * RANK // SIZE, 8 * (RANK + 1) // SIZE)
    for optimizer, options in (
        ("sgd", {}),
        ("sgd", {"momentum": 0.9, "wd": 0.01}),
        ("adam", {"wd": 0.01}),
        ("adagrad", {}),
        ("ftrl", {}),
        ("nag", {}),
    ):
        expected = trained(None, optimizer, 0, 8, options)
        for on_store in (True, False):
            for hybrid in (False, True):
                got = trained("dist_sync", optimizer, *own, options, on_store, hybrid)
                for x, y in zip(got, expected):
                    assert np.abs(x - y).max() < 1e-12, (optimizer, on_store, hybrid)


def sparse_weight_equals_one_process():
    """Weights that exist once among all ranks, of which each pulls what it needs."""

    def run(kvstore, first, last):
        mx.random.seed(1)
        net = gluon.contrib.nn.SparseEmbedding(30, 4, dtype="float64")
        net.initialize(mx.init.Uniform(1.0))
        trainer = gluon.Trainer(
            net.collect_params(),
            "adam",
            {"learning_rate": 0.1},
            kvstore=kvstore,
        )
        random = np.random.RandomState(2)
        for _ in range(5):
            words = nd.array(random.randint(0, 25, size=(6, 3))[first:last])
            with autograd.record():
                loss = (net(words) ** 2).sum()
            loss.backward()
            trainer.step(6)
        every = nd.arange(30)
        return net.weight.row_sparse_data(every).asnumpy()

    got = run("dist_sync", 6 * RANK // SIZE, 6 * (RANK + 1) // SIZE)
    expected = run("local", 0, 6)
    assert np.abs(got - expected).max() < 1e-12, (got, expected)


def asynchronous():
    """A rank reads its own writes; each push is applied once."""
    for sparse_key in (True, False):
        store = store_of("dist_async", mx.optimizer.SGD(learning_rate=1.0, wd=0))
        weight = nd.ones((40, 5))
        store.init("w", weight.tostype("row_sparse") if sparse_key else weight)
        rows = np.array([RANK, 17, 39])
        value = np.zeros((40, 5))
        value[rows] = 1
        grad = nd.array(value).tostype("row_sparse")
        for i in range(5):
            store.push("w", grad)
            if sparse_key:
                out = pulled(store, "w", [RANK], (40, 5))
            else:
                store.pull("w", out := nd.zeros((40, 5)))
            got = out.asnumpy()[RANK]
            assert (got <= -i).all(), (i, got)
        store._barrier()
        out = nd.zeros((40, 5))
        store.pull("w", out, ignore_sparse=False)
        out.wait_to_read()
        store._barrier()
        store.pull("w", out, ignore_sparse=False)
        expected = np.ones((40, 5))
        for rank in range(SIZE):
            expected[[rank, 17, 39]] -= 5
        nothing_but(out, expected)
        # Not further ahead than the bound, though each pushes rows of one owner only.
        store._barrier()
        store.set_staleness(1)
        value[:] = 0
        value[17] = 1
        grad = nd.array(value).tostype("row_sparse")
        for i in range(6):
            store.push("w", grad)
            if sparse_key:
                out = pulled(store, "w", [17], (40, 5))
            else:
                store.pull("w", out := nd.zeros((40, 5)))
            least = i + 1 + (SIZE - 1) * i
            assert (out.asnumpy()[17] <= 1 - 5 * SIZE - least).all(), (i, least)
        store._barrier()


def wrong():
    """Errors name the key and the rank, on all ranks, and the next round works."""
    store = store_of(optimizer=mx.optimizer.SGD(learning_rate=1.0, wd=0))
    try:
        store.init("w", sparse.zeros("row_sparse", (3 + RANK, 2)))
    except mx.MXNetError as error:
        assert "'w'" in str(error) and "rank 1" in str(error), error
    else:
        raise AssertionError("different shapes were accepted")
    store.init("v", sparse.zeros("row_sparse", (4, 2)))
    store.init("d", nd.zeros((4, 2)))
    for key in "vd":
        good = nd.ones((4, 2)).tostype("row_sparse")
        store.push(key, good)
        bad = nd.ones((5 if RANK == 1 else 4, 2)).tostype("row_sparse")
        try:
            store.push(key, bad)
        except mx.MXNetError as error:
            assert repr(key) in str(error), error
            assert RANK == 1 or "rank 1" in str(error), error
        else:
            raise AssertionError("a wrong gradient was accepted")
        store.push(key, good)
        out = nd.zeros((4, 2))
        store.pull(key, out, ignore_sparse=False)
        nothing_but(out, -2 * SIZE)
    for ids in ([4], [-1]):
        try:
            pulled(store, "v", ids, (4, 2))
        except mx.MXNetError as error:
            assert "rows of 'v'" in str(error), error
        else:
            raise AssertionError("a row that is not there was pulled")
    # A gradient that fails after it was pushed.
    store.init("late", nd.ones((4, 2)))
    grad = nd.ones((4, 2)).tostype("row_sparse")
    if RANK == 1:
        data = nd.take(nd.ones((4, 2)), nd.array([9.0, 0, 0, 0]), mode="raise")
        grad = sparse.row_sparse_array((data, [0, 1, 2, 3]), shape=(4, 2))
    try:
        store.push("late", grad)
        out = nd.zeros((4, 2))
        store.pull("late", out)
        out.wait_to_read()
    except (mx.MXNetError, IndexError) as error:
        assert RANK == 1 or "rank 1" in str(error), error
    else:
        raise AssertionError("a failed gradient was accepted")


def leaves():
    """A push that waits for a rank whose program has ended names it."""
    store = store_of()
    store.init("w", sparse.zeros("row_sparse", (4, 2)))
    if RANK == 0:
        try:
            store.push("w", nd.ones((4, 2)).tostype("row_sparse"))
        except mx.MXNetError as error:
            assert "has ended its program" in str(error) and "'w'" in str(error), error
        else:
            raise AssertionError("a step without the others")


def traffic():
    """Only touched rows travel: to their owners, and what has become of them back."""
    rows, width, touched = 40000, 64, 500
    store = store_of(optimizer=mx.optimizer.Adam())
    store.init("s", sparse.zeros("row_sparse", (rows, width)))
    store.init("d", nd.zeros((rows, width)))
    random = np.random.RandomState(RANK)
    for key in "sd":
        moved = []
        for _ in range(3):
            ids = np.sort(random.permutation(rows)[:touched])
            grad = sparse.row_sparse_array(
                (nd.ones((touched, width)), nd.array(ids, dtype="int64")),
                shape=(rows, width),
            )
            nd.waitall()
            store._barrier()
            before = dist.traffic()["payload_sent"]
            store.push(key, grad)
            if key == "s":
                pulled(store, key, ids, (rows, width)).wait_to_read()
            else:
                store.pull(key, out := nd.zeros((rows, width)))
                out.wait_to_read()
            nd.waitall()
            moved.append(dist.traffic()["payload_sent"] - before)
        row = 4 * width + 8
        others = touched * (SIZE - 1) / SIZE
        # To owners, and the same rows back; or what each owns to all others.
        most = others * row + (
            others * row if key == "s" else touched * (SIZE - 1) * row
        )
        assert max(moved) < 1.3 * most + 4096, (key, moved, most)


globals()[sys.argv[1]](*sys.argv[2:])
print("ok", flush=True)
