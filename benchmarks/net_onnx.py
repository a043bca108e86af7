"""The rows of prediction in ONNX Runtime, exported from PyTorch."""

import io
import os
import warnings

import net_rows
import net_torch
import onnxruntime
import torch


def session(net, x):
    """net in ONNX Runtime, as a function of no arguments."""
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, x, file, input_names=["x"], dynamo=False)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    run = onnxruntime.InferenceSession(
        file.getvalue(), options, providers=["CPUExecutionProvider"]
    ).run
    inputs = {"x": x.numpy()}
    return lambda: run(None, inputs)


def prepare(row):
    x = torch.from_numpy(net_rows.batch_of(row.network, row.batch)[0])
    step = session(net_torch.build(row.network).eval(), x)
    return net_rows.part(step()[0]), [("session", step)]


if __name__ == "__main__":
    net_rows.main(prepare)
