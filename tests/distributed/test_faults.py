"""Ranks that are lost while stores and checkpoints are at work: named, and survived."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from jobs import PATIENT, needs_mpi, plait_run

pytestmark = needs_mpi
PROGRAM = pathlib.Path(__file__).parent / "fault_program.py"


def job(ranks, *words, options=(), **env):
    env = {**PATIENT, **env}
    return plait_run(ranks, sys.executable, PROGRAM, *words, options=options, **env)


def error(result, rank):
    """What a rank that outlived the others was left with."""
    found = [x for x in result.lines(rank) if x.startswith("error: ")]
    assert len(found) == 1, result.text
    return found[0][len("error: ") :]


# Ranks that are lost.


@pytest.mark.parametrize(
    "where, key",
    [
        ("kill_in_backward", "the key "),
        ("kill_in_transfer", "the key 'big'"),
        ("kill_in_asynchronous_push", "the key 'w'"),
    ],
)
@pytest.mark.parametrize("ranks", [3])
def test_survivors_name_the_killed_rank_and_the_key(where, key, ranks):
    result = job(ranks, where)
    for rank in range(ranks - 1):
        assert f"rank {ranks - 1} (host " in error(result, rank), result.text
        assert "lost" in error(result, rank) and key in error(result, rank)
        assert result.lines(rank)[-1] == "ok"
    assert f"rank {ranks - 1} ended with signal 9" in result.text
    assert result.status == 128 + 9


def test_survivors_name_the_stopped_rank_and_the_job_ends():
    result = job(3, "stop", options=["--grace", "1"], PLAIT_HEARTBEAT="2")
    for rank in range(2):
        assert "rank 2 (host " in error(result, rank), result.text
        assert "no sign of life for 2 s" in error(result, rank)
        assert "the key " in error(result, rank)
    assert result.status != 0


def test_ranks_that_disagree_all_raise_and_go_on():
    result = job(3, "different_shapes")
    assert result.status == 0, result.text
    for rank in range(3):
        errors = [x for x in result.lines(rank) if x.startswith("error: ")]
        assert len(errors) == 9, result.text
        for line in errors:
            assert "rank " in line or "initialized already" in line, result.text
            assert "'" in line or "g: " in line, result.text


def test_a_rank_that_dies_of_an_exception_ends_the_wait_of_the_others():
    result = job(3, "raises")
    for rank in range(2):
        assert "rank 2" in error(result, rank), result.text
        assert "KeyError" in error(result, rank)
    assert "rank 2 ended with status 1" in result.text
    assert any("KeyError" in line for line in result.lines(2))


# Jobs that start again.


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The weights of a run without faults."""
    folder = tmp_path_factory.mktemp("whole")
    result = job(3, "uninterrupted", folder)
    assert result.status == 0, result.text
    return np.load(folder / "weights.npy")


@pytest.mark.parametrize(
    "words, start",
    [
        (("killed", "step"), 6),
        (("killed", "backward"), 6),
        (("killed", "checkpoint"), 6),
        (("killed_in_manifest",), 6),
    ],
)
def test_a_restarted_job_gives_the_weights_of_one_without_faults(
    tmp_path, expected, words, start
):
    name, *rest = words
    options = ["--restarts", "1"]
    result = job(3, name, tmp_path, *rest, options=options)
    assert result.status == 0, result.text
    assert "starting again (1 of 1)" in result.text
    for rank in range(3):
        assert result.lines(rank).count(f"from step {start}") == 1, result.text
    assert (np.load(tmp_path / "weights.npy") == expected).all()


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_other_numbers_of_ranks_go_on_from_a_checkpoint(tmp_path, expected, ranks):
    assert job(3, "uninterrupted", tmp_path, 6).status == 0
    result = job(ranks, "uninterrupted", tmp_path)
    assert result.status == 0 and "from step 6" in result.lines(0), result.text
    np.testing.assert_allclose(np.load(tmp_path / "weights.npy"), expected, atol=1e-12)


@pytest.mark.parametrize(
    "kvstore, optimizer", [("dist_sync", "lamb"), ("device", "nag")]
)
def test_states_of_whole_arrays_are_kept_too(tmp_path, kvstore, optimizer):
    """Of rules that are not elementwise, and of updates outside of stores."""
    ranks = 2 if "dist" in kvstore else 1
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder, steps in ((whole, 12), (parts, 6), (parts, 12)):
        folder.mkdir(exist_ok=True)
        result = job(ranks, "uninterrupted", folder, steps, kvstore, optimizer)
        assert result.status == 0, result.text
    assert "from step 6" in result.lines(0)
    assert (np.load(whole / "weights.npy") == np.load(parts / "weights.npy")).all()


# Checkpoints that are damaged.


@pytest.fixture
def saved(tmp_path):
    """A folder with the checkpoints of steps 3 and 6."""
    assert job(2, "uninterrupted", tmp_path, 6).status == 0
    assert len(list(tmp_path.glob("step-*"))) == 2
    return tmp_path


def newest(folder, rank):
    return next(folder.glob("step-0000000006-*")) / f"rank-{rank}-of-2"


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def flip(path):
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "damage, text",
    [
        (truncate, "bytes; "),
        (flip, "checksum"),
        (lambda path: path.unlink(), "is missing"),
    ],
)
def test_a_damaged_part_is_named_and_an_older_checkpoint_taken(saved, damage, text):
    damage(newest(saved, 1))
    by_step = job(3, "load", saved, 6)
    for rank in range(3):
        assert "the part of rank 1" in error(by_step, rank), by_step.text
        assert text in error(by_step, rank)
    result = job(2, "load", saved)
    for rank in range(2):
        assert any(x.startswith("found {'step': 3") for x in result.lines(rank))
    assert "an older one is loaded" in result.text


def test_without_a_whole_checkpoint_all_ranks_raise(saved):
    for path in saved.glob("step-*/rank-0-of-2"):
        truncate(path)
    result = job(2, "load", saved)
    for rank in range(2):
        assert "the part of rank 0" in error(result, rank), result.text


def test_a_damaged_manifest_is_none(saved):
    manifest = newest(saved, 0).parent / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-40])
    result = job(2, "load", saved)
    assert any(x.startswith("found {'step': 3") for x in result.lines(1)), result.text
    assert "no complete checkpoint 6" in error(job(2, "load", saved, 6), 1)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted: not root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_an_error_on_all_ranks_and_nothing_is_lost(small_disk):
    result = job(2, "full_disk", small_disk)
    assert result.status == 0, result.text
    for rank in range(2):
        assert "save_checkpoint" in error(result, rank), result.text
        assert "No space left on device" in error(result, rank)
        assert "rank " in error(result, rank)
    names = sorted(path.name[:15] for path in small_disk.iterdir())
    assert names == ["step-0000000001", "step-0000000003"]
