"""Training in pieces of the batch: less memory, and the same gradients."""

import json
import os
import subprocess
import sys

import pytest

CODE = """
import json, numpy as np, plait as mx
rng = np.random.default_rng(0)
x = mx.sym.var("data")
for name, pools in (("a", 0), ("b", 1), ("c", 0), ("d", 1)):
    x = mx.sym.Convolution(x, name=name, kernel=(3, 3), pad=(1, 1), num_filter=32)
    x = mx.sym.Activation(x, act_type="relu")
    if pools:
        x = mx.sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="max")
y = mx.sym.make_loss(mx.sym.mean(mx.sym.square(x)))
executor = y.simple_bind(mx.cpu(), data=(8, 3, 160, 160), grad_req=%s)
for name, array in sorted(executor.arg_dict.items()):
    array[:] = rng.standard_normal(array.shape) / 4
for _ in range(2):
    executor.forward(is_train=True)
    executor.backward()
gradients = {
    k: v.asnumpy().ravel()[::7].tolist()
    for k, v in executor.grad_dict.items()
    if v is not None and k != "data"
}
print(json.dumps([executor.memory_plan(True)["both"], gradients]))
"""


def run(disabled, grad_req):
    env = dict(os.environ, PLAIT_DISABLE=disabled)
    request = "'add'" if grad_req == "add" else "{k: 'write' for k in W}"
    code = CODE % request
    if grad_req != "add":
        weights = [f"{n}_{k}" for n in "abcd" for k in ("weight", "bias")]
        code = f"W = {weights}\n" + code
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_same_gradients_in_less_memory(grad_req):
    bytes_with, with_pieces = run("", grad_req)
    bytes_without, without = run("pieces", grad_req)
    # Where there are no blocked kernels, nothing runs in pieces.
    assert bytes_with <= bytes_without
    assert with_pieces.keys() == without.keys() and len(without) == 8
    for name, expected in without.items():
        largest = max(abs(v) for v in expected)
        assert largest > 0
        for got, wanted in zip(with_pieces[name], expected):
            assert abs(got - wanted) <= 2e-5 * largest, name
