"""A ResNet-20 trained by contrib.amp is as good as one in float32."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import plait as mx

PROGRAM = Path(__file__).with_name("resnet20.py")
DATA = Path("/usr/share/datasets/fashion-mnist")


def accuracies(dtype):
    env = dict(os.environ, PYTHONPATH=str(Path(mx.__file__).parents[1]))
    command = [sys.executable, str(PROGRAM), "4000", "3", dtype]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return [float(line.split()[1]) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="Fashion-MNIST is not installed")
def test_half_types_reach_the_same_accuracy():
    (wanted,) = accuracies("float32")
    assert wanted > 0.78
    for dtype in ("bfloat16", "float16"):
        trained, converted = accuracies(dtype)
        assert abs(trained - wanted) < 0.025, dtype
        assert abs(converted - trained) < 0.01, dtype
