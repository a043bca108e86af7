"""The distributed example: the accuracy of one process, and a restart after a loss."""

import pathlib
import re
import sys

import pytest
from jobs import needs_mpi, plait_run, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "distributed_fashion_mnist.py"
pytestmark = [
    needs_mpi,
    pytest.mark.skipif(
        not pathlib.Path("/usr/share/datasets/fashion-mnist").is_dir(),
        reason="dataset-fashion-mnist is not installed",
    ),
]
WORDS = ["--images", "3840", "--epochs", "2", "--out"]


def scores(text):
    """Of each epoch, in percent."""
    found = re.findall(r"epoch \d+: test accuracy ([\d.]+)%", text)
    return [float(number) for number in found]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The folder of a run of one process, and what it printed."""
    folder = tmp_path_factory.mktemp("alone")
    done = run([sys.executable, str(EXAMPLE), *WORDS, str(folder)], timeout=200)
    assert done.status == 0 and len(scores(done.text)) == 2, done.text
    assert scores(done.text)[-1] > 60
    return folder, done.text


def test_two_ranks_learn_what_one_process_learns(tmp_path, alone):
    job = plait_run(2, EXAMPLE, *WORDS, tmp_path, timeout=200)
    assert job.status == 0 and len(scores(job.text)) == 2, job.text
    # The sums are made in another order, and rounding grows in 60 steps.
    for one, two in zip(scores(alone[1]), scores(job.text)):
        assert abs(one - two) < 3


def test_ranks_that_drift_apart_learn_as_much(tmp_path, alone):
    """dist_async: which weights a gradient was made with is a matter of luck."""
    words = [*WORDS, tmp_path, "--kvstore", "dist_async"]
    job = plait_run(2, EXAMPLE, *words, timeout=200)
    assert job.status == 0 and len(scores(job.text)) == 2, job.text
    # One rank may be done before the other begins.
    assert scores(job.text)[-1] > scores(alone[1])[-1] / 2


def test_a_second_run_goes_on_or_says_that_all_is_done(alone):
    folder, _ = alone
    words = [sys.executable, str(EXAMPLE), "--images", "3840", "--out", str(folder)]
    again = run([*words, "--epochs", "2"], timeout=200)
    assert again.status == 0 and "all 2 epochs are done" in again.text, again.text
    more = run([*words, "--epochs", "3"], timeout=200)
    assert "has the checkpoint of epoch 2" in more.text
    assert len(scores(more.text)) == 1, more.text


def test_a_job_goes_on_from_its_checkpoint_after_a_kill(tmp_path):
    dies = tmp_path / "dies.py"
    dies.write_text(
        "import os, runpy, sys\n"
        f"sys.path.insert(0, {str(EXAMPLE.parent)!r})\n"
        f"names = runpy.run_path({str(EXAMPLE)!r})\n"
        "dist, save = names['dist'], names['dist'].save_checkpoint\n"
        "def save_and_die(*words):\n"
        "    save(*words)\n"
        "    if os.environ['PLAIT_RESTART'] == '0' and dist.rank() == 1:\n"
        "        os.kill(os.getpid(), 9)\n"
        "dist.save_checkpoint = save_and_die\n"
        "names['main']()\n"
    )
    options = ["--restarts", "1"]
    job = plait_run(2, dies, *WORDS, tmp_path / "out", options=options, timeout=200)
    assert job.status == 0, job.text
    assert "rank 1 ended with signal 9" in job.text
    assert job.text.count("epoch 2: test accuracy") == 1
    assert job.text.count("epoch 1: test accuracy") <= 1
    assert "has the checkpoint of epoch 1" in job.text
    assert "rank 1 (host " in job.text
