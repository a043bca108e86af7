"""Sums between two ranks: Plait beside MPI's own allreduce, and beside gloo's.

usage: kvstore.py [GLOO_PYTHON]

The second table is over a link between two network namespaces (as root), at several
speeds of the link. GLOO_PYTHON is an interpreter that has PyTorch.
"""

import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "distributed"))

from jobs import plait_run  # noqa: E402
from namespaces import Machines, reason_against  # noqa: E402

RANK = HERE / "kvstore_rank.py"
PEER = pathlib.Path.home() / ".cache/plait-peers/tv/bin/python"
RATES = (None, "10gbit", "1gbit")


def results(job):
    """{name: number} of what rank 0 has printed."""
    if job.status != 0:
        raise SystemExit(job.text)
    lines = (line.split() for line in job.lines(0) if line.startswith("result "))
    return {name: float(value) for _, name, value in lines}


def allreduce_row():
    found = results(plait_run(2, RANK, "allreduce"))
    print("allreduce of 100 MB, 2 ranks of one machine, ms:")
    for turn in range(3):
        mpi, ours = found[f"mpi{turn}"], found[f"plait{turn}"]
        print(
            f"  MPI_Allreduce {mpi * 1e3:6.1f}  Plait {ours * 1e3:6.1f}"
            f"  {mpi / ours:.2f}x"
        )


def resnet_row(rate, peer):
    with tempfile.TemporaryDirectory() as folder:
        machines = Machines(folder, rate)
        try:
            ours = results(machines.plait_run(RANK, "plait"))
            mpi = results(machines.plait_run(RANK, "mpi"))["mpi"]
            gloo = None
            if peer.exists():
                env = {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29533"}
                words = [f"--env={k}={v}" for k, v in env.items()]
                words += ["--env=GLOO_SOCKET_IFNAME=v0"]
                job = machines.plait_run(peer, RANK, "gloo", options=words)
                gloo = results(job)["gloo"]
        finally:
            machines.close()
    text = f"  {rate or 'no limit':9} Plait {ours['plait'] * 1e3:6.1f}"
    text += f"  MPI one by one {mpi * 1e3:6.1f} ({mpi / ours['plait']:.2f}x)"
    if gloo:
        text += f"  gloo {gloo * 1e3:6.1f} ({gloo / ours['plait']:.2f}x)"
    print(text + f"  bytes {ours['bytes'] / ours['model']:.4f} of the model")


def main():
    peer = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else PEER
    allreduce_row()
    reason = reason_against()
    if reason:
        print(f"over a link: skipped, {reason}")
        return
    print("push and pull of ResNet-50's 161 arrays (102 MB), 2 machines, ms:")
    for rate in RATES:
        resnet_row(rate, peer)


if __name__ == "__main__":
    main()
