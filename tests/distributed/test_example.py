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


def test_two_ranks_learn_what_one_process_learns(tmp_path):
    alone = run([sys.executable, str(EXAMPLE), *WORDS, str(tmp_path / "alone")])
    job = plait_run(2, EXAMPLE, *WORDS, tmp_path / "two", timeout=200)
    assert alone.status == job.status == 0, alone.text + job.text
    assert len(scores(job.text)) == 2, job.text
    assert scores(alone.text)[-1] > 60
    # The sums are made in another order, and rounding grows in 60 steps.
    for one, two in zip(scores(alone.text), scores(job.text)):
        assert abs(one - two) < 3


def test_a_job_goes_on_from_its_checkpoint_after_a_kill(tmp_path):
    dies = tmp_path / "dies.py"
    dies.write_text(
        "import os, runpy, sys\n"
        f"sys.path.insert(0, {str(EXAMPLE.parent)!r})\n"
        f"names = runpy.run_path({str(EXAMPLE)!r})\n"
        "main, save = names['main'], names['save']\n"
        "def save_and_die(net, out, epoch):\n"
        "    save(net, out, epoch)\n"
        "    if os.environ['PLAIT_RESTART'] == '0' and names['dist'].rank() == 1:\n"
        "        os.kill(os.getpid(), 9)\n"
        "main.__globals__['save'] = save_and_die\n"
        "main()\n"
    )
    options = ["--restarts", "1"]
    job = plait_run(2, dies, *WORDS, tmp_path / "out", options=options, timeout=200)
    assert job.status == 0, job.text
    assert "rank 1 ended with signal 9" in job.text
    assert job.text.count("epoch 2: test accuracy") == 1
    assert job.text.count("epoch 1: test accuracy") <= 1
    assert "rank 1 (host " in job.text
