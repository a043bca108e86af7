"""Lazy programs as Python sees them: what waits gives the values of calls that run at
once, bit for bit, also where it ends in a reduction."""

import os
import random
import time

import numpy as np
import pytest

from plait import _plait, autograd, nd


@pytest.fixture
def eager():
    """Runs work with calls that do not wait."""

    def run(work):
        before = _plait.set_lazy(False)
        try:
            return work()
        finally:
            _plait.set_lazy(before)

    return run


def bits(array):
    return array.dtype, array.shape, array.asnumpy().tobytes()


EXPRESSIONS = {
    "product": lambda x, y: (x * y).sum(),
    "distance": lambda x, y: ((x - y) ** 2).mean(axis=1),
    "columns": lambda x, y: nd.sum(x * x, axis=0),
    "norm": lambda x, y: (x - y).norm(),
    "norm of rows": lambda x, y: nd.norm(x * 2, axis=1, keepdims=True),
    "largest": lambda x, y: nd.max(nd.exp(x) - y, axis=(0, 1), keepdims=True),
    "rest": lambda x, y: nd.prod(1 + 0.001 * x, axis=0, exclude=True),
    "not a number": lambda x, y: nd.nansum(nd.sqrt(x) + y),
    "softmax": lambda x, y: nd.exp(x) / nd.exp(x).sum(axis=1, keepdims=True),
    "chain": lambda x, y: ((x * y).sum(axis=1) * 3).mean(),
    "kept": lambda x, y: nd.stack((x + y).sum(axis=0), (x + y)[0]),
}


@pytest.mark.parametrize("shape", [(4, 4), (3, 1000), (130, 257), (1, 5000)])
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_reductions_give_the_eager_bits(name, shape, eager):
    x = nd.array(np.random.normal(size=shape))
    y = nd.array(np.random.normal(size=shape))
    for dtype in ("float32", "float16", "float64"):
        arrays = x.astype(dtype), y.astype(dtype)

        def work(arrays=arrays):
            return EXPRESSIONS[name](*arrays)

        assert bits(work()) == bits(eager(work))


@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
def test_reductions_of_integers(op, eager):
    x = nd.array(np.random.randint(0, 200, (7, 300)), dtype="uint8")

    def work():
        return getattr(nd, op)(x + 100, axis=1)  # wraps

    assert bits(work()) == bits(eager(work))


def test_out_takes_the_reduction():
    x = nd.array(np.random.normal(size=(5, 60)))
    total, rows = nd.zeros((1,)), nd.zeros((5,), dtype="float64")
    nd.sum(x * x, out=total)
    nd.mean(x * x, axis=1, out=rows)
    np.testing.assert_allclose(total.asnumpy()[0], (x.asnumpy() ** 2).sum(), 1e-5)
    np.testing.assert_allclose(rows.asnumpy(), (x.asnumpy() ** 2).mean(1), 1e-5)
    with pytest.raises(ValueError, match=r"sum: out has shape \(2,\)"):
        nd.sum(x + 1, out=nd.zeros((2,)))
    with pytest.raises(IndexError, match="axis 2"):
        nd.sum(x + 1, axis=2)


@pytest.mark.parametrize("name", ["product", "distance", "norm", "largest", "softmax"])
def test_gradients_through_reductions(name, eager):
    values = [nd.array(np.random.normal(size=(6, 70))) for _ in range(2)]

    def work():
        arrays = [v.copy() for v in values]
        for a in arrays:
            a.attach_grad()
        with autograd.record():
            loss = EXPRESSIONS[name](*arrays)
        loss.backward()
        return [bits(a.grad) for a in arrays]

    assert work() == eager(work)


def random_run(seed):
    """Calls, writes, views and reductions on a few arrays; the bytes they end with."""
    rng = random.Random(seed)
    arrays = [nd.array(np.random.RandomState(seed).normal(size=(8, 90)))]
    for _ in range(80):
        x, y = rng.choice(arrays), rng.choice(arrays)
        kind = rng.randrange(7)
        try:
            if kind == 0:
                z = x * y + 0.5
            elif kind == 1:
                z = nd.tanh(x) - y
            elif kind == 2:
                axis = rng.choice([None, 0, 1])
                op = rng.choice([nd.sum, nd.mean, nd.max, nd.norm])
                args = {} if axis is None else {"axis": axis}
                z = op(x * y, keepdims=rng.random() < 0.5, **args)
            elif kind == 3:
                z = x.sum() + y
            elif kind == 4:
                x += y
                continue
            elif kind == 5:
                x[0] = rng.random()
                continue
            else:
                z = x[rng.randrange(x.shape[0]) :]
        except (IndexError, ValueError):  # shapes that do not fit
            continue
        if len(arrays) < 6:
            arrays.append(z)
        else:
            arrays[rng.randrange(6)] = z
    return [bits(a) for a in arrays]


def test_random_programs(eager):
    for seed in range(60):
        assert random_run(seed) == eager(lambda seed=seed: random_run(seed)), seed


def wait_for_the_flush():
    """Longer than a large program is left alone."""
    time.sleep(0.05)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forks_around_large_programs():
    x = nd.ones((1 << 21,))
    for pause in (0, 0.0005, 0.05):
        total = (x * 2).sum()
        y = x + 1
        time.sleep(pause)
        pid = os.fork()
        if pid == 0:
            good = total.asscalar() == 1 << 22 and (y + 1).mean().asscalar() == 3
            left = x * 3
            wait_for_the_flush()
            os._exit(0 if good and left[5].asscalar() == 3 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert total.asscalar() == 1 << 22 and y[7].asscalar() == 2
