"""Values that are computed again in the backward part: less memory, equal gradients."""

import os
import subprocess
import sys

import numpy as np

import plait as mx
from plait import nd

SHAPE = (8, 3, 16, 16)


def network(**attributes):
    """Convolution, BatchNorm and relu, three times; attributes for the last two."""
    x = mx.sym.var("data")
    for i in range(3):
        x = mx.sym.Convolution(
            x, kernel=(3, 3), pad=(1, 1), num_filter=8, no_bias=True, name=f"conv{i}"
        )
        with mx.AttrScope(**attributes):
            x = mx.sym.BatchNorm(x, fix_gamma=False, name=f"bn{i}")
            x = mx.sym.relu(x, name=f"relu{i}")
    return mx.sym.FullyConnected(x, num_hidden=4, name="fc")


def results(symbol):
    """Output, gradients, moving statistics and the plan's bytes."""
    executor = symbol.simple_bind(mx.cpu(), data=SHAPE)
    rng = np.random.default_rng(3)
    for array in executor.arg_arrays:
        array[:] = nd.array(rng.normal(0.1, 0.5, array.shape))
    for name, array in executor.aux_dict.items():
        array[:] = 1.0 if name.endswith("var") else 0.0
    for _ in range(2):
        output = executor.forward(is_train=True)[0].asnumpy()
        executor.backward()
    arrays = [output]
    arrays += [g.asnumpy() for g in executor.grad_arrays]
    arrays += [a.asnumpy() for a in executor.aux_arrays]
    return arrays, executor.memory_plan(True)["both"]


def test_marked_nodes_are_computed_again_with_equal_results():
    plain, kept = results(network())
    marked, less = results(network(force_mirroring="True"))
    assert less < 0.8 * kept
    for a, b in zip(plain, marked, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_a_budget_bounds_what_training_keeps():
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import test_recompute as t;"
        "arrays, both = t.results(t.network());"
        "print(both, sum(float(abs(a).sum()) for a in arrays))"
    )

    def run(**variables):
        done = subprocess.run(
            [sys.executable, "-c", code, os.path.dirname(__file__)],
            env={**os.environ, **variables}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        both, total = done.stdout.split()
        return int(both), float(total)

    kept, total = run()
    least, again = run(MXNET_BACKWARD_DO_MIRROR="1")
    assert least < 0.8 * kept
    np.testing.assert_allclose(again, total, rtol=1e-5)
    budget = (kept + least) // 2
    some, again = run(PLAIT_RECOMPUTE=str(budget))
    assert least <= some <= budget
    np.testing.assert_allclose(again, total, rtol=1e-5)
