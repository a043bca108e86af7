"""Jobs that lose ranks and go on with fewer; skipped where no MPI with ULFM is."""

import pathlib
import re
import sys

import numpy as np
import pytest
from jobs import PATIENT, PLUGIN, allow_root, needs_mpi, openmpi5_home, plait_run, run

HERE = pathlib.Path(__file__).parent
PROGRAM = HERE / "shrink_program.py"
HOME = openmpi5_home()

needs_ulfm = pytest.mark.skipif(
    HOME is None or not PLUGIN.exists(),
    reason="Open MPI 5 or its plug-in is missing: tools/setup.sh ci, then build",
)


def job(ranks, name, *words, status=0):
    """What each rank printed, by its number at the start."""
    command = [f"{HOME}/bin/mpirun", "--with-ft", "ulfm", "--oversubscribe"]
    command += ["--output", "tag", "-n", str(ranks)]
    command += [sys.executable, "-u", str(PROGRAM), name, *map(str, words)]
    result = run(command, LD_LIBRARY_PATH=f"{HOME}/lib", **PATIENT, **allow_root())
    assert result.status == status, result.text
    result.text = re.sub(r"(?m)^\[1,(\d+)\]<std...>: ", r"[\1] ", result.text)
    return result


def went_on(result, ranks, lost, fewer):
    """All others did, and were told which rank was lost."""
    for rank in set(range(ranks)) - set(lost):
        lines = result.lines(rank)
        assert lines[-1] == "ok" and f"on: {fewer}" in lines, result.text
        errors = [x for x in lines if x.startswith("error: ")]
        assert errors and re.search("lost: |KeyError", errors[0]), result.text
        assert any(re.search(rf"rank {r}\b", errors[0]) for r in lost), result.text


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Weights of jobs of so many ranks until the checkpoint of step 6, then of two."""
    weights = {}
    for ranks in (3, 4):
        folder = tmp_path_factory.mktemp("whole")
        job(ranks, "uninterrupted", folder, 6)
        result = job(2, "uninterrupted", folder, 12)
        assert "from step 6" in result.lines(0), result.text
        weights[ranks] = np.load(folder / "weights.npy")
    return weights


@needs_ulfm
@pytest.mark.parametrize(
    "victim, where",
    [(2, "step"), (0, "step"), (1, "backward"), (1, "checkpoint"), (2, "error")],
)
def test_survivors_go_on_with_the_numbers_of_a_job_of_fewer(
    tmp_path, expected, victim, where
):
    result = job(3, "killed", tmp_path, victim, where)
    went_on(result, 3, [victim], 2)
    assert (np.load(tmp_path / "weights.npy") == expected[3]).all()


@needs_ulfm
@pytest.mark.parametrize("how", ["killed", "ends"])
def test_a_second_loss_meanwhile_is_left_out_too(tmp_path, expected, how):
    result = job(4, "two_lost", tmp_path, how)
    went_on(result, 4, [1, 3], 2)
    assert (np.load(tmp_path / "weights.npy") == expected[4]).all()


@needs_ulfm
def test_a_survivor_that_comes_late_is_waited_for(tmp_path, expected):
    went_on(job(3, "slow", tmp_path), 3, [2], 2)
    assert (np.load(tmp_path / "weights.npy") == expected[3]).all()


@needs_ulfm
def test_sums_in_place_that_were_cut_off_do_no_harm_later():
    went_on(job(3, "in_place"), 3, [2], 2)


@needs_ulfm
def test_what_was_made_before_says_so_and_new_stores_work():
    result = job(3, "old_stores")
    went_on(result, 3, [0], 2)
    for rank in (1, 2):
        assert "dist_sync 2.0" in result.lines(rank), result.text
        assert "dist_async 2.0" in result.lines(rank), result.text


@needs_ulfm
def test_who_never_comes_is_an_error_in_time():
    lines = job(3, "comes_never").lines(2)
    assert (
        len([x for x in lines if "not all other ranks have called it in 1 s" in x]) == 2
    )


@needs_ulfm
def test_misuse_leaves_the_job_as_it_is():
    result = job(2, "misuse")
    assert result.text.count("ok") == 2, result.text


@needs_ulfm
@pytest.mark.parametrize("seed", [1, 2])
def test_a_rank_killed_at_any_moment_does_not_hang_the_others(tmp_path, seed):
    lines = job(4, "random_kill", tmp_path, seed).text.splitlines()
    assert len([x for x in lines if x.endswith("] ok")]) >= 3, lines


@needs_mpi
def test_an_mpi_that_cannot_says_so():
    result = plait_run(3, sys.executable, PROGRAM, "cannot", **PATIENT)
    for rank in range(2):
        assert any("plait-run --restarts" in x for x in result.lines(rank)), result.text
