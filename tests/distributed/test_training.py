"""Training by two ranks: the page's recipe, float16, metrics."""

import pathlib

import pytest
from jobs import needs_mpi, plait_run

PROGRAM = pathlib.Path(__file__).parent / "training_program.py"
pytestmark = needs_mpi


@pytest.mark.parametrize("what", ["recipe", "half", "metric"])
def test_two_ranks_do_what_one_process_does(what):
    job = plait_run(2, PROGRAM, what)
    assert job.status == 0, job.text
    for rank in range(2):
        assert f"rank {rank} of 2: {what} holds" in job.text


def test_servers_go_on_when_the_program_has_to_wait():
    job = plait_run(2, PROGRAM, "ahead", PLAIT_RUN_AHEAD="20000")
    assert job.status == 0, job.text
