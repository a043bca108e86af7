"""srun and sbatch, on a Slurm that the tests start; skipped where there is none."""

import os
import shutil
import sys

import pytest
from jobs import BUILD, HERE, MPIRUN, PACKAGE
from slurm import Cluster, unpacked

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="Slurm's daemons want root"),
    pytest.mark.skipif(
        unpacked() is None,
        reason="Slurm is missing (slurmctld, slurmd, slurm-client): tools/setup.sh ci",
    ),
]
# One rank on each node, and two on one.
PLACES = [["-N2", "-n2"], ["-N1", "-n2"]]


@pytest.fixture(scope="module")
def cluster():
    made = Cluster(unpacked())
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(params=["pmix", "pmi2"])
def mpi(request):
    """How srun talks to the ranks: pmix for Open MPI, pmi2 for MPICH."""
    name = {"pmix": "openmpi", "pmi2": "mpich"}[request.param]
    if not (BUILD / f"libplait_{name}.so").exists():
        pytest.skip(f"the plug-in for {name} was not built: {name} is not installed")
    return "--mpi=" + request.param


def check(result, ranks, status=0):
    assert result.status == status, result.text
    for rank in range(ranks):
        assert (result.lines(rank) or [""])[-1] == "ok", result.text


@pytest.mark.parametrize("place", PLACES, ids=["two nodes", "one node"])
@pytest.mark.parametrize("name", ["push_pull", "thousand_transfers"])
def test_stores_work(cluster, mpi, place, name):
    program = HERE / "kvstore_program.py"
    check(cluster.srun(*place, mpi, sys.executable, program, name), 2)


def test_ranks_share_memory_on_one_node(cluster, mpi):
    program = HERE / "kvstore_program.py"
    words = ["-N1", "-n3", mpi, sys.executable, program, "push_pull"]
    check(cluster.srun(*words, OMPI_MCA_btl="self,vader"), 3)


@pytest.mark.parametrize("where", ["kill_in_backward", "kill_in_transfer"])
def test_survivors_name_the_killed_rank_and_end(cluster, where):
    """srun alone ends nobody else when a rank has died; UCX of Debian's MPICH does."""
    program = HERE / "fault_program.py"
    result = cluster.srun("-N2", "-n3", "--mpi=pmix", sys.executable, program, where)
    check(result, 2, status=128 + 9)
    for rank in range(2):
        errors = [x for x in result.lines(rank) if x.startswith("error: ")]
        assert len(errors) == 1 and "kvstore: the key " in errors[0], result.text
        assert "rank 2" in errors[0] and "lost" in errors[0], result.text


def test_ranks_that_know_nothing_of_one_another_are_an_error(cluster):
    words = ["-n2", "--mpi=none", sys.executable, "-c"]
    size = "import plait; print('of', plait.distributed.size())"
    result = cluster.srun(*words, size)
    assert result.status == 1 and result.text.count("srun --mpi=pmix") == 2, result.text
    alone = cluster.srun(*words, size, PLAIT_MPI="off")
    assert alone.status == 0, alone.text
    assert [alone.lines(rank) for rank in range(2)] == [["of 1"]] * 2


def test_a_batch_script_is_one_process_and_starts_several(cluster):
    """By plait-run, over all nodes of the job, or by srun."""
    if not MPIRUN or not shutil.which("bash"):
        pytest.skip("mpirun of Open MPI is missing")
    size = "import plait; print('of', plait.distributed.size())"
    script = (
        f'{sys.executable} -c "{size}"\n'
        f"export PYTHONPATH={PACKAGE.parent}\n"
        f"{sys.executable} -m plait.run -n 2 {HERE}/kvstore_program.py push_pull &&\n"
        f"{sys.executable} -m plait.run -n 2 bash -c 'echo on $SLURMD_NODENAME' &&\n"
        f'srun -l --mpi=pmix {sys.executable} -c "{size}"\n'
    )
    result = cluster.batch(script, "-N2", "-n2")
    assert result.status == 0, result.text
    lines = result.text.splitlines()
    assert lines.count("of 1") == 1, result.text
    assert {"[0] ok", "[1] ok", "[0] on n0", "[1] on n1"} <= set(lines), result.text
    assert {"0: of 2", "1: of 2"} <= set(lines), result.text
