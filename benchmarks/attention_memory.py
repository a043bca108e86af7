"""Attention and its gradients at a length of 16,384 (12 heads of 64); prints by how
much the peak resident memory of the process grew, in MB. MODULE=plait or torch.

The inputs, their gradients, the result and its gradient are 400 MB; the weights of all
heads together would be 12 GB.
"""

import importlib
import os
import resource

import numpy as np

SHAPE = (1, 12, 16384, 64)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def arrays():
    rng = np.random.default_rng(0)
    return [rng.standard_normal(SHAPE, dtype="float32") for _ in range(4)]


def run_plait():
    mx = importlib.import_module("plait")
    mx.nd.ones((2, 2)).wait_to_read()
    before = peak()
    q, k, v, dy = (mx.nd.from_numpy(x) for x in arrays())
    attention = mx.gluon.nn.HybridLambda(
        lambda F, *inputs: F.contrib.dot_product_attention(*inputs)
    )
    attention.hybridize()
    for x in (q, k, v):
        x.attach_grad()
    with mx.autograd.record():
        y = attention(q, k, v)
    y.backward(dy)
    mx.nd.waitall()
    return peak() - before


def run_torch():
    torch = importlib.import_module("torch")
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.ones(2, 2).sum().item()
    before = peak()
    q, k, v, dy = (torch.from_numpy(x) for x in arrays())
    for x in (q, k, v):
        x.requires_grad_()
    y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    y.backward(dy)
    return peak() - before


if __name__ == "__main__":
    run = run_torch if os.environ.get("MODULE") == "torch" else run_plait
    print(round(run()))
