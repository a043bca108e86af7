"""plait-run: shares of cores, marked output, failures, restarts, launch.py's words."""

import os
import sys

import pytest
from jobs import needs_mpi, plait_run

from plait import run as launcher

SHOW = """
import os, sys
rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
restart = os.environ["PLAIT_RESTART"]
print("threads", os.environ["OMP_NUM_THREADS"], sorted(os.sched_getaffinity(0)))
print("arguments", sys.argv[1:], os.environ.get("COLOUR"))
print("a", end="", flush=True)
print("b", end="", flush=True)
sys.stderr.write("to stderr\\n")
"""


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text(SHOW + text)
        return path

    return write


def threads(result, rank):
    return next(line for line in result.lines(rank) if line.startswith("threads "))


@needs_mpi
def test_output_is_marked_and_whole(script):
    result = plait_run(2, script(""), "--epochs", "3", options=["--env", "COLOUR=red"])
    assert result.status == 0, result.text
    for rank in range(2):
        lines = result.lines(rank)
        assert "arguments ['--epochs', '3'] red" in lines
        assert "ab" in lines and "to stderr" in lines
    assert "\x1e" not in result.text


@needs_mpi
def test_lines_stay_whole_while_the_launcher_is_told_of_a_fault(script):
    """Python writes a line in pieces, and the news go the same way."""
    told = script(
        "for i in range(300):\n"
        "    os.write(int(os.environ['PLAIT_RUN_PIPE']), b'rank 9: lost\\n')\n"
        "    print('the line', i, 'is whole')\n"
    )
    result = plait_run(2, told, PYTHONUNBUFFERED="1")
    assert result.status == 0, result.text
    for rank in range(2):
        lines = [line for line in result.lines(rank) if line != "to stderr"][-300:]
        lines[0] = lines[0].removeprefix("ab")
        assert lines == [f"the line {i} is whole" for i in range(300)]
    assert result.text.count("plait-run: rank 9: lost") == 1
    assert "\x1e" not in result.text


@needs_mpi
def test_words_of_launch_py_are_understood(script):
    options = ["-s", "2", "--launcher", "local", "--env-worker", "COLOUR:blue"]
    result = plait_run(2, sys.executable, script(""), options=options)
    assert result.status == 0, result.text
    assert "arguments [] blue" in result.lines(1)


@needs_mpi
def test_ranks_share_the_cores(script):
    result = plait_run(2, script(""), OMP_NUM_THREADS="")
    cores = sorted(os.sched_getaffinity(0))
    shown = [threads(result, rank) for rank in range(2)]
    if len(cores) >= 2:
        assert shown[0] != shown[1], result.text
    result = plait_run(2, script(""), options=["--no-bind", "--threads", "3"])
    assert threads(result, 0) == f"threads 3 {cores}", result.text


@needs_mpi
def test_a_failed_job_starts_again(script):
    fails_once = script(
        "if rank == 1 and restart == '0': os.kill(os.getpid(), 9)\nprint('done')"
    )
    result = plait_run(2, fails_once, options=["--restarts", "2"])
    assert result.status == 0, result.text
    assert "rank 1 ended with signal 9" in result.text
    assert "starting again (1 of 2)" in result.text
    assert "(2 of 2)" not in result.text
    assert result.lines(1).count("abdone") == 1


@needs_mpi
def test_the_status_of_the_failed_rank_is_the_jobs(script):
    result = plait_run(2, script("sys.exit(rank * 7)"), options=["--restarts", "1"])
    assert result.status == 7
    assert result.text.count("rank 1 ended with status 7") == 2, result.text


@needs_mpi
def test_ranks_that_go_on_after_a_failure_are_ended(script):
    hangs = script("import time\nif rank == 1: sys.exit(4)\ntime.sleep(1000)")
    result = plait_run(2, hangs, options=["--grace", "0.5"])
    assert result.status == 4
    assert "rank 1 ended with status 4" in result.text


def test_cores_are_shared_without_overlap():
    cores = list(range(10, 18))
    for count in range(1, 9):
        shares = [launcher.share(cores, i, count) for i in range(count)]
        assert sum(shares, []) == cores
        assert min(map(len, shares)) >= 1
    assert launcher.share(cores, 3, 9) == cores


@pytest.mark.parametrize(
    "words, text",
    [
        (["-n", "2"], "no script"),
        (["-n", "0", "a.py"], "-n must be at least 1"),
        (["-n", "2", "--launcher", "yarn", "a.py"], "yarn"),
    ],
)
def test_wrong_words_are_refused(words, text):
    with pytest.raises(SystemExit, match=text):
        launcher.main(words)


def test_a_missing_mpirun_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit, match="openmpi-bin"):
        launcher.main(["-n", "2", "a.py"])
