"""Data sets, samplers, and DataLoader without workers and with threads."""

import gc
import gzip
import threading
import time

import numpy as np
import pytest

import plait as mx
from plait import gluon, nd
from plait.gluon import data as D


def test_array_data_sets():
    x, y = np.arange(6.0).reshape(3, 2), nd.array([5, 6, 7])
    pairs = D.ArrayDataset(x, y)
    assert len(pairs) == 3 and pairs[1][0].tolist() == [2, 3] and pairs[1][1] == 6
    assert D.ArrayDataset(x)[2].tolist() == [4, 5]
    with pytest.raises(AssertionError, match="same length"):
        D.ArrayDataset(x, [1])
    with pytest.raises(AssertionError, match="at least 1"):
        D.ArrayDataset()


def test_views_of_data_sets():
    base = D.SimpleDataset(list(range(10)))
    assert list(base.filter(lambda x: x % 3 == 0)) == [0, 3, 6, 9]
    assert list(base.take(3)) == [0, 1, 2] and len(base.take(None)) == 10
    parts = [list(base.shard(3, i)) for i in range(3)]
    assert parts == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]
    assert list(base.sample(D.SequentialSampler(2, 4))) == [4, 5]
    assert list(base.transform(lambda x: -x).take(2)) == [0, -1]
    pairs = D.SimpleDataset([(1, 2), (3, 4)])
    assert pairs.transform(lambda a, b: a * b)[1] == 12
    assert pairs.transform_first(lambda a: -a)[1] == (-3, 4)
    calls = []
    eager = base.transform(lambda x: calls.append(x) or x, lazy=False)
    assert len(calls) == 10 and eager[3] == 3
    with pytest.raises(AssertionError, match="Shard index"):
        base.shard(3, 3)
    with pytest.raises(TypeError, match="Invalid sampler"):
        base.sample([1])


def test_samplers():
    assert list(D.SequentialSampler(3, 5)) == [5, 6, 7]
    order = list(D.RandomSampler(20))
    assert sorted(order) == list(range(20)) != order
    assert list(D.FilterSampler(lambda x: x > 2, [1, 3, 5])) == [1, 2]
    numbers = D.SequentialSampler(5)
    assert list(D.BatchSampler(numbers, 2)) == [[0, 1], [2, 3], [4]]
    assert len(D.BatchSampler(numbers, 2)) == 3
    assert list(D.BatchSampler(numbers, 2, "discard")) == [[0, 1], [2, 3]]
    rolling = D.BatchSampler(numbers, 2, "rollover")
    assert list(rolling) == [[0, 1], [2, 3]] and len(rolling) == 3
    assert list(rolling) == [[4, 0], [1, 2], [3, 4]]
    with pytest.raises(ValueError, match="last_batch"):
        len(D.BatchSampler(numbers, 2, "odd"))
    every = gluon.contrib.data.IntervalSampler
    assert list(every(5, 2)) == [0, 2, 4, 1, 3]
    assert list(every(5, 2, rollover=False)) == [0, 2, 4]


def values(loader):
    return [batch.asnumpy().tolist() for batch in loader]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_come_in_order(workers):
    loader = D.DataLoader(D.SimpleDataset(np.arange(7)), 3, num_workers=workers)
    for _ in range(2):
        assert values(loader) == [[0, 1, 2], [3, 4, 5], [6]]
    assert len(loader) == 3


def test_batches_keep_kinds_and_dtypes():
    x = np.arange(4, dtype=np.float64).reshape(4, 1)
    y = np.arange(4, dtype=np.int32)
    for data in (D.ArrayDataset(x, y), D.SimpleDataset(list(zip(x, y)))):
        batch_x, batch_y = next(iter(D.DataLoader(data, 2)))
        assert batch_x.dtype == np.float64 and batch_y.dtype == np.int32
        assert batch_x.shape == (2, 1) and batch_y.asnumpy().tolist() == [0, 1]
    arrays = D.SimpleDataset([nd.array([i, i], dtype="uint8") for i in range(4)])
    batch = next(iter(D.DataLoader(arrays, 4)))
    assert batch.dtype == np.uint8 and batch.shape == (4, 2)


def test_gathered_batches_equal_stacked_ones():
    data = D.ArrayDataset(np.random.rand(10, 3).astype("float32"), np.arange(10))
    fast = D.DataLoader(data, 4)
    slow = D.DataLoader(data.transform(lambda a, b: (a, b)), 4)
    for (a, b), (c, d) in zip(fast, slow):
        assert (a.asnumpy() == c.asnumpy()).all() and (b.asnumpy() == d.asnumpy()).all()
        assert a.dtype == c.dtype and b.dtype == d.dtype


def test_shuffling_follows_the_seed_whatever_the_workers():
    data = D.SimpleDataset(np.arange(50))
    orders = []
    for workers in (0, 3):
        np.random.seed(5)
        loader = D.DataLoader(data, 10, shuffle=True, num_workers=workers)
        orders.append([values(loader), values(loader)])
    assert orders[0] == orders[1] and orders[0][0] != orders[0][1]


def test_own_batchify_and_batch_sampler():
    sampler = D.BatchSampler(D.SequentialSampler(4), 2)
    loader = D.DataLoader(
        D.SimpleDataset([1, 2, 3, 4]),
        batch_sampler=sampler,
        batchify_fn=lambda batch: sum(batch),
    )
    assert list(loader) == [3, 7]


def test_wrong_arguments():
    data = D.SimpleDataset([1])
    with pytest.raises(ValueError, match="batch_size must be specified"):
        D.DataLoader(data)
    with pytest.raises(ValueError, match="shuffle must not"):
        D.DataLoader(data, 1, shuffle=True, sampler=D.SequentialSampler(1))
    with pytest.raises(ValueError, match="must not be specified"):
        D.DataLoader(data, 1, batch_sampler=D.BatchSampler(D.SequentialSampler(1), 1))
    with pytest.raises(ValueError, match="timeout"):
        D.DataLoader(data, 1, timeout=0)
    with pytest.raises(ValueError, match="start_method"):
        D.DataLoader(data, 1, start_method="magic")


class Slow(D.Dataset):
    """Its samples take a while."""

    def __len__(self):
        return 4

    def __getitem__(self, i):
        time.sleep(0.5)
        return i


class Broken(D.Dataset):
    """Its fourth sample cannot be read."""

    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i == 3:
            raise KeyError("sample three is lost")
        return i


def test_threads_pass_errors_on_and_go_on():
    loader = D.DataLoader(Broken(), 2, num_workers=2)
    iterator = iter(loader)
    assert next(iterator).asnumpy().tolist() == [0, 1]
    with pytest.raises(KeyError, match="sample three is lost"):
        next(iterator)


def test_threads_time_out():
    loader = D.DataLoader(Slow(), 2, num_workers=1, timeout=0.1)
    with pytest.raises(TimeoutError, match="0.1 seconds"):
        next(iter(loader))
    with pytest.raises(mx.MXNetError):
        next(iter(loader))


def test_leaving_early_leaves_no_threads():
    gc.collect()  # loaders of the tests before
    loader = D.DataLoader(D.SimpleDataset(np.arange(1000)), 2, num_workers=3)
    for _ in loader:
        break
    del loader
    deadline = time.time() + 5
    while any(t.name.startswith("plait-data") for t in threading.enumerate()):
        assert time.time() < deadline
        time.sleep(0.01)


def test_auto_reload_prepares_the_next_epoch():
    seen = []

    class Noting(D.SimpleDataset):
        def __getitem__(self, i):
            seen.append(i)
            return super().__getitem__(i)

    loader = D.DataLoader(Noting(list(range(4))), 2, num_workers=1, auto_reload=True)

    def wait_for(count):
        deadline = time.time() + 60
        while len(seen) < count and time.time() < deadline:
            time.sleep(0.01)
        assert len(seen) == count  # before anyone asked

    wait_for(2)  # one batch, which tells how large they are
    assert values(loader) == [[0, 1], [2, 3]]
    wait_for(8)
    assert values(loader) == [[0, 1], [2, 3]]


def test_pinned_batches_are_on_pinned_memory():
    loader = D.DataLoader(D.SimpleDataset(np.arange(4)), 2, pin_memory=True)
    assert next(iter(loader)).context == mx.cpu_pinned(0)


def idx(values):
    import struct

    values = np.asarray(values, np.uint8)
    head = struct.pack(">BBBB", 0, 0, 8, values.ndim)
    return head + struct.pack(">%dI" % values.ndim, *values.shape) + values.tobytes()


@pytest.mark.parametrize("kind", [D.vision.MNIST, D.vision.FashionMNIST])
def test_mnist_files(tmp_path, kind):
    with pytest.raises(FileNotFoundError, match="Plait downloads nothing"):
        kind(root=str(tmp_path))
    images = np.random.randint(0, 256, (5, 28, 28))
    for part in ("train", "t10k"):
        with gzip.open(tmp_path / (part + "-images-idx3-ubyte.gz"), "wb") as f:
            f.write(idx(images))
        (tmp_path / (part + "-labels-idx1-ubyte")).write_bytes(idx(np.arange(5)))
    data = kind(root=str(tmp_path), train=False)
    picture, label = data[3]
    assert picture.shape == (28, 28, 1) and picture.dtype == np.uint8 and label == 3
    assert (picture.asnumpy()[:, :, 0] == images[3]).all()
    batch, labels = next(iter(D.DataLoader(data, 5)))
    assert batch.shape == (5, 28, 28, 1) and labels.dtype == np.int32
    doubled = kind(root=str(tmp_path), transform=lambda x, y: (x, 2 * y))
    assert doubled[2][1] == 4


def test_cifar_files(tmp_path):
    records = np.random.randint(0, 256, (4, 3073)).astype(np.uint8)
    with pytest.raises(FileNotFoundError, match="test_batch.bin"):
        D.vision.CIFAR10(root=str(tmp_path), train=False)
    records.tofile(tmp_path / "test_batch.bin")
    data = D.vision.CIFAR10(root=str(tmp_path), train=False)
    picture, label = data[1]
    assert label == records[1, 0] and picture.shape == (32, 32, 3)
    planes = records[1, 1:].reshape(3, 32, 32)
    assert (picture.asnumpy() == planes.transpose(1, 2, 0)).all()
    records = np.random.randint(0, 256, (2, 3074)).astype(np.uint8)
    records.tofile(tmp_path / "test.bin")
    for fine in (False, True):
        data = D.vision.CIFAR100(str(tmp_path), fine_label=fine, train=False)
        assert data[0][1] == records[0, int(fine)]
    (tmp_path / "test_batch.bin").write_bytes(b"xx")
    with pytest.raises(OSError, match="no multiple of 3073"):
        D.vision.CIFAR10(root=str(tmp_path), train=False)


def test_cifar_from_its_archive(tmp_path):
    import io
    import tarfile

    content = np.zeros(3073, np.uint8).tobytes()
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as tar:
        info = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    assert len(D.vision.CIFAR10(root=str(tmp_path), train=False)) == 1
