"""How much is made ahead: bounded by bytes, and memory that stays flat over epochs."""

import gc
import os

import numpy as np
import pytest

import plait as mx
from plait import _plait, recordio
from plait.gluon import data as D
from plait.gluon.data.vision import transforms as T

needs_codecs = pytest.mark.skipif(
    not _plait.features()["OPENCV"], reason="this build has no codecs of images"
)


def live():
    """Bytes of all arrays."""
    gc.collect()
    mx.nd.waitall()
    return _plait.memory_stats("cpu", 0)["live"]


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def write(folder, count):
    """A record file of images."""
    index, path = str(folder / "a.idx"), str(folder / "a.rec")
    with recordio.MXIndexedRecordIO(index, path, "w") as writer:
        for i in range(count):
            picture = np.full((40, 50, 3), 5 * i, "uint8")
            writer.write_idx(i, recordio.pack_img((0, float(i), i, 0), picture))
    return path


def test_no_more_batches_are_begun_than_the_bytes_hold():
    begun = []

    class Noting(D.SimpleDataset):
        def __getitem__(self, i):
            begun.append(i)
            return np.zeros(1000, "float32")

    loader = D.DataLoader(
        Noting(list(range(40))), 1, num_workers=2, prefetch=10, prefetch_bytes=8000
    )
    for _ in range(2):  # also before it is known how large batches are
        begun.clear()
        for number, _ in enumerate(loader):
            assert len(begun) <= number + 3  # two ahead of the one in hand
        assert sorted(begun) == list(range(40))


def keep(samples):
    return samples


@pytest.mark.parametrize("processes", [False, True])
def test_the_first_batch_is_made_alone_and_the_largest_counts(processes):
    class Growing(D.SimpleDataset):
        def __getitem__(self, i):
            return {"x": np.zeros(1000 if i == 3 else 1, "float32")}

    loader = D.DataLoader(
        Growing(list(range(40))),
        1,
        batchify_fn=keep,
        num_workers=1,
        prefetch=10,
        prefetch_bytes=8000,
        thread_pool=not processes,
    )
    epoch = iter(loader)
    under_way = [len(epoch._tickets)]
    for _ in range(20):
        next(epoch)
        under_way.append(len(epoch._tickets))
    assert under_way[:4] == [1, 10, 10, 10]
    assert under_way[-1] == 2


def test_batches_larger_than_the_bytes_come_one_by_one():
    data = D.SimpleDataset(np.zeros((9, 100), "float32"))
    loader = D.DataLoader(data, 2, num_workers=2, prefetch=8, prefetch_bytes=1)
    epoch = iter(loader)
    for batch in epoch:
        assert batch.shape[1] == 100 and len(epoch._tickets) <= 1
    assert len(list(D.DataLoader(data, 2, num_workers=2, prefetch=0))) == 5


def test_sparse_batches_count_with_their_parts():
    csr = mx.nd.array(np.eye(4, dtype="float32")).tostype("csr")
    count = D.dataloader._bytes_of
    assert count([csr, {"x": np.zeros(3)}]) == 4 * 4 + 4 * 8 + 5 * 8 + 24


@needs_codecs
def test_an_image_iterator_keeps_no_more_than_its_bytes(tmp_path):
    path, batch = write(tmp_path, 40), 4 * 3 * 64 * 64 * 4
    before = live()
    iterator = mx.io.ImageRecordIter(
        path_imgrec=path,
        data_shape=(3, 64, 64),
        batch_size=4,
        resize=64,
        prefetch_buffer=1000,
        prefetch_bytes=3 * batch,
    )
    most = 0
    for _ in range(3):
        iterator.reset()
        for _ in iterator:
            most = max(most, _plait.memory_stats("cpu", 0)["live"] - before)
    # Three ahead, the one in hand and the one before it, with labels.
    assert 2 * batch <= most <= 5 * batch + 4096


@needs_codecs
def test_memory_stays_flat_over_ten_epochs(tmp_path):
    path = write(tmp_path, 24)
    iterator = mx.io.ImageRecordIter(
        path_imgrec=path, data_shape=(3, 96, 96), batch_size=8, resize=96
    )
    transform = T.Compose([T.RandomResizedCrop(96), T.ToTensor()])
    dataset = D.vision.ImageRecordDataset(path).transform_first(transform)
    loaders = [
        D.DataLoader(dataset, 8, True, num_workers=2),
        D.DataLoader(dataset, 8, True, num_workers=1, thread_pool=False),
    ]
    arrays = mx.io.NDArrayIter(np.zeros((64, 1000), "float32"), None, 8, True)

    def epoch():
        for batches in (iterator, arrays):
            batches.reset()
            for batch in batches:
                batch.data[0].wait_to_read()
        for loader in loaders:
            for images, _ in loader:
                images.wait_to_read()

    for _ in range(3):
        epoch()
    before, arrays_before = resident(), live()
    for _ in range(10):
        epoch()
    assert live() <= arrays_before + 2 * 8 * 3 * 96 * 96 * 4  # two batches
    assert resident() - before < 8 << 20  # a batch has 0.9 MB
