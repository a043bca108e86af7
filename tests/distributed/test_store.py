"""Stores that ranks share, under mpirun: training, errors, bytes."""

import pathlib

import pytest
from jobs import check_program, needs_mpi

import plait as mx
from plait import distributed as dist
from plait import nd

PROGRAM = pathlib.Path(__file__).parent / "store_program.py"


def check(ranks, *words):
    check_program(ranks, PROGRAM, *words)


@needs_mpi
@pytest.mark.parametrize(
    "name",
    [
        "trainer_equals_one_process",
        "module_equals_one_process",
        "functions",
        "bad_shapes",
        "compressed",
        "uneven",
    ],
)
def test_two_ranks_agree(name):
    check(2, name)


@needs_mpi
@pytest.mark.parametrize(
    "name", ["trainer_equals_one_process", "functions", "asynchronous"]
)
def test_four_ranks_agree(name):
    check(4, name)


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_the_bytes_of_a_step_are_those_of_the_model(ranks):
    check(ranks, "traffic")


@needs_mpi
def test_states_are_saved_by_part(tmp_path):
    check(2, "states", tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


def test_one_process_is_a_world_of_one():
    assert (dist.rank(), dist.size()) == (0, 1)
    x = nd.ones((4,))
    assert (dist.allreduce(x).asnumpy() == 1).all()
    assert dist.broadcast(x) is x
    dist.barrier()
    for kind in ("dist_sync", "dist_device_sync", "dist_async", "dist"):
        store = mx.kv.create(kind)
        assert (store.type, store.rank, store.num_workers) == (kind, 0, 1)
        store.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
        store.init(3, x)
        store.push(3, x)
        store.pull(3, out := nd.zeros((4,)))
        assert (out.asnumpy() == 0).all()


def test_wrong_arguments_say_what_is_wrong():
    with pytest.raises(TypeError, match="expected a dense NDArray"):
        dist.allreduce([1.0])
    with pytest.raises(ValueError, match="root 3; a rank below 1"):
        dist.broadcast(nd.ones((2,)), 3)
    with pytest.raises(TypeError, match="expected a dict"):
        dist.broadcast_parameters([1])
    with pytest.raises(ValueError, match="'2bits'"):
        mx.kv.create("dist_sync").set_gradient_compression({"type": "2bits"})
    with pytest.raises(mx.MXNetError, match="without an updater"):
        store = mx.kv.create("dist_async")
        store.init("w", nd.ones((2,)))
        store.push("w", nd.ones((2,)))
