"""Every way to compute convolutions trains a ResNet-20 on Fashion-MNIST to the same
accuracy."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

import plait as mx

PROGRAM = Path(__file__).with_name("resnet20.py")
DATA = Path("/usr/share/datasets/fashion-mnist")
PATHS = {
    "auto": {},
    "direct": {"PLAIT_CONV": "direct"},
    "winograd": {"PLAIT_CONV": "winograd"},
    "gemm": {"PLAIT_CONV": "gemm"},
    "measure": {"PLAIT_CONV": "measure"},
    "plain layout": {"PLAIT_DISABLE": "blocked"},
    "bfloat16": {},
}


def run(*args, **options):
    env = dict(os.environ, PYTHONPATH=str(Path(mx.__file__).parents[1]), **options)
    command = [sys.executable, str(PROGRAM), *map(str, args)]
    return subprocess.run(command, env=env, capture_output=True, text=True)


@functools.cache
def accuracy(path):
    dtype = "bfloat16" if path == "bfloat16" else "float32"
    done = run(4000, 3, dtype, **PATHS[path])
    assert done.returncode == 0, done.stderr
    return float(done.stdout.split()[-1])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not DATA.is_dir(), reason="needs the package dataset-fashion-mnist")
@pytest.mark.parametrize("path", PATHS)
def test_each_path_reaches_the_same_accuracy(path):
    assert accuracy("auto") > 0.75
    assert abs(accuracy(path) - accuracy("auto")) < 0.02


def test_a_path_that_is_none():
    code = "import plait as p; p.nd.Convolution(p.nd.ones((1, 1, 3, 3)), p.nd.ones((1,"
    code += " 1, 3, 3)), kernel=(3, 3), num_filter=1, no_bias=True).wait_to_read()"
    env = dict(os.environ, PLAIT_CONV="fft")
    env["PYTHONPATH"] = str(Path(mx.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True
    )
    assert "PLAIT_CONV is fft; auto, direct, winograd, gemm, measure" in done.stderr


MEASURED = """
import numpy as np
import plait as mx
from plait.gluon import nn

net = nn.HybridSequential()
net.add(nn.Conv2D(32, 3, padding=1), nn.Conv2D(48, 3, 2), nn.Conv2D(20, 1))
net.initialize(mx.init.One())
rng = np.random.default_rng(1)
x = mx.nd.array(rng.standard_normal((2, 3, 18, 17), dtype="float32"))
x.attach_grad()
for _ in range(2):
    with mx.autograd.record():
        y = net(x)
    y.backward()
    print(float(y.asnumpy().sum(dtype="float64")), x.grad.asnumpy().tobytes().hex())
    net.hybridize()
"""


def measured(how):
    env = dict(os.environ, PLAIT_CONV=how, PYTHONPATH=str(Path(mx.__file__).parents[1]))
    command = [sys.executable, "-c", MEASURED]
    return subprocess.run(command, env=env, capture_output=True, text=True)


def test_measured_choices_are_kept_in_a_file(tmp_path):
    file = tmp_path / "choices.txt"
    first = measured(f"measure:{file}")
    assert first.returncode == 0, first.stderr
    lines = file.read_text().splitlines()
    assert lines[0] == "plait convolutions 1"
    assert any(line.startswith("forward,plain,") for line in lines)
    second = measured(f"measure:{file}")
    assert second.stdout == first.stdout
    assert file.read_text().splitlines() == lines
    expected = float(measured("auto").stdout.split()[0])
    assert abs(float(first.stdout.split()[0]) - expected) < 1e-4 * abs(expected)


def test_a_file_of_choices_that_is_none(tmp_path):
    file = tmp_path / "choices.txt"
    file.write_text("something else\n")
    done = measured(f"measure:{file}")
    assert done.returncode != 0
    assert "choices.txt does not begin with" in done.stderr
