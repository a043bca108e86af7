"""Measures reading of records and images beside MXNet's and PyTorch's, and prints the
table.

usage: python benchmarks/data.py [--count 2000] [--rounds 2] [PARTS OF ROW NAMES]

The files are 2,000 JPEGs of 375 x 500 from data_files.py, the same for all. Where two
sides do the same work their results are compared first. MXNet 1.9.1 decodes with one
thread on two cores, whatever preprocess_threads says. Writes benchmarks/out/data.json.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import data_files
import report

import run

DATA = run.OUT / "data"
SIDES = {
    "plait": (sys.executable, "data_rows.py", "plait"),
    "mxnet": (run.MXNET, "data_rows.py", "mxnet"),
    "torch": (run.TORCH, "data_rows.py", "torch"),
}
IM2REC = "im2rec, shorter edge 256"
# Row: how many times better than its best peer, at least. What arrays in batches must
# reach is a multiple of PyTorch's DataLoader alone.
TARGETS = {
    "random resized crop, ImageRecordIter": 1.5,
    "random resized crop, DataLoader": 1.5,
    "shorter edge 256, random crop, ImageRecordIter": None,
    "arrays in batches, DataLoader": None,
    "arrays in batches, NDArrayIter": None,
    IM2REC: 2,
}
ARRAYS = [row for row in TARGETS if row.startswith("arrays")]
IMAGES = [row for row in TARGETS if row.endswith("Iter") and row not in ARRAYS]
IMAGES += ["random resized crop, DataLoader"]
ALONE = ("records", "index", "memory", "training")


def measure(results, table, rows):
    """A round: each side of each row in turn."""
    for row in rows:
        for side, (python, script, module) in table.items():
            if Path(python).exists():
                for line in run.run_rows(side, python, script, module, [row]):
                    results.add(side, **line)


def im2rec(side, count):
    """(seconds, the records' labels and sizes) of packing with two threads."""
    python = SIDES[side][0]
    tool = ["-m", "plait.im2rec"]
    if side == "mxnet":
        where = "import mxnet, os; print(os.path.dirname(mxnet.__file__))"
        found = run.run(python, side, "-c", where).stdout.split()
        tool = [found[-1] + "/tools/im2rec.py"]
    prefix = DATA / "im2rec" / side
    prefix.parent.mkdir(exist_ok=True)
    shutil.copy(DATA / "images.lst", f"{prefix}.lst")
    options = ["--resize", "256", "--quality", "90", "--num-thread", "2"]
    start = time.perf_counter()
    done = run.run(python, side, *tool, *options, prefix, DATA / "jpg")
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"im2rec of {side}: {done.stderr[-2000:]}")
    return seconds, packed(prefix, count)


def packed(prefix, count):
    """Numbers that tell whether two record files hold the same pictures."""
    from plait import recordio

    reader = recordio.MXIndexedRecordIO(f"{prefix}.idx", f"{prefix}.rec", "r")
    if len(reader.keys) != count:
        sys.exit(f"{prefix}.rec has {len(reader.keys)} records; {count} were expected")
    found = []
    for key in sorted(reader.keys)[:: max(1, count // 40)]:
        header, image = recordio.unpack_img(reader.read_idx(key))
        found += [header.label, header.id, *image.shape, round(float(image.mean()))]
    return found


def measure_im2rec(results, count):
    """Packs with both programs."""
    from plait import im2rec as program

    prefix = str(DATA / "images")
    program.main(["--list", "--recursive", prefix, str(DATA / "jpg")])
    for side in ("plait", "mxnet"):
        if Path(SIDES[side][0]).exists():
            seconds, outputs = im2rec(side, count)
            results.add(side, IM2REC, seconds, "s", outputs)


def alone(part):
    """Lines of the rows without peers."""
    script = "data_training.py" if part == "training" else "data_alone.py"
    command = [run.HERE / script, *([] if part == "training" else [part]), DATA]
    done = run.run(sys.executable, "plait", *command)
    if done.returncode:
        print(f"{part}: {done.stderr[-2000:]}", file=sys.stderr)  # others go on
    return [json.loads(x) for x in done.stdout.splitlines() if x.startswith("{")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", help="parts of row names; default: all")
    parser.add_argument("--count", default=2000, type=int, help="images")
    parser.add_argument("--rounds", default=2, type=int)
    args = parser.parse_args()

    def chosen(rows):
        return [r for r in rows if not args.rows or any(x in r for x in args.rows)]

    subprocess.run([run.HERE / "setup_peers.sh", "photos"], check=True)
    DATA.mkdir(parents=True, exist_ok=True)
    data_files.make(DATA, args.count)
    os.environ["DATA"] = str(DATA)
    results = run.Results(run.OUT / "data.json", False)
    for _ in range(args.rounds):
        measure(results, SIDES, chosen(IMAGES))
        measure(results, run.SIDES, chosen(ARRAYS))
        if chosen([IM2REC]):
            measure_im2rec(results, args.count)
    lines = [line for part in chosen(ALONE) for line in alone(part)]
    if results.rows:
        report.print_table(results.rows, TARGETS)
    for row in chosen(ARRAYS):
        sides = results.rows[row]["values"]
        if "plait" in sides and "torch" in sides and not results.rows[row]["why"]:
            ratio = statistics.median(sides["plait"]) / statistics.median(
                sides["torch"]
            )
            lines.insert(0, {"row": row + ", of PyTorch's DataLoader", "value": ratio,
                             "unit": "x", "target": "at least 5"})  # fmt: skip
    for line in lines:
        wanted = f"  (wanted: {line['target']})" if line["target"] else ""
        print(f"{line['row']:60s}{line['value']:24.4g} {line['unit']}{wanted}")


if __name__ == "__main__":
    main()
