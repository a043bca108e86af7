"""The examples run, on a little data."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FASHION = Path("/usr/share/datasets/fashion-mnist")


@pytest.mark.skipif(
    not FASHION.is_dir(), reason="dataset-fashion-mnist is not installed"
)
def test_fashion_mnist_learns_and_leaves_its_files(tmp_path):
    done = subprocess.run(
        [
            sys.executable, ROOT / "examples/fashion_mnist.py",
            "--out", tmp_path, "--epochs", "2", "--images", "6400",
        ],
        capture_output=True, text=True, timeout=280,
        env={**os.environ, "MPLCONFIGDIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    accuracy = float(done.stdout.split("test accuracy")[-1].split("%")[0])
    assert accuracy > 75, done.stdout
    assert "\r" not in done.stdout
    for name in ("model.params", "learning-curve.png", "predictions.png"):
        assert (tmp_path / name).stat().st_size > 1000


def test_fashion_mnist_says_where_its_data_comes_from(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            ROOT / "examples/fashion_mnist.py",
            "--data",
            tmp_path / "none",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "apt-get install dataset-fashion-mnist" in done.stderr
