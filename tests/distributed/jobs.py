"""Starts jobs of several ranks on this machine, each bounded in time."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

import plait

PACKAGE = pathlib.Path(plait.__file__).parent
BUILD = PACKAGE.parents[1]
HERE = pathlib.Path(__file__).parent
MPIRUN = shutil.which("mpirun.openmpi") or shutil.which("mpirun")
PLUGIN = BUILD / "libplait_openmpi.so"
# For tests that stop nobody: a busy machine must not fail them.
PATIENT = {"PLAIT_HEARTBEAT": "60", "OMP_NUM_THREADS": "1"}

needs_mpi = pytest.mark.skipif(
    MPIRUN is None or not PLUGIN.exists(),
    reason="mpirun of Open MPI or its plug-in is missing: tools/setup.sh, then build",
)


def openmpi5_home():
    """The folder of an Open MPI 5, with bin/, include/ and lib/; or None."""
    for home in (os.environ.get("PLAIT_TEST_OPENMPI5"), f"{sys.prefix}/openmpi5"):
        if home and pathlib.Path(home, "bin/mpirun").exists():
            return home
    return None


class Result:
    """What a job printed, and its status."""

    def __init__(self, done):
        self.status = done.returncode
        self.text = done.stdout

    def lines(self, rank):
        """Of one rank, without what marks them."""
        mark = f"[{rank}] "
        return [
            line[len(mark) :]
            for line in self.text.splitlines()
            if line.startswith(mark)
        ]


def environment(**more):
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OMPI_", "PMIX_", "PLAIT_"))
    }
    env["PYTHONPATH"] = str(PACKAGE.parent)
    env.update(more)
    return env


def plait_run(count, *command, options=(), timeout=100, **env):
    """Runs `plait-run -n count options command`."""
    words = [sys.executable, "-m", "plait.run", "-n", str(count), *options]
    return run([*words, *map(str, command)], timeout, **env)


def run(words, timeout=100, **env):
    """A job that takes longer is ended, ranks and all, and fails its test."""
    with subprocess.Popen(
        words,
        env=environment(**env),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as job:
        try:
            text, _ = job.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            job.terminate()
            text, _ = job.communicate(timeout=60)
            pytest.fail(f"the job did not end in {timeout} s; it printed:\n{text}")
    return Result(subprocess.CompletedProcess(words, job.returncode, text))


def allow_root():
    """mpirun asks for these of root; plait-run gives them."""
    return (
        {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        if os.geteuid() == 0
        else {}
    )


def check_program(ranks, program, *words):
    """Runs a Python program that prints ok at the end of every rank."""
    result = plait_run(ranks, sys.executable, program, *words, **PATIENT)
    last = [(result.lines(r) or [""])[-1] for r in range(ranks)]
    assert last == ["ok"] * ranks and result.status == 0, result.text


def ends(pid, seconds=30):
    """Whether a process that was killed goes, as soon as the system comes to it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True
        if stat.rsplit(")", 1)[1].split()[0] in "ZX":  # only its parent has to look
            return True
        time.sleep(0.05)
    return False


def pids(text):
    return [int(number) for number in re.findall(r"pid (\d+)", text)]
