"""What MXNet's own tests of distributed stores check, with several ranks."""

import pathlib
import sys

import pytest
from jobs import PATIENT, needs_mpi, plait_run

pytestmark = needs_mpi
PROGRAM = pathlib.Path(__file__).parent / "kvstore_program.py"


def check(ranks, *words, options=(), **env):
    env = {**PATIENT, **env}
    result = plait_run(ranks, sys.executable, PROGRAM, *words, options=options, **env)
    last = [(result.lines(r) or [""])[-1] for r in range(ranks)]
    assert last == ["ok"] * ranks and result.status == 0, result.text


@pytest.mark.parametrize(
    "name",
    [
        "push_pull",
        "init",
        "device_sync",
        "without_updater",
        "compression",
        "trainer_step",
        "invalid",
    ],
)
def test_two_ranks_do(name):
    check(2, name)


@pytest.mark.parametrize("kind", ["dist_sync", "dist_device_sync", "dist_async"])
def test_trainers_know_where_updates_run(kind):
    check(2, "trainer_types", kind)


def test_seven_ranks_push_and_pull():
    check(7, "push_pull")
