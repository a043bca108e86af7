"""Row_sparse values among ranks, under mpirun."""

import pathlib
import sys

import pytest
from jobs import PATIENT, check_program, needs_mpi, plait_run

PROGRAM = pathlib.Path(__file__).parent / "rows_program.py"


def check(ranks, *words):
    check_program(ranks, PROGRAM, *words)


@needs_mpi
@pytest.mark.parametrize(
    "name",
    [
        "of_values",
        "in_step",
        "without_updater",
        "whole_keys",
        "embedding_equals_one_process",
        "sparse_weight_equals_one_process",
        "asynchronous",
        "wrong",
        "leaves",
        "traffic",
    ],
)
def test_two_ranks_agree(name):
    check(2, name)


@needs_mpi
@pytest.mark.parametrize(
    "name",
    [
        "in_step",
        "without_updater",
        "whole_keys",
        "embedding_equals_one_process",
        "asynchronous",
    ],
)
def test_four_ranks_agree(name):
    check(4, name)


@needs_mpi
@pytest.mark.parametrize("name", ["traffic", "asynchronous"])
def test_transfers_end_where_no_operation_may_wait(name):
    """The exchange pushes answers while all room for operations is taken."""
    result = plait_run(2, sys.executable, PROGRAM, name, **PATIENT, PLAIT_RUN_AHEAD="1")
    last = [(result.lines(r) or [""])[-1] for r in range(2)]
    assert last == ["ok"] * 2, result.text
