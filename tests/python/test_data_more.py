"""Samples that cannot be read, batchify functions, lists of images, saved positions."""

import json
import pickle
import random

import numpy as np
import pytest

import plait as mx
from plait import _plait, nd, recordio
from plait.error import MXNetError, MXNetOSError, MXNetTypeError, MXNetValueError
from plait.gluon import data as D
from plait.gluon.data import batchify as B
from plait.gluon.data.vision import transforms as T

needs_codecs = pytest.mark.skipif(
    not _plait.features()["OPENCV"], reason="this build has no codecs of images"
)


def write(folder, count=10, broken=()):
    """A record file of images, those of some numbers cut short."""
    paths = str(folder / "a.idx"), str(folder / "a.rec")
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        for i in range(count):
            picture = np.full((20, 24, 3), 20 * i, "uint8")
            record = recordio.pack_img((0, float(i), i, 0), picture)
            writer.write_idx(i, record[:60] if i in broken else record)
    return paths


# --- on_error='skip' of DataLoader


@needs_codecs
@pytest.mark.parametrize("workers", [0, 2, "processes"])
def test_samples_that_cannot_be_read_are_left_out_and_counted(
    tmp_path, workers, caplog
):
    write(tmp_path, broken=(3, 8, 9))
    data = D.vision.ImageRecordDataset(str(tmp_path / "a.rec"))
    data = data.transform_first(T.Compose([T.CenterCrop(16), T.ToTensor()]))
    how = {"num_workers": workers}
    if workers == "processes":
        how = {"num_workers": 1, "thread_pool": False}
    loader = D.DataLoader(data, 2, on_error="skip", **how)
    for epoch in (1, 2):
        caplog.clear()
        batches = [labels.asnumpy().tolist() for _, labels in loader]
        assert batches == [[0, 1], [2], [4, 5], [6, 7]]
        assert loader.skipped == 3 * epoch
        assert "3 samples were left out" in caplog.text
        assert "sample 8: " in caplog.text and "image: the JPEG" in caplog.text
    state = loader.state_dict()
    loader.load_state_dict(pickle.loads(pickle.dumps(state)))
    with pytest.raises(MXNetError, match="image: the JPEG"):
        list(D.DataLoader(data, 2, **how))


def test_other_errors_are_not_skipped():
    class Wrong(D.SimpleDataset):
        def __getitem__(self, i):
            return self.no_such_attribute

    for workers in (0, 1):
        loader = D.DataLoader(Wrong([1, 2]), 1, on_error="skip", num_workers=workers)
        with pytest.raises(AttributeError, match="no_such_attribute"):
            list(loader)
    with pytest.raises(ValueError, match="on_error is 'ignore'"):
        D.DataLoader([1], 1, on_error="ignore")


# --- batchify


def test_samples_of_different_lengths_are_padded():
    rows = [np.arange(n, dtype="int32") for n in (2, 0, 3)]
    batch = B.Pad(val=-1)(rows)
    assert batch.dtype == np.int32
    assert batch.asnumpy().tolist() == [[0, 1, -1], [-1, -1, -1], [0, 1, 2]]
    assert B.Pad(round_to=4, dtype="float32")(rows).shape == (3, 4)
    assert B.Pad()([nd.ones((2, 3)), nd.ones((4, 1))]).shape == (2, 4, 3)
    with pytest.raises(MXNetValueError, match="1 and 2 axes"):
        B.Pad()([np.zeros(2), np.zeros((2, 2))])
    with pytest.raises(AssertionError, match="round_to is 0"):
        B.Pad(round_to=0)


def test_stacks_lists_and_groups():
    stacked = B.Stack()([nd.ones((2,), dtype="int64"), np.zeros(2, "int64")])
    assert stacked.dtype == np.int64 and stacked.asnumpy().tolist() == [[1, 1], [0, 0]]
    with pytest.raises(MXNetValueError, match=r"\(2,\), \(3,\); equal ones"):
        B.Stack()([np.zeros(2), np.zeros(3)])
    appended = B.Append()([np.zeros(2), np.zeros(3)])
    assert [x.shape for x in appended] == [(1, 2), (1, 3)]
    assert B.Append(expand=False)([np.zeros(2)])[0].shape == (2,)
    group = B.Group(B.Pad(), B.Stack(), B.AsList())
    samples = [(np.zeros(n), n, "text %d" % n) for n in (1, 2)]
    padded, numbers, texts = group(samples)
    assert padded.shape == (2, 2) and numbers.asnumpy().tolist() == [1, 2]
    assert texts == ["text 1", "text 2"]
    with pytest.raises(AssertionError, match="3 functions, and samples of"):
        group([(1, 2)])
    with pytest.raises(AssertionError, match="is no function"):
        B.Group(B.Pad(), 5)


@pytest.mark.parametrize("processes", [False, True])
def test_workers_batchify_with_any_function(processes):
    data = D.SimpleDataset([(np.arange(n), "t%d" % n) for n in range(1, 7)])
    loader = D.DataLoader(
        data,
        3,
        batchify_fn=B.Group(B.Pad(), B.AsList()),
        num_workers=2,
        thread_pool=not processes,
    )
    for _ in range(2):
        assert [(x.shape, texts) for x, texts in loader] == [
            ((3, 3), ["t1", "t2", "t3"]),
            ((3, 6), ["t4", "t5", "t6"]),
        ]


def test_batches_of_csr_rows():
    dense = np.random.RandomState(1).rand(7, 5).astype("float32")
    dense[dense < 0.6] = 0
    csr = mx.nd.array(dense).tostype("csr")
    for workers in (0, 2):
        loader = D.DataLoader(D.ArrayDataset(csr, np.arange(7)), 3, num_workers=workers)
        found = [(x.asnumpy(), y.asnumpy()) for x, y in loader]
        rows = np.concatenate([x.reshape(len(y), -1) for x, y in found])
        assert np.array_equal(rows, dense)
        assert np.concatenate([y for _, y in found]).tolist() == list(range(7))


# --- lists of images


@needs_codecs
def test_images_of_a_list(tmp_path):
    for i in range(4):
        picture = np.full((9, 8, 3), 20 * i, "uint8")
        (tmp_path / ("%d.png" % i)).write_bytes(_plait.encode_image(picture, ".png", 3))
    lines = ["%d\t%d\t%d\t%d.png\n" % (9 - i, i, i * i, i) for i in range(4)]
    (tmp_path / "a.lst").write_text("".join(lines))
    listed = D.vision.ImageListDataset(str(tmp_path), "a.lst")
    given = D.vision.ImageListDataset(
        str(tmp_path), [[i, i * i, "%d.png" % i] for i in range(4)]
    )
    for data in (listed, given):
        assert len(data) == 4
        image, label = data[2]
        assert image.shape == (9, 8, 3) and (image.asnumpy() == 40).all()
        assert np.array_equal(label, [2, 4])
        images, labels = next(iter(D.DataLoader(data, 3)))
        assert images.shape == (3, 9, 8, 3)
        assert labels.asnumpy().tolist() == [[0, 0], [1, 1], [2, 4]]
    one = D.vision.ImageListDataset(str(tmp_path), [[3, "1.png"]], flag=0)
    assert one[0][0].shape == (9, 8, 1) and one[0][1].tolist() == [3]
    with pytest.raises(MXNetTypeError, match="imglist is 5"):
        D.vision.ImageListDataset(str(tmp_path), 5)
    with pytest.raises(MXNetOSError, match="none.lst"):
        D.vision.ImageListDataset(str(tmp_path), "none.lst")
    (tmp_path / "a.lst").write_text("1\tno tab\n")
    with pytest.raises(MXNetOSError, match="line 1 is wrong"):
        D.vision.ImageListDataset(str(tmp_path), "a.lst")
    with pytest.raises(MXNetError, match="5.png"):
        D.vision.ImageListDataset(str(tmp_path), [[0, "5.png"]])[0]


# --- positions in the middle of an epoch


def csv(folder):
    path = folder / "a.csv"
    path.write_text("".join("%d,%d\n" % (i, -i) for i in range(11)))
    return mx.io.CSVIter(data_csv=str(path), data_shape=(2,), batch_size=3)


def libsvm(folder):
    path = folder / "a.svm"
    path.write_text("".join("%d 0:%d 3:1\n" % (i, i) for i in range(11)))
    return mx.io.LibSVMIter(data_libsvm=str(path), data_shape=(4,), batch_size=3)


def mnist(folder):
    for name, head, size in (("i", "00000803 0000000b 00000002 00000002", 44),
                             ("l", "00000801 0000000b", 11)):  # fmt: skip
        (folder / name).write_bytes(bytes.fromhex(head) + bytes(range(size)))
    return mx.io.MNISTIter(
        image=str(folder / "i"), label=str(folder / "l"), batch_size=3
    )


def resized(folder):
    return mx.io.ResizeIter(csv(folder), 3, reset_internal=False)


def prefetching(folder):
    data = np.arange(11.0)
    return mx.io.PrefetchingIter(mx.io.NDArrayIter(data, data, 3, shuffle=True))


def images(folder):
    paths = write(folder, 11)
    return mx.image.ImageIter(
        3, (3, 12, 12), path_imgrec=paths[1], path_imgidx=paths[0], shuffle=True,
        rand_crop=True, rand_mirror=True, brightness=0.2, pca_noise=0.1,
        last_batch_handle="roll_over",
    )  # fmt: skip


def stream(folder):
    return mx.image.ImageIter(3, (3, 12, 12), path_imgrec=write(folder, 11)[1])


def run(iterator, count):
    found = []
    while len(found) < count:
        try:
            batch = iterator.next()
        except StopIteration:
            iterator.reset()
            continue
        arrays = [x.asnumpy().tolist() for x in batch.data + batch.label]
        found.append((batch.pad, arrays))
    return found


@pytest.mark.parametrize("stop", [0, 1, 3, 4, 6])
@pytest.mark.parametrize(
    "make", [csv, libsvm, mnist, resized, prefetching, images, stream]
)
def test_iterators_go_on_where_they_were(make, stop, tmp_path):
    if make in (images, stream) and not _plait.features()["OPENCV"]:
        pytest.skip("this build has no codecs of images")
    np.random.seed(3)
    random.seed(3)
    iterator = make(tmp_path)
    run(iterator, stop)
    state = pickle.loads(pickle.dumps(iterator.state_dict()))
    wanted = run(iterator, 7)
    np.random.seed(4)
    random.seed(4)
    other = make(tmp_path)
    run(other, 2)
    other.load_state_dict(state)
    assert run(other, 7) == wanted


def test_a_state_of_other_images_is_refused(tmp_path):
    if not _plait.features()["OPENCV"]:
        pytest.skip("this build has no codecs of images")
    (tmp_path / "a").mkdir()
    one = images(tmp_path)
    other = mx.image.ImageIter(3, (3, 12, 12), path_imgrec=write(tmp_path / "a")[1])
    with pytest.raises(AssertionError, match="one of other images"):
        other.load_state_dict(one.state_dict())


# --- the profiler


@needs_codecs
def test_the_profiler_shows_waiting_and_working_by_step(tmp_path):
    path = write(tmp_path, 12)[1]
    trace = tmp_path / "trace.json"
    iterator = mx.io.ImageRecordIter(
        path_imgrec=path, data_shape=(3, 16, 16), batch_size=4, prefetch_buffer=1
    )
    arrays = mx.io.PrefetchingIter(mx.io.NDArrayIter(np.zeros(12), None, 4))
    loader = D.DataLoader(D.SimpleDataset(list(range(12))), 4, num_workers=1)
    mx.profiler.set_config(filename=str(trace), profile_all=True)
    mx.profiler.set_state("run")
    for _ in zip(iterator, arrays, loader):
        pass
    mx.profiler.set_state("stop")
    mx.profiler.dump()
    names = [e.get("name") for e in json.loads(trace.read_text())["traceEvents"]]
    for name in (
        "ImageLoader.wait",
        "ImageLoader.rows",
        "PrefetchingIter.wait",
        "DataLoader.wait",
        "DataLoader.batch",
    ):
        assert names.count(name) >= 3, name
