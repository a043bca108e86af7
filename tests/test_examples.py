"""The examples run, on a little data."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from plait import _plait

ROOT = Path(__file__).resolve().parent.parent
FASHION = Path("/usr/share/datasets/fashion-mnist")


def run(name, folder, *arguments):
    """Runs an example that leaves its files in a folder."""
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name, "--out", folder, *arguments],
        capture_output=True, text=True, timeout=280,
        env={**os.environ, "MPLCONFIGDIR": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def accuracy_in(text):
    """The last test accuracy that an example printed, in percent."""
    return float(text.split("test accuracy")[-1].split("%")[0])


@pytest.mark.skipif(
    not FASHION.is_dir(), reason="dataset-fashion-mnist is not installed"
)
def test_fashion_mnist_learns_and_leaves_its_files(tmp_path):
    done = run("fashion_mnist.py", tmp_path, "--epochs", "2", "--images", "6400")
    assert accuracy_in(done.stdout) > 75, done.stdout
    assert "\r" not in done.stdout
    for name in ("model.params", "learning-curve.png", "predictions.png"):
        assert (tmp_path / name).stat().st_size > 1000


@pytest.mark.skipif(
    not FASHION.is_dir(), reason="dataset-fashion-mnist is not installed"
)
def test_a_module_learns_fashion_mnist_and_goes_on_from_its_checkpoint(tmp_path):
    out = run("module_fashion_mnist.py", tmp_path, "--epochs", "1", "--images", "6400")
    assert accuracy_in(out.stdout) > 70, out.stdout
    assert "Total params: 206970" in out.stdout
    assert "Epoch[1] Train-accuracy" in out.stderr
    for name in ("module-symbol.json", "module-0001.params", "module-0001.states"):
        assert (tmp_path / name).stat().st_size > 1000


def test_an_lstm_in_buckets_learns_which_word_follows():
    done = subprocess.run(
        [
            sys.executable, ROOT / "examples/bucketing_lstm.py",
            "--epochs", "3", "--sentences", "1500", "--words", "20",
        ],
        capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split("perplexity")[1].split()[0]) < 3, done.stdout


def test_a_small_gpt_reads_a_text_and_writes(tmp_path):
    out = run(
        "gpt_characters.py", tmp_path, "--steps", "40", "--layers", "2", "--units",
        "64", "--context", "64", "--length", "100", "--prompt", "The engine",
    )  # fmt: skip
    losses = [float(x.split()[0]) for x in out.stdout.split("loss ")[1:]]
    assert losses[-1] < losses[0] - 0.3 and losses[-1] < 3.3, out.stdout
    assert len(out.stdout.split("nats a letter\n")[1].rstrip("\n")) >= 90
    assert (tmp_path / "gpt-symbol.json").stat().st_size > 1000


@pytest.mark.skipif(
    not _plait.features()["OPENCV"], reason="this build has no codecs of images"
)
def test_a_folder_of_images_becomes_a_network_and_a_confusion_matrix(tmp_path):
    out = run("image_folder.py", tmp_path, "--epochs", "4", "--count", "120")
    assert accuracy_in(out.stdout) > 60, out.stdout
    for name in ("confusion.png", "images.params", "images_val.rec"):
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
