"""What has the same bits for any number of threads."""

import os
import subprocess
import sys
from pathlib import Path

import plait as mx

PROGRAM = """
import hashlib
import numpy as np
import plait as mx
from plait import autograd, nd

SHAPES = [(300, 1001), (7,), (0,), (64, 3, 7, 7), (1, 200003), (33,)]


def bits(name, arrays):
    digest = hashlib.sha256()
    for x in arrays:
        digest.update(x.astype("float32").asnumpy().tobytes())
    print(name, digest.hexdigest(), flush=True)


def flat(state):
    if state is None:
        return []
    if isinstance(state, (list, tuple)):
        return [x for part in state for x in flat(part)]
    return [state]


def update(name, half, **options):
    random = np.random.RandomState(0)
    optimizer = mx.optimizer.create(name, wd=0.01, multi_precision=half, **options)
    updater = mx.optimizer.get_updater(optimizer)
    dtype = "bfloat16" if half else "float32"
    keys = list(range(len(SHAPES)))
    weights = [nd.array(random.normal(size=s)).astype(dtype) for s in SHAPES]
    for _ in range(2):
        grads = [nd.array(random.normal(size=s)).astype(dtype) for s in SHAPES]
        updater(keys, grads, weights)
    bits("%s %s" % (name, dtype), weights + flat([updater.states[k] for k in keys]))


for half in (False, True):
    update("sgd", half, momentum=0.9)
    update("nag", half, momentum=0.9)
    for name in ("adam", "adamw", "lamb", "lars", "rmsprop", "ftrl", "adagrad"):
        update(name, half)
mx.random.seed(3)
bits("normal", [nd.random.normal(shape=(300, 1001))])
q, k, v = (nd.random.normal(shape=(2, 4, 200, 32)) for _ in range(3))
for x in (q, k, v):
    x.attach_grad()
with autograd.record():
    y = nd.contrib.dot_product_attention(q, k, v)
y.backward()
bits("attention", [y, q.grad, k.grad, v.grad])
"""


def digests(threads):
    env = dict(os.environ, PLAIT_THREADS=str(threads))
    env["PYTHONPATH"] = str(Path(mx.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_updates_draws_and_attention_do_not_depend_on_threads():
    one = digests(1)
    assert len(one) == 20
    assert digests(2) == one
    assert digests(3) == one
