"""Ranks under mpirun: messages, lost and stopped ranks, the end of a job."""

import pytest
from jobs import BUILD, MPIRUN, allow_root, ends, needs_mpi, pids, plait_run, run

pytestmark = needs_mpi
CHECK = BUILD / "transport_check"
# Long for the tests in which nothing is stopped: a busy machine must not fail them.
PATIENT = {"PLAIT_HEARTBEAT": "60"}


def outcome(result, rank):
    """The last line of a rank's own."""
    start = f"rank {rank}: "
    own = [line for line in result.lines(rank) if line.startswith(start)]
    return own[-1][len(start) :] if own else None


@pytest.mark.parametrize("ranks", [2, 4])
def test_messages_of_all_lengths_arrive(ranks):
    result = plait_run(ranks, CHECK, "messages", **PATIENT)
    assert [outcome(result, r) for r in range(ranks)] == ["ok"] * ranks, result.text
    assert result.status == 0


def test_mpirun_starts_the_same_programs():
    result = run(
        [MPIRUN, "--oversubscribe", "-n", "2", str(CHECK), "messages"],
        **PATIENT,
        **allow_root(),
    )
    assert result.status == 0, result.text
    assert "rank 0: ok" in result.text and "rank 1: ok" in result.text


def test_tcp_alone_carries_messages():
    tcp = ["--mpirun-args=--mca btl self,tcp"]
    result = plait_run(2, CHECK, "messages", options=tcp, **PATIENT)
    assert result.status == 0, result.text


def test_a_process_without_a_launcher_is_alone():
    result = run([str(CHECK), "messages"])
    assert "rank 0 of 1" in result.text and "rank 0: ok" in result.text


def test_plait_mpi_off_makes_ranks_alone():
    result = plait_run(2, CHECK, "messages", PLAIT_MPI="off")
    assert "rank 0 of 1" in result.lines(0)[0] and "rank 0 of 1" in result.lines(1)[0]


@pytest.mark.parametrize("value", ["lam", "/nowhere/plugin.so"])
def test_a_missing_plugin_is_named(value):
    result = plait_run(2, CHECK, "messages", PLAIT_MPI=value)
    assert result.status != 0
    assert value in result.text


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_killed_rank_is_named_by_all_others(ranks):
    result = plait_run(ranks, CHECK, "kill", **PATIENT)
    for rank in range(ranks - 1):
        assert outcome(result, rank).startswith(f"rank {ranks - 1} (host "), result.text
        assert "lost" in outcome(result, rank)
    assert result.status != 0
    assert f"rank {ranks - 1} ended with signal 9" in result.text


def test_a_stopped_rank_is_named_and_ended():
    options = ["--heartbeat", "2", "--grace", "1"]
    result = plait_run(3, CHECK, "stop", options=options)
    for rank in range(2):
        assert "no sign of life for 2 s" in outcome(result, rank), result.text
        assert outcome(result, rank).startswith("rank 2 (host ")
    assert result.status != 0
    assert all(map(ends, pids(result.text)))


def test_abort_reaches_all_ranks():
    result = plait_run(3, CHECK, "abort", **PATIENT)
    for rank in range(3):
        assert outcome(result, rank) == "rank 2: key 'w3' is broken", result.text


def test_a_rank_that_fails_ends_the_wait_of_the_others():
    result = plait_run(3, CHECK, "status", **PATIENT)
    for rank in range(2):
        assert outcome(result, rank) == "rank 2: ended with status 5", result.text
    assert "rank 2 ended with status 5" in result.text


def test_a_rank_may_end_before_the_others():
    result = plait_run(3, CHECK, "end", **PATIENT)
    assert outcome(result, 0) == outcome(result, 1) == "ok", result.text
    assert result.status == 0
