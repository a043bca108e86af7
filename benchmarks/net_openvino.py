"""The rows of prediction in OpenVINO, exported from PyTorch."""

import os
import tempfile
import warnings
from pathlib import Path

import net_rows
import net_torch
import openvino
import torch


def request(net, x):
    """net in OpenVINO, as a function of no arguments."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = str(Path(folder) / "net.onnx")
        torch.onnx.export(net, x, file, input_names=["x"], dynamo=False)
        model = openvino.Core().compile_model(file, "CPU", {
            "INFERENCE_NUM_THREADS": len(os.sched_getaffinity(0)),
            "INFERENCE_PRECISION_HINT": "f32",
            "PERFORMANCE_HINT": "LATENCY",
        })  # fmt: skip
    infer, inputs = model.create_infer_request().infer, [x.numpy()]
    return lambda: infer(inputs)


def prepare(row):
    x = torch.from_numpy(net_rows.batch_of(row.network, row.batch)[0])
    step = request(net_torch.build(row.network).eval(), x)
    return net_rows.part(step()[0]), [("latency", step)]


if __name__ == "__main__":
    net_rows.main(prepare)
