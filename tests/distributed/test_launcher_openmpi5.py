"""plait-run with Open MPI 5: ranks that outlive others go on, and no end is silent."""

import os
import pathlib
import re
import sys

import numpy as np
import pytest
from jobs import PATIENT, PLUGIN, ends, openmpi5_home, pids, plait_run

from plait import run as launcher

HERE = pathlib.Path(__file__).parent
HOME = openmpi5_home()

needs_openmpi5 = pytest.mark.skipif(
    HOME is None or not PLUGIN.exists(),
    reason="Open MPI 5 or its plug-in is missing: tools/setup.sh ci, then build",
)

START = """
import os, pathlib, signal, sys, time
from plait import _plait, nd
from plait import distributed as dist
rank, restart = dist.rank(), os.environ["PLAIT_RESTART"]
print("pid", os.getpid(), flush=True)
dist.barrier()
def die(number=9):
    os.kill(os.getpid(), number)
def go_on():
    try:
        while True:
            dist.barrier()
    except dist.RankLost as error:
        print("error:", error, flush=True)
    print("on:", dist.shrink(timeout=60), flush=True)
    assert dist.allreduce(nd.ones(3)).asnumpy().sum() == 3 * dist.size()
"""


def job(ranks, program, *words, options=(), **env):
    options = ["--mpirun", f"{HOME}/bin/mpirun", *options]
    command = [sys.executable, program, *words]
    return plait_run(ranks, *command, options=options, **{**PATIENT, **env})


@pytest.fixture
def script(tmp_path):
    def write(text):
        path = tmp_path / "script.py"
        path.write_text(START + text)
        return path

    return write


def went_on(result, lost, ranks):
    assert result.status == 0, result.text
    left = sorted(set(range(ranks)) - set(lost))
    assert f"plait-run: {len(left)} ranks go on without " in result.text
    for rank in left:
        lines = result.lines(rank)
        assert f"on: {len(left)}" in lines and lines[-1] == "ok", result.text


@needs_openmpi5
def test_a_killed_rank_of_four_is_gone_on_without_with_the_right_numbers(tmp_path):
    program = HERE / "shrink_program.py"
    whole = tmp_path / "whole"
    whole.mkdir()
    for ranks, steps in ((4, 6), (3, 12)):
        result = job(ranks, program, "uninterrupted", whole, steps)
        assert result.status == 0, result.text
    result = job(4, program, "killed", tmp_path, 1, "step")
    went_on(result, [1], 4)
    assert "3 ranks go on without rank 1\n" in result.text
    assert "plait-run: rank 1 ended with signal 9 (SIGKILL)" in result.text
    weights = np.load(tmp_path / "weights.npy")
    assert (weights == np.load(whole / "weights.npy")).all()


@needs_openmpi5
def test_two_ranks_killed_one_inside_of_shrink_are_named_whatever_comes(tmp_path):
    """Open MPI may end the others too, which is then said."""
    result = job(4, HERE / "shrink_program.py", "two_lost", tmp_path, "killed")
    for rank in (1, 3):
        assert f"plait-run: rank {rank} ended with signal 9" in result.text, result.text
    if result.status == 0:
        went_on(result, [1, 3], 4)
    else:
        assert "ended inside of shrink(), and should have gone on" in result.text


@needs_openmpi5
@pytest.mark.parametrize(
    "end, said",
    [
        ("os._exit(3)", "status 3"),
        ("raise KeyError('its own')", "status 1"),
        ("die(15)", "signal 15 (SIGTERM)"),
    ],
)
def test_other_failures_are_gone_on_without_too(script, end, said):
    program = script(f"if rank == 0: {end}\ngo_on()\nprint('ok')")
    result = job(3, program)
    went_on(result, [0], 3)
    assert f"plait-run: rank 0 ended with {said}" in result.text, result.text


@needs_openmpi5
def test_those_that_went_on_have_all_the_time_they_want(script):
    """Neither the loss nor the end of some of them sets a time for the others."""
    program = script(
        "if rank == 0: die()\n"
        "go_on()\n"
        "if rank == 1: time.sleep(4)\n"
        "print('ok', flush=True)\n"
    )
    result = job(3, program, options=["--grace", "1"])
    went_on(result, [0], 3)
    assert "has ended in this process" not in result.text


@needs_openmpi5
def test_who_ends_inside_of_shrink_is_named(script):
    program = script(
        "if rank == 0: die()\n"
        "if rank == 1: _plait.world_shrink = lambda timeout: die(11)\n"
        "if rank == 2: dist.shrink = lambda timeout: sys.exit(5)\n"
        "go_on()\n"
    )
    result = job(3, program)
    text = result.text
    assert result.status not in (0, None), text
    assert "plait-run: rank 0 ended with signal 9 (SIGKILL)" in text, text
    assert "plait-run: rank 1 ended with signal 11 (SIGSEGV)" in text, text
    assert "plait-run: rank 2 ended with status 5" in text, text
    assert "rank 1 ended inside of shrink(), and should have gone on" in text, text


@needs_openmpi5
def test_an_mpirun_that_is_killed_is_said_and_takes_the_ranks_along(script):
    program = script(
        "supervisor = pathlib.Path(f'/proc/{os.getppid()}/stat').read_text()\n"
        "mpirun = int(supervisor.rsplit(')', 1)[1].split()[1])\n"
        "dist.barrier()\n"
        "if rank == 1: os.kill(mpirun, 9)\n"
        "time.sleep(1000)\n"
    )
    result = job(2, program)
    assert result.status == 128 + 9, result.text
    assert "mpirun itself ended with signal 9 (SIGKILL)" in result.text
    assert "ranks that did not end: [0, 1]" in result.text
    assert all(ends(pid) for pid in pids(result.text))


@needs_openmpi5
def test_a_job_that_cannot_go_on_starts_again_from_its_checkpoint(tmp_path):
    """Its program does not know of shrink()."""
    program = HERE / "fault_program.py"
    whole = tmp_path / "whole"
    whole.mkdir()
    assert job(3, program, "uninterrupted", whole).status == 0
    options = ["--restarts", "1"]
    result = job(3, program, "killed", tmp_path, "step", options=options)
    assert result.status == 0, result.text
    assert "starting again (1 of 1)" in result.text
    assert re.search(r"rank \d ended with signal 9 \(SIGKILL\)", result.text)
    for rank in range(3):
        assert result.lines(rank).count("from step 6") == 1, result.text
    weights = np.load(tmp_path / "weights.npy")
    assert (weights == np.load(whole / "weights.npy")).all()


@needs_openmpi5
def test_lines_are_marked_and_whole(tmp_path):
    program = tmp_path / "script.py"
    program.write_text(
        "import os, sys\n"
        "for i in range(300):\n"
        "    os.write(int(os.environ['PLAIT_RUN_PIPE']), b'rank 9: lost\\n')\n"
        "    print('the line', i, 'is whole')\n"
        "sys.stderr.write('to stderr\\n')\n"
        "print('the end', end='')\n"
    )
    result = job(2, program, PYTHONUNBUFFERED="1")
    assert result.status == 0, result.text
    for rank in range(2):
        lines = [line for line in result.lines(rank) if line != "to stderr"]
        assert lines == [*(f"the line {i} is whole" for i in range(300)), "the end"]
        assert "to stderr" in result.lines(rank)
    assert "\x1e" not in result.text


# Which mpirun.


def fake(folder, name, says):
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    "says, version",
    [
        ("mpirun (Open MPI) 5.0.11", 5),
        ("mpirun (Open MPI) 4.1.4", 4),
        ("mpirun (Open MPI) 10.0.0rc1", 10),
        ("HYDRA build details:", None),
        ("", None),
    ],
)
def test_versions_are_read(tmp_path, says, version):
    assert launcher.version_of(fake(tmp_path, "mpirun", says)) == version


def test_the_first_open_mpi_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/nowhere")
    other = fake(tmp_path, "mpirun", "HYDRA build details:")
    with pytest.raises(SystemExit, match="is not Open MPI's"):
        launcher.find_mpirun()
    four = fake(tmp_path, "mpirun.openmpi", "mpirun (Open MPI) 4.1.4")
    assert launcher.find_mpirun() == (four, 4)
    five = fake(tmp_path, "mpirun", "mpirun (Open MPI) 5.0.11")
    assert five == other and launcher.find_mpirun() == (five, 5)
    assert launcher.find_mpirun(four) == (four, 4)
    with pytest.raises(SystemExit, match="/no/mpirun was not found"):
        launcher.find_mpirun("/no/mpirun")


def test_libraries_of_that_mpirun_come_first(tmp_path):
    (tmp_path / "lib").mkdir()
    environment = {"LD_LIBRARY_PATH": "/before"}
    mpirun = os.path.join(tmp_path, "bin", "mpirun")
    launcher.with_libraries_of(mpirun, environment)
    assert environment["LD_LIBRARY_PATH"] == "/before"
    (tmp_path / "lib/libmpi.so.40").write_text("")
    launcher.with_libraries_of(mpirun, environment)
    assert environment["LD_LIBRARY_PATH"] == f"{tmp_path}/lib:/before"
