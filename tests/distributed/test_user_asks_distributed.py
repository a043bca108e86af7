"""What users of distributed training have asked for: a test for each row (D1, ...)."""

import pathlib
import shutil
import subprocess

import pytest
from jobs import BUILD, needs_mpi, plait_run
from test_faults import error, job
from test_kvstore_nightly import check
from test_store import check as check_store

pytestmark = needs_mpi
ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_d1_uneven_steps_end_with_an_error():
    check_store(2, "uneven")


def test_d2_a_rank_that_never_comes_is_named(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys\n"
        "if os.environ['OMPI_COMM_WORLD_RANK'] == '1': sys.exit(3)\n"
        "from plait import distributed as dist\n"
        "dist.barrier()\n"
    )
    result = plait_run(3, script, options=["--grace", "1"])
    assert result.status == 3
    assert "rank 1 ended with status 3" in result.text


def test_d3_more_workers_than_hosts_all_run(tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("localhost slots=1\n")
    check(2, "invalid", options=["--hostfile", str(hosts)])


def test_d4_a_push_before_the_optimizer_is_an_error_and_the_next_works():
    check(2, "push_before_an_optimizer")


@pytest.mark.parametrize("kind", ["dist_sync", "dist_async"])
def test_d5_a_new_rate_counts_at_once(kind):
    check(2, "new_rate", kind)


def test_d6_a_slow_worker_holds_nobody_up_but_at_the_bound(tmp_path):
    check(3, "slow_worker", tmp_path)


def test_d8_ranks_own_equal_parts_and_parts_give_what_wholes_give():
    check(4, "balance")


def test_d9_a_lost_worker_is_an_error():
    result = job(2, "kill_in_backward")
    assert "rank 1 (host " in error(result, 0)


def test_d10_a_plugin_of_another_compiler_works(tmp_path):
    compiler = shutil.which("clang++") or shutil.which("clang++-14")
    headers = pathlib.Path("/usr/lib/x86_64-linux-gnu/openmpi/include")
    if compiler is None or not headers.is_dir():
        pytest.skip("another compiler or the headers of Open MPI are missing")
    plugin = tmp_path / "plugin.so"
    words = [compiler, "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{ROOT / 'src'}"]
    words += [f"-I{headers}", "-DOMPI_SKIP_MPICXX", "-o", str(plugin)]
    words += [str(ROOT / "src/kvstore/mpi/plugin.cc"), "-lmpi"]
    subprocess.run(words, check=True, cwd=BUILD)
    check(2, "thousand_transfers", PLAIT_MPI=str(plugin))


def test_d11_ten_thousand_sums_are_right():
    check(4, "many_sums")
