"""Stores and sums between two ranks, beside MPI's own allreduce and gloo's: a table.

usage: kvstore.py [--gloo PYTHON] [--picture FILE]

Rows over a link need root, for network namespaces; their link is slowed down by the
kernel (tbf). PYTHON is an interpreter that has PyTorch. The picture shows what two
ranks compute and send while they train. Figures go to benchmarks/out/kvstore.json too.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "distributed"))

from jobs import environment, plait_run  # noqa: E402
from kvstore_picture import draw  # noqa: E402
from namespaces import Machines, reason_against  # noqa: E402

RANK, TRAIN = HERE / "kvstore_rank.py", HERE / "kvstore_train.py"
PEER = pathlib.Path.home() / ".cache/plait-peers/tv/bin/python"
RATES = (None, "10gbit", "1gbit")
OUT = HERE / "out"
ROWS = []


def numbers(lines):
    lines = (line.split() for line in lines if line.startswith("result "))
    return {name: float(value) for _, name, value in lines}


def results(job):
    """{name: number} of what rank 0 has printed."""
    if job.status != 0:
        raise SystemExit(job.text)
    return numbers(job.lines(0))


def row(work, mine, peer, ratio, wanted=None, **more):
    """Prints a row, with `ratio` the larger the better, and keeps it."""
    ROWS.append({"work": work, "plait": mine, "peer": peer, "ratio": ratio,
                 "wanted": wanted, **more})  # fmt: skip
    reached = "" if wanted is None else f" of {wanted:.2f}"
    print(f"{work:58s} {mine:>14s} {peer:>26s}  {ratio:5.2f}{reached}", flush=True)


def ms(seconds):
    return f"{seconds * 1e3:.1f} ms"


def allreduce_row():
    found = results(plait_run(2, RANK, "allreduce"))
    mpi, ours = (
        min(found[f"{who}{turn}"] for turn in range(3)) for who in ("mpi", "plait")
    )
    row("allreduce of 100 MB", ms(ours), f"MPI_Allreduce {ms(mpi)}", mpi / ours, 0.95)


def gloo(machines, peer):
    env = {"MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "29533"}
    env["GLOO_SOCKET_IFNAME"] = "v0"
    words = [f"--env={k}={v}" for k, v in env.items()]
    return results(machines.plait_run(peer, RANK, "gloo", options=words))["gloo"]


def resnet_rows(rate, peer):
    ours, narrow, theirs = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        machines = Machines(folder, rate)
        try:
            for _ in range(2):
                ours.append(results(machines.plait_run(RANK, "plait")))
                if peer.exists():
                    theirs.append(gloo(machines, peer))
            narrow = results(machines.plait_run(RANK, "narrow"))["plait"]
            mpi = results(machines.plait_run(RANK, "mpi"))["mpi"]
        finally:
            machines.close()
    mine = min(found["plait"] for found in ours)
    work = "push and pull of ResNet-50, " + (rate or "no limit")
    row(work, ms(mine), f"MPI one by one {ms(mpi)}", mpi / mine, 1.5)
    if theirs:
        text = f"gloo {ms(min(theirs))}"
        row(work, ms(mine), text, min(theirs) / mine, 1.5)
        text += ", float32"
        row(work + ", bfloat16 sums", ms(narrow), text, min(theirs) / narrow)
    if rate is None:
        sent, model = ours[0]["bytes"], ours[0]["model"]
        megabytes = [f"{x / 1e6:.3f} MB" for x in (sent, model)]
        row("bytes sent a rank and step", megabytes[0], f"model {megabytes[1]}",
            model / sent, 1)  # fmt: skip


def overlap_row(picture):
    with tempfile.TemporaryDirectory() as folder:
        machines = Machines(folder)
        try:
            found = results(machines.plait_run(TRAIN, "overlap", OUT, timeout=200))
        finally:
            machines.close()
    longest = max(found["compute"], found["transfer"])
    parts = f"max({ms(found['compute'])}, {ms(found['transfer'])})"
    work = f"VGG-11, transfer under compute, {found['mbit']:.0f} Mbit/s"
    row(work, ms(found["both"]), parts, longest / found["both"], 1 / 1.1, **found)
    draw([OUT / f"overlap{rank}.json" for rank in range(2)], picture)


def scaling_row():
    found = results(plait_run(2, TRAIN, "scaling", OUT, timeout=200))
    work = "ResNet-18, 2 ranks"
    for peer, wanted in (("alone", 0.95), ("apart", None)):
        name = {"alone": "one alone", "apart": "two processes apart"}[peer]
        row(work, ms(found["together"]), f"{name} {ms(found[peer])}",
            found[peer] / found["together"], wanted)  # fmt: skip


def local_row():
    done = subprocess.run(
        [sys.executable, str(HERE / "kvstore_local.py")],
        env=environment(),
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    )
    found = numbers(done.stdout.splitlines())
    mine, peer = (f"{found[name]:.1f} GB/s" for name in ("store", "copy"))
    ratio = found["store"] / found["copy"]
    row("local store, 4 devices, ResNet-50", mine, f"copy {peer}", ratio, 0.85)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gloo", default=PEER, type=pathlib.Path)
    parser.add_argument("--picture", default=OUT / "overlap.png", type=pathlib.Path)
    args = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    work = [(local_row,), (allreduce_row,), (scaling_row,)]
    reason = reason_against()
    if reason:
        print(f"over a link: skipped, {reason}")
    else:
        work.append((overlap_row, args.picture))
        work += [(resnet_rows, rate, args.gloo) for rate in RATES]
    for make, *arguments in work:
        try:
            make(*arguments)
        except (Exception, SystemExit, pytest.fail.Exception) as error:
            print(f"{make.__name__} {arguments} failed:\n{error}", flush=True)
    (OUT / "kvstore.json").write_text(json.dumps(ROWS, indent=1) + "\n")


if __name__ == "__main__":
    main()
