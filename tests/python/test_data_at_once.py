"""Batches that C++ makes at once equal those that Python makes sample by sample, and a
loader goes on where it was.
"""

import json
import pickle
import random

import numpy as np
import pytest

import plait as mx
from plait import _plait, recordio
from plait.error import MXNetError
from plait.gluon import data as D
from plait.gluon.data import batchify
from plait.gluon.data.vision import transforms as T

CODECS = _plait.features()["OPENCV"]
needs_codecs = pytest.mark.skipif(not CODECS, reason="this build has no codecs")


def one_by_one(samples):
    """The default batchify, as somebody else's function."""
    return D.dataloader.default_batchify_fn(samples)


def at_once(dataset):
    """Whether C++ makes its batches."""
    make = batchify.BatchMaker(dataset, batchify.default_batchify_fn)
    return make._source is not None


def epochs(dataset, count=2, **kwargs):
    np.random.seed(5)
    loader = D.DataLoader(dataset, **{"batch_size": 4, "shuffle": True, **kwargs})
    return [batch for _ in range(count) for batch in loader]


def flat(batch):
    return batch if isinstance(batch, (list, tuple)) else [batch]


def assert_equal(some, others):
    assert len(some) == len(others) > 0
    for a, b in zip(some, others):
        assert isinstance(a, list) == isinstance(b, list)
        for x, y in zip(flat(a), flat(b), strict=True):
            assert x.dtype == y.dtype
            assert np.array_equal(x.asnumpy(), y.asnumpy())


def compare(dataset, **kwargs):
    assert at_once(dataset)
    fast = epochs(dataset, **kwargs)
    assert_equal(fast, epochs(dataset, batchify_fn=one_by_one, **kwargs))
    return fast


PIPELINES = {
    "nothing": [],
    "to tensor": [T.ToTensor()],
    "normalised": [T.ToTensor(), T.Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.25])],
    "one mean": [T.ToTensor(), T.Normalize(0.13, 0.31)],
    "half": [T.ToTensor(), T.Normalize(0.13, 0.31), T.Cast("float16")],
    "cast": [T.Resize((12, 9)), T.Cast("float32")],
    "cast first": [T.Cast("float32"), T.ToTensor()],
    "training": [
        T.RandomResizedCrop(10),
        T.RandomFlipLeftRight(),
        T.RandomFlipTopBottom(),
        T.ToTensor(),
        T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ],
    "any method": [T.RandomResizedCrop((9, 8), (0.2, 0.9), (0.5, 2), 10)],
    "by area": [T.RandomResizedCrop((3, 4), 0.5, interpolation=9), T.ToTensor()],
    "never fits": [T.RandomResizedCrop(10, (0.99, 1), (30, 40))],
    "middle": [T.Resize(16, keep_ratio=True), T.CenterCrop(11), T.ToTensor()],
    "middle cubic": [T.Resize(30, True, 2), T.CenterCrop((7, 9))],
    "shrunk by area": [T.Resize(8, True, 3), T.CenterCrop(6), T.ToTensor()],
    "enlarged": [T.CenterCrop((40, 10)), T.RandomFlipLeftRight()],
    "antialiased": [T.RandomResizedCrop(6, interpolation=2, antialias=True)],
    "antialiased middle": [T.Resize(9, True, antialias=True), T.CenterCrop(8)],
    "crop": [T.CropResize(2, 1, 9, 8), T.RandomFlipTopBottom(), T.ToTensor()],
    "crop and resize": [T.CropResize(2, 1, 9, 8, (5, 6), 1), T.ToTensor()],
}


def pictures(count=11, height=18, width=21, channels=3):
    random = np.random.RandomState(0)
    low = random.randint(0, 256, (count, 7, 7, channels)).astype("uint8")
    out = np.empty((count, height, width, channels), "uint8")
    for x, y in zip(low, out):
        _plait.resize_image(x, y, 1)
    return mx.nd.array(out, dtype="uint8")


@pytest.mark.parametrize("name", PIPELINES)
def test_images_of_arrays(name):
    dataset = D.ArrayDataset(pictures(), np.arange(11, dtype="int32"))
    compare(dataset.transform_first(T.Compose(PIPELINES[name])))


def write_jpegs(folder, sizes, orientations=()):
    """Image files and records of pictures of these sizes."""
    paths = str(folder / "a.idx"), str(folder / "a.rec")
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        for i, size in enumerate(sizes):
            kind = ".png" if i % 4 == 3 else ".jpg"
            file = _plait.encode_image(
                pictures(1, *size)[0].asnumpy(), kind, 9 if i % 4 else 92
            )
            if i in orientations and kind == ".jpg":
                file = file[:2] + exif(orientations[i]) + file[2:]
            (folder / ("c%d" % (i % 2))).mkdir(exist_ok=True)
            (folder / ("c%d" % (i % 2)) / ("%02d%s" % (i, kind))).write_bytes(file)
            writer.write_idx(i, recordio.pack((0, i + 0.1, i, 0), file))
    return paths


def exif(orientation):
    tiff = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0" + bytes([orientation, 0])
    body = b"Exif\0\0" + tiff + bytes(6)
    return b"\xff\xe1" + (len(body) + 2).to_bytes(2, "big") + body


FIXED = [name for name in PIPELINES if PIPELINES[name] and name not in (
    "to tensor", "normalised", "one mean", "half", "cast first"
)]  # fmt: skip


@needs_codecs
@pytest.mark.parametrize("name", FIXED)
def test_images_of_records_and_files(name, tmp_path):
    sizes = [(30 + i, 41 - i) for i in range(9)]
    paths = write_jpegs(tmp_path, sizes, {2: 6, 4: 3})
    transform = T.Compose(PIPELINES[name])
    records = D.vision.ImageRecordDataset(paths[1])
    compare(records.transform_first(transform))
    with pytest.warns(UserWarning):
        files = D.vision.ImageFolderDataset(str(tmp_path))
    compare(files.transform_first(transform))
    compare(D.vision.ImageRecordDataset(paths[1], 0).transform_first(
        T.Compose(PIPELINES[name][:2])
    ))  # fmt: skip


@needs_codecs
@pytest.mark.parametrize("labels", [lambda i: float(i), lambda i: np.arange(3.0) + i])
def test_labels_of_records(labels, tmp_path):
    paths = str(tmp_path / "a.idx"), str(tmp_path / "a.rec")
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        for i, image in enumerate(pictures(6).asnumpy()):
            file = _plait.encode_image(image, ".png", 1)
            writer.write_idx(i, recordio.pack((0, labels(i), i, 0), file))
    compare(D.vision.ImageRecordDataset(paths[1]))


def test_views_and_other_columns():
    images = pictures(20)
    dataset = D.ArrayDataset(images, list(range(20)), [0.5 * i for i in range(20)])
    chosen = dataset.take(17).shard(2, 1).transform_first(T.ToTensor())
    compare(chosen)
    compare(dataset.transform_first(T.Resize(5)).shard(3, 0))
    compare(D.ArrayDataset(np.random.rand(9, 3), mx.nd.arange(9)))
    compare(D.ArrayDataset(images).transform_first(T.RandomFlipLeftRight()))


@pytest.mark.parametrize(
    "workers",
    [{}, {"num_workers": 2}, {"num_workers": 3, "prefetch": 8, "thread_pool": False}],
)
def test_workers_change_nothing(workers):
    data = D.ArrayDataset(pictures(), list(range(11)))
    data = data.transform_first(T.Compose(PIPELINES["training"]))
    wanted = epochs(data)
    assert_equal(wanted, epochs(data, **workers))
    assert_equal(wanted, epochs(data, batchify_fn=one_by_one, **workers))
    first, second = wanted[:3], wanted[3:]
    assert not np.array_equal(first[0][0].asnumpy(), second[0][0].asnumpy())


class Doubled(D.ArrayDataset):
    def __getitem__(self, i):
        return 2 * super().__getitem__(i)


class Brighter(T.Resize):
    def forward(self, x):
        return super().forward(x) + 1


def test_what_is_not_known_is_left_to_python():
    images = D.ArrayDataset(pictures())
    hooked = T.ToTensor()
    hooked.register_forward_hook(lambda *_: None)
    for other in (
        Doubled(pictures()),
        images.transform_first(Brighter(8)),
        images.transform_first(T.RandomBrightness(0.1)),
        images.transform_first(lambda x: x),
        images.transform(lambda x: x),
        images.transform_first(hooked),
        images.transform_first(T.Compose([T.ToTensor(), T.RandomFlipLeftRight()])),
        D.SimpleDataset([1, 2, 3]),
    ):
        assert not at_once(other)
    doubled = next(iter(D.DataLoader(Doubled(np.ones((4, 2))), 4)))
    assert (doubled.asnumpy() == 2).all()


def test_numbers_outside_are_errors_and_negative_ones_count_from_the_end():
    data = D.ArrayDataset(np.arange(5))
    loader = D.DataLoader(data, batch_sampler=[[0, -1], [7, 1]])
    batches = iter(loader)
    assert next(batches).asnumpy().tolist() == [0, 4]
    with pytest.raises(IndexError):
        next(batches)


@needs_codecs
def test_different_shapes_and_broken_files_are_errors(tmp_path):
    paths = write_jpegs(tmp_path, [(20, 20), (20, 21)])
    data = D.vision.ImageRecordDataset(paths[1])
    with pytest.raises(MXNetError):
        next(iter(D.DataLoader(data, 2)))
    with open(paths[1], "r+b") as file:
        file.seek(int(open(paths[0]).read().split()[3]) + 300)
        file.truncate()
    data = D.vision.ImageRecordDataset(paths[1]).transform_first(T.CenterCrop(5))
    assert at_once(data)
    for workers in (0, 2):
        with pytest.raises(MXNetError, match="a.rec"):
            next(iter(D.DataLoader(data, 2, num_workers=workers)))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("last", ["keep", "rollover"])
@pytest.mark.parametrize("stop", range(7))
def test_a_loader_goes_on_where_it_was(workers, last, stop):
    data = D.ArrayDataset(pictures(), list(range(11)))
    data = data.transform_first(T.Compose(PIPELINES["training"]))

    def make():
        return D.DataLoader(data, 4, True, last_batch=last, num_workers=workers)

    def run(loader, batches, iterator=None):
        found = []
        while len(found) < batches:
            iterator = iterator or iter(loader)
            batch = next(iterator, None)
            if batch is None:
                iterator = None
            else:
                found.append(batch)
        return found, iterator

    np.random.seed(1)
    random.seed(1)
    loader = make()
    _, iterator = run(loader, stop)
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    wanted, _ = run(loader, 6, iterator)
    np.random.seed(2)
    resumed = make()
    resumed.load_state_dict(state)
    assert resumed.state_dict()["epoch"] == state["epoch"]
    found, _ = run(resumed, 6)
    assert_equal(found, wanted)


def test_waiting_for_input_is_shown_by_the_profiler(tmp_path):
    data = D.ArrayDataset(pictures()).transform_first(T.ToTensor())
    name = tmp_path / "profile.json"
    mx.profiler.set_config(profile_all=True, filename=str(name))
    mx.profiler.set_state("run")
    list(D.DataLoader(data, 4, num_workers=1))
    mx.profiler.set_state("stop")
    mx.profiler.dump()
    events = json.loads(name.read_text())["traceEvents"]
    assert sum(e["name"] == "DataLoader.wait" for e in events) >= 3


@pytest.mark.parametrize("last", ["pad", "discard", "roll_over"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("stop", range(6))
def test_an_array_iterator_goes_on_where_it_was(last, shuffle, stop):
    def make():
        data, label = np.arange(22.0).reshape(11, 2), np.arange(11.0)
        return mx.io.NDArrayIter(data, label, 4, shuffle, last)

    def run(iterator, batches):
        found = []
        while len(found) < batches:
            try:
                batch = iterator.next()
            except StopIteration:
                iterator.reset()
                continue
            found.append((batch.pad, [batch.data[0], batch.label[0]]))
        return found

    np.random.seed(1)
    iterator = make()
    run(iterator, stop)
    state = pickle.loads(pickle.dumps(iterator.state_dict()))
    wanted = run(iterator, 6)
    np.random.seed(2)
    resumed = make()
    resumed.load_state_dict(state)
    found = run(resumed, 6)
    assert [pad for pad, _ in found] == [pad for pad, _ in wanted]
    assert_equal([arrays for _, arrays in found], [arrays for _, arrays in wanted])
    with pytest.raises(ValueError, match="a state of 11 rows"):
        mx.io.NDArrayIter(np.zeros(5)).load_state_dict(state)
