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
    assert "PLAIT_CONV is fft; auto, direct, winograd or gemm" in done.stderr
