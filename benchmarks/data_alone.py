"""What the table of data has beside its peers: reading records, memory, an index.

usage: python benchmarks/data_alone.py records|index|memory FOLDER

Prints a JSON line {"row", "value", "unit", "target"} for each row; targets are texts.
"""

import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import plait as mx
from plait import _plait, recordio

BENCH = Path(mx.__file__).parents[2] / "record_bench"  # beside the package, as built
FILE_BYTES = 200 << 20
MB = 1 << 20


def show(row, value, unit, target=""):
    line = {"row": row, "value": value, "unit": unit, "target": target}
    print(json.dumps(line), flush=True)


def best(work, times=5):
    """Seconds of the fastest run."""
    results = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        results.append(time.perf_counter() - start)
    return min(results)


def records(_):
    """Shares of the speed of `cat FILE > /dev/null`, warm."""
    for size, wanted in ((100_000, 90), (10_000, 70)):
        done = subprocess.run([BENCH, str(size)], capture_output=True, text=True)
        share = float(done.stdout.split(" % of cat")[0].split("(")[-1])
        row = "records of %d KB, C++, of cat" % (size // 1000)
        show(row, share, "%", "at least %d" % wanted)
    with tempfile.TemporaryDirectory() as folder:
        for size in (100_000, 10_000):
            path = folder + "/a.rec"
            with recordio.MXRecordIO(path, "w") as writer:
                for _ in range(FILE_BYTES // size):
                    writer.write(b"x" * size)

            def read(path=path):
                reader = recordio.MXRecordIO(path, "r")
                while reader.read() is not None:
                    pass

            cat = best(lambda path=path: subprocess.run(f"cat {path} > /dev/null",
                                                        shell=True))  # fmt: skip
            row = "records of %d KB, bytes in Python, of cat" % (size // 1000)
            show(row, 100 * cat / best(read), "%", "at least 60")


def index(_):
    """Opening an index, and finding a key."""
    count = 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        names = folder + "/a.idx", folder + "/a.rec"
        with open(names[0], "w") as file:
            for first in range(0, count, 100_000):
                lines = (
                    "%d\t%d\n" % (i, 16 * i) for i in range(first, first + 100_000)
                )
                file.writelines(lines)
        recordio.MXRecordIO(names[1], "w").close()

        def load():
            reader = recordio.MXIndexedRecordIO(*names, "r")
            reader.seek(count // 2)
            reader.close()

        show("an index of 10 million keys", best(load, 3), "s", "at most 2")


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def live():
    return _plait.memory_stats("cpu", 0)["live"]


def memory(folder):
    """How much more there is after ten epochs, and how much is made ahead."""
    T = mx.gluon.data.vision.transforms
    iterator = mx.io.ImageRecordIter(
        path_imgrec=str(folder / "a.rec"),
        data_shape=(3, 224, 224),
        batch_size=50,
        preprocess_threads=2,
        random_resized_crop=True,
        min_random_area=0.08,
    )
    data = mx.gluon.data.vision.ImageRecordDataset(str(folder / "a.rec"))
    steps = T.Compose([T.RandomResizedCrop(224), T.ToTensor()])
    loader = mx.gluon.data.DataLoader(data.transform_first(steps), 50, num_workers=2)

    def epoch():
        iterator.reset()
        for batch in iterator:
            batch.data[0].wait_to_read()
        for images, _ in loader:
            images.wait_to_read()

    after = []  # each epoch; one batch more or less may be in the making
    for _ in range(12):
        epoch()
        gc.collect()
        after.append(resident())
    before, grown = max(after[2:7]), max(after[7:]) - max(after[2:7])
    show("memory, the most after epochs 3 to 7", before / MB, "MB")
    show("more after epochs 8 to 12", grown / MB, "MB", "flat: less than a batch, 29")

    batch, limit = 50 * 3 * 224 * 224 * 4, 100 * MB
    iterator.close()
    iterator = None
    mx.nd.waitall()
    gc.collect()
    before, most = live(), 0
    iterator = mx.io.ImageRecordIter(
        path_imgrec=str(folder / "a.rec"),
        data_shape=(3, 224, 224),
        batch_size=50,
        preprocess_threads=2,
        prefetch_buffer=100,
        prefetch_bytes=limit,
    )
    first = next(iterator)
    deadline = time.monotonic() + 3  # nobody takes more: it makes what it may
    while time.monotonic() < deadline:
        most = max(most, live() - before - batch)
        time.sleep(0.01)
    del first
    row = "made ahead, with prefetch_bytes of 100 MB"
    show(row, most / MB, "MB", "at most 100")


if __name__ == "__main__":
    {"records": records, "index": index, "memory": memory}[sys.argv[1]](
        Path(sys.argv[2])
    )
