"""What users of MXNet suffered from around records, images and loaders.

Each test names the row of the list of requirements that it stands for (A1, R12, ...).
"""

import gc
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import plait as mx
from plait import _plait, im2rec, recordio
from plait.error import MXNetError, MXNetOSError, MXNetValueError
from plait.gluon import data as D
from plait.gluon.data.vision import transforms as T

ROOT = Path(__file__).resolve().parents[2]
needs_codecs = pytest.mark.skipif(
    not _plait.features()["OPENCV"], reason="this build has no codecs of images"
)


@pytest.fixture
def ten(tmp_path):
    """Ten images as records."""
    paths = str(tmp_path / "a.idx"), str(tmp_path / "a.rec")
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        for i in range(10):
            picture = np.random.RandomState(i).randint(0, 256, (20, 24, 3))
            head = (0, float(i), i, 0)
            writer.write_idx(i, recordio.pack_img(head, picture.astype("uint8")))
    return paths


def iterator(paths, **kwargs):
    kwargs = {"data_shape": (3, 16, 16), "batch_size": 5, **kwargs}
    return mx.io.ImageRecordIter(path_imgrec=paths[1], **kwargs)


def labels(batches):
    return [
        x for b in batches for x in b.label[0].asnumpy()[: b.label[0].shape[0] - b.pad]
    ]


def damage(paths):
    """Flips a bit of the magic of record 5."""
    offset = recordio.MXIndexedRecordIO(*paths, "r").idx[5]
    data = bytearray(Path(paths[1]).read_bytes())
    data[offset] ^= 1
    Path(paths[1]).write_bytes(data)
    return offset


def truncate_image(paths):
    """Cuts the image of record 5 in half; the record is sound."""
    reader = recordio.MXIndexedRecordIO(*paths, "r")
    records = [reader.read_idx(i) for i in range(10)]
    records[5] = records[5][: len(records[5]) // 2]
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        for i, record in enumerate(records):
            writer.write_idx(i, record)


@needs_codecs
def test_a_damaged_record_is_named_or_skipped(ten, caplog):  # A1
    offset = damage(ten)
    with pytest.raises(MXNetOSError, match=r"a\.rec: at offset %d \(record 5" % offset):
        list(iterator(ten))
    with pytest.raises(MXNetOSError, match=r"a\.rec: at offset %d" % offset):
        list(iterator(ten, path_imgidx=ten[0]))
    with pytest.raises(MXNetOSError, match="key 5: .*at offset %d" % offset):
        recordio.MXIndexedRecordIO(*ten, "r").read_idx(5)
    sound = [0, 1, 2, 3, 4, 6, 7, 8, 9]
    for extra in ({}, {"path_imgidx": ten[0]}):
        it = iterator(ten, on_error="skip", batch_size=9, **extra)
        assert labels(it) == sound and it.skipped == 1
    it = mx.image.ImageIter(
        3, (3, 16, 16), path_imgrec=ten[1], path_imgidx=ten[0], on_error="skip"
    )
    assert labels(it) == sound
    data = D.vision.ImageRecordDataset(ten[1])
    loader = D.DataLoader(data.transform_first(T.ToTensor()), 5, on_error="skip")
    assert [y for _, ys in loader for y in ys.asnumpy()] == sound
    assert loader.skipped == 1 and "1 samples were left out" in caplog.text


@needs_codecs
def test_missing_parameters_are_errors(ten):  # A2
    for kind, kwargs in (
        ("ImageRecordIter", {"path_imgrec": ten[1], "data_shape": (3, 8, 8)}),
        ("ImageDetRecordIter", {"path_imgrec": ten[1], "data_shape": (3, 8, 8)}),
        ("CSVIter", {"data_csv": "x.csv", "data_shape": (1,)}),
        ("LibSVMIter", {"data_libsvm": "x.svm", "data_shape": (1,)}),
    ):
        with pytest.raises(MXNetValueError, match="batch_size is missing"):
            getattr(mx.io, kind)(**kwargs)
    with pytest.raises(MXNetValueError, match="data_shape is missing"):
        mx.io.ImageRecordIter(path_imgrec=ten[1], batch_size=2)
    with pytest.raises(ValueError, match="batch_size must be specified"):
        D.DataLoader([1, 2])


@needs_codecs
def test_an_image_that_cannot_be_decoded_is_named(ten, caplog):  # A3
    truncate_image(ten)
    with pytest.raises(MXNetValueError, match=r"a\.rec: at offset \d+, image 5: image"):
        list(iterator(ten))
    assert iterator(ten, on_error="skip").skipped == 0  # it is not met yet
    it = iterator(ten, on_error="skip", batch_size=9)
    assert labels(it) == [0, 1, 2, 3, 4, 6, 7, 8, 9] and it.skipped == 1
    data = D.vision.ImageRecordDataset(ten[1]).transform_first(T.CenterCrop(8))
    with pytest.raises(MXNetError, match=r"a\.rec: at offset \d+, image 5"):
        list(D.DataLoader(data, 5))
    loader = D.DataLoader(data, 5, on_error="skip")
    list(loader)
    assert "sample 5: " in caplog.text


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@needs_codecs
def test_iterators_made_again_and_again_leave_nothing(ten):  # A4
    def make(count):
        for _ in range(count):
            it = iterator(ten, data_shape=(3, 64, 64), resize=64, preprocess_threads=2)
            next(it)
            loader = D.DataLoader(D.SimpleDataset(np.zeros(4)), 2, num_workers=1)
            next(iter(loader))
            prefetching = mx.io.PrefetchingIter(mx.io.NDArrayIter(np.zeros(4), None, 2))
            prefetching.next()
            del it, loader, prefetching
        gc.collect()
        mx.nd.waitall()

    make(20)
    before, live = resident(), _plait.memory_stats("cpu", 0)["live"]
    files = len(os.listdir("/proc/self/fd"))
    make(200)
    assert resident() - before < 8 << 20
    assert _plait.memory_stats("cpu", 0)["live"] <= live + 4096
    assert len(os.listdir("/proc/self/fd")) <= files


@needs_codecs
def test_a_delivered_batch_is_never_overwritten(ten):  # A5
    array = mx.io.NDArrayIter(np.arange(10.0), np.arange(10.0), 2)
    for it in (
        iterator(ten, batch_size=2, prefetch_buffer=1, preprocess_threads=1),
        array,
        mx.io.PrefetchingIter(mx.io.NDArrayIter(np.arange(10.0), np.arange(10.0), 2)),
    ):
        first = next(it)
        data, label = first.data[0].asnumpy(), first.label[0].asnumpy()
        for _ in it:
            pass
        assert np.array_equal(first.data[0].asnumpy(), data)
        assert np.array_equal(first.label[0].asnumpy(), label)


@needs_codecs
def test_one_seed_drives_everything_whatever_the_workers(ten):  # A6
    transform = T.Compose(
        [T.RandomResizedCrop(12), T.RandomFlipLeftRight(), T.ToTensor()]
    )
    data = D.vision.ImageRecordDataset(ten[1]).transform_first(transform)
    runs = []
    for how in (
        {"num_workers": 0},
        {"num_workers": 4},
        {"num_workers": 2, "thread_pool": False},
    ):
        mx.random.seed(7)
        np.random.seed(7)
        net = mx.gluon.nn.Dense(3)
        net.initialize()
        net(mx.nd.ones((1, 4)))
        noise = mx.nd.Dropout(mx.nd.ones((20,)), mode="always").asnumpy()
        loader = D.DataLoader(data, 4, shuffle=True, **how)
        epochs = [
            [(x.asnumpy().tobytes(), y.asnumpy().tolist()) for x, y in loader]
            for _ in range(2)
        ]
        assert epochs[0] != epochs[1]
        assert sorted(sum((y for _, y in epochs[1]), [])) == list(range(10))
        runs.append((net.weight.data().asnumpy().tobytes(), noise.tobytes(), epochs))
    assert runs[0] == runs[1] == runs[2]
    passes = []
    for threads in (1, 2, 8):
        it = iterator(
            ten, shuffle=True, seed=3, random_resized_crop=True, min_random_area=0.2,
            rand_mirror=True, preprocess_threads=threads,
        )  # fmt: skip
        passes.append([])
        for _ in range(3):
            passes[-1].append([b.data[0].asnumpy().tobytes() for b in it])
            it.reset()
    assert passes[0] == passes[1] == passes[2]
    assert passes[0][0] != passes[0][1] != passes[0][2]


SEEDS = """
import sys
import plait as mx
if sys.argv[1] == "fresh":
    mx.random.seed()
print(mx.nd.random.uniform(shape=(4,)).asnumpy().tolist())
"""


def test_a_seed_without_a_number_is_fresh(ten):  # A7
    def run(how):
        path = os.path.dirname(os.path.dirname(mx.__file__))
        env = {**os.environ, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", SEEDS, how], env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("fresh") != run("fresh")
    assert run("default") == run("default")  # documented: as MXNet does


SMALL = """
import os, resource
import numpy as np
from plait.gluon import data as D

class Rows(D.Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, i):
        if i >= 200:  # from now on no file, and so no segment, may be larger
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
        return np.zeros(300 if i < 200 else 400000, "float32")

def named():  # files of /dev/shm that this process or its workers use
    found = []
    for process in [os.getpid()] + [w.process.pid for w in loader._pool._workers]:
        with open("/proc/%d/maps" % process) as file:
            found += [line for line in file if "/dev/shm/" in line]
    return found

if __name__ == "__main__":
    loader = D.DataLoader(Rows(), 1, num_workers=2, thread_pool=False)
    count = 0
    try:
        for batch in loader:
            count += 1
            assert count % 50 or not named()
    except MemoryError as error:
        print(count, error)
"""


def test_shared_memory_that_is_not_there_is_said_and_none_is_left(tmp_path):  # A8
    script = tmp_path / "small.py"
    script.write_text(SMALL)
    path = os.path.dirname(os.path.dirname(mx.__file__))
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("200 DataLoader: ")
    assert "bytes of shared memory for a batch are not there" in done.stdout


LEAVING = """
import sys
import numpy as np
import plait as mx
from plait.gluon import data as D
if __name__ == "__main__":
    how = {"thread_pool": False} if sys.argv[1] == "processes" else {}
    rows = D.ArrayDataset(np.zeros((100, 3)), np.arange(100))
    for batch in D.DataLoader(rows, 2, num_workers=2, **how):
        break
    it = mx.io.PrefetchingIter(mx.io.NDArrayIter(np.zeros((9, 2)), None, 3))
    for batch in it:
        break
    if len(sys.argv) > 2:
        for batch in mx.io.ImageRecordIter(
            path_imgrec=sys.argv[2], data_shape=(3, 8, 8), batch_size=2
        ):
            break
    if sys.argv[1] == "interrupt":
        raise KeyboardInterrupt
"""


@pytest.mark.parametrize("how", ["threads", "processes", "interrupt"])
def test_leaving_early_is_quiet(how, ten, tmp_path):  # A9
    script = tmp_path / "leaving.py"
    script.write_text(LEAVING)
    path = os.path.dirname(os.path.dirname(mx.__file__))
    codecs = [ten[1]] if _plait.features()["OPENCV"] else []
    done = subprocess.run(
        [sys.executable, str(script), how, *codecs],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if how == "interrupt":
        assert done.returncode == -2 or done.returncode == 130
        assert done.stderr.rstrip().endswith("KeyboardInterrupt")
        assert done.stderr.count("Traceback") == 1
    else:
        assert (done.returncode, done.stderr) == (0, "")


def test_cubic_resizing_stays_within_bytes():  # A12
    board = (np.indices((8, 8)).sum(0) % 2 * 255).astype("uint8")
    board = np.repeat(board[..., None], 3, 2)
    for interp in (0, 1, 2, 3, 4):
        for size in (5, 16, 31):
            resized = mx.image.imresize(mx.nd.array(board, dtype="uint8"), size, size,
                                        interp=interp)  # fmt: skip
            assert resized.dtype == np.uint8
    cubic = mx.image.imresize(mx.nd.array(board, dtype="uint8"), 31, 31, interp=2)
    floats = mx.image.imresize(mx.nd.array(board), 31, 31, interp=2).asnumpy()
    # Floats leave the range, as MXNet's do; bytes are clamped.
    assert floats.max() > 255 and floats.min() < 0
    wanted = np.clip(floats, 0, 255)
    assert np.abs(cubic.asnumpy().astype(float) - wanted).max() < 2


def test_the_order_of_transforms_is_checked():  # A12
    image = mx.nd.zeros((8, 8, 3), dtype="uint8")
    with pytest.raises(MXNetError):
        T.Compose([T.ToTensor(), T.ToTensor()])(image.reshape((8, 24))).wait_to_read()
    with pytest.raises(MXNetError):
        T.Normalize(0.5, 0.5)(image).wait_to_read()  # bytes, channels last


def test_labels_are_exact_or_refused():  # A13
    for label in (16777216, 0, -5):
        record = recordio.pack((0, label, 1, 0), b"x")
        assert recordio.unpack(record)[0].label == label
    for label in (16777217, [3, 16777217], np.array([16777217])):
        with pytest.raises(MXNetValueError, match="16777217"):
            recordio.pack((0, label, 1, 0), b"x")
    # Labels that are no images' heads keep their integers.
    rows = D.ArrayDataset(np.zeros(2), np.array([16777217, 2**40 + 1]))
    _, found = next(iter(D.DataLoader(rows, 2)))
    assert found.dtype == np.int64 and found.asnumpy().tolist() == [16777217, 2**40 + 1]
    with pytest.raises(MXNetValueError, match="16777217"):
        mx.image.ImageIter(1, (3, 8, 8), imglist=[[16777217, "x.jpg"]], path_root=".")


ALONE = """
import os, sys, time
import numpy
before = len(os.listdir("/proc/self/task"))
start = time.process_time()
import {package}.recordio
import {package}.image
seconds = time.process_time() - start
{work}
assert len(os.listdir("/proc/self/task")) == before, "a thread was started"
assert "plait.gluon" not in sys.modules and "plait.module" not in sys.modules
print(seconds)
"""
WORK = """
record = {package}.recordio.pack_img((0, 1, 2, 0), numpy.zeros((9, 9, 3), "uint8"))
assert {package}.recordio.unpack_img(record)[1].shape == (9, 9, 3)
image = {package}.image.imdecode({package}.recordio.unpack(record)[1])
assert image.shape == (9, 9, 3)
"""


@pytest.mark.parametrize("package", ["plait", "mxnet"])
def test_recordio_and_image_alone_start_no_thread(package):  # R12
    path = os.path.dirname(os.path.dirname(mx.__file__))
    env = {**os.environ, "PYTHONPATH": path + os.pathsep + str(ROOT / "python/alias")}
    work = WORK.format(package=package) if _plait.features()["OPENCV"] else ""
    done = subprocess.run(
        [sys.executable, "-c", ALONE.format(package=package, work=work)],
        env=env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 3  # of CPU; 0.2 on an idle machine


@needs_codecs
def test_labels_of_lists_are_exact_or_refused(ten, tmp_path, capsys):  # A13
    path = tmp_path / "a.lst"
    path.write_text("0\t5\tx.jpg\n1\t16777217\ty.jpg\n")
    with pytest.raises(MXNetValueError, match=r"a\.lst: line 2: label 16777217"):
        iterator(ten, path_imglist=str(path))
    with pytest.raises(MXNetValueError, match=r"a\.lst: line 2: label .16777217"):
        mx.image.ImageIter(1, (3, 8, 8), path_imglist=str(path), path_root=".")
    assert len(im2rec.read_list(str(path))) == 1
    assert "line 2 is left out: label [16777217.0]" in capsys.readouterr().err
