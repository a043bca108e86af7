"""ImageRecordIter: MXNet's batches, seeds and threads, epochs, parts, damaged input."""

import gc
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import plait as mx
from plait import _plait, recordio
from plait.error import MXNetError, MXNetOSError, MXNetValueError

pytestmark = pytest.mark.skipif(
    not _plait.features()["OPENCV"], reason="this build has no codecs of images"
)

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/mxnet-1.9.1-iter.npz"

sys.path.insert(0, str(ROOT / "tools"))
import golden_iter  # noqa: E402


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN) as found:
        return dict(found)


def write(folder, count=10, size=(16, 20), labels=float, suffix=".png"):
    """Records whose image i has the value 10 * i everywhere, with an index."""
    paths = str(folder / "a.idx"), str(folder / "a.rec")
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        for i in range(count):
            image = np.full((*size, 3), 10 * i % 256, "uint8")
            file = _plait.encode_image(image, suffix, 9)
            writer.write_idx(i, recordio.pack((0, labels(i), i, 0), file))
    return paths


@pytest.fixture
def ten(tmp_path):
    return write(tmp_path)


def iterator(paths, **kwargs):
    defaults = {"batch_size": 4, "data_shape": (3, 12, 12), "preprocess_threads": 2}
    return mx.io.ImageRecordIter(path_imgrec=paths[1], **{**defaults, **kwargs})


def epoch(it):
    """(numbers of the images, pad) of each batch."""
    found = []
    for batch in it:
        rows = batch.data[0].asnumpy()[:, 0, 0, 0] / 10
        assert np.array_equal(rows, batch.label[0].asnumpy())
        assert list(rows) == list(batch.index)
        found.append((list(rows.astype(int)), batch.pad))
    return found


@pytest.mark.parametrize("case", golden_iter.CASES)
def test_batches_equal_those_of_mxnet(golden, case, tmp_path):
    (tmp_path / "a.rec").write_bytes(golden["rec"].tobytes())
    for name, made in golden_iter.batches(mx, tmp_path, case).items():
        wanted = golden[name]
        assert made.shape == wanted.shape and made.dtype == wanted.dtype
        if case.startswith("rotated"):  # OpenCV places pixels by 32nds
            off = np.abs(made - wanted)
            assert off.max() < 4 and off.mean() < 0.1
        else:
            assert np.array_equal(made, wanted), name


def test_an_epoch_goes_on_with_the_rows_it_borrowed(ten):
    it = iterator(ten)
    assert epoch(it) == [([0, 1, 2, 3], 0), ([4, 5, 6, 7], 0), ([8, 9, 0, 1], 2)]
    assert epoch(it) == []
    it.reset()
    it.reset()
    assert epoch(it) == [([2, 3, 4, 5], 0), ([6, 7, 8, 9], 0)]
    it.reset()
    assert next(it).label[0].asnumpy()[0] == 0
    it.reset()  # in the middle of an epoch
    assert epoch(it)[0] == ([0, 1, 2, 3], 0)


def test_without_round_batch_the_last_rows_are_zero(ten):
    it = iterator(ten, round_batch=False)
    for _ in range(2):
        batches = list(it)
        assert [b.pad for b in batches] == [0, 0, 2]
        assert batches[2].data[0].asnumpy()[2:].max() == 0
        assert list(batches[2].label[0].asnumpy()) == [8, 9, 0, 0]
        it.reset()


def test_a_batch_larger_than_the_set_repeats_it(ten):
    batches = epoch(iterator(ten, batch_size=24))
    assert batches == [([*range(10), *range(10), *range(4)], 14)]


AUGMENTED = {
    "shuffle": True,
    "rand_crop": True,
    "rand_mirror": True,
    "max_rotate_angle": 20,
    "max_aspect_ratio": 0.2,
    "max_random_scale": 1.2,
    "max_shear_ratio": 0.1,
    "brightness": 0.2,
    "contrast": 0.2,
    "saturation": 0.2,
    "random_h": 20,
    "random_s": 20,
    "random_l": 20,
    "pca_noise": 0.1,
    "max_random_contrast": 0.1,
    "max_random_illumination": 2,
    "inter_method": 10,
    "seed": 7,
}


def test_the_number_of_threads_changes_nothing(tmp_path):
    paths = write(tmp_path, 23)
    runs = []
    for threads, prefetch in ((1, 1), (2, 4), (8, 3)):
        it = iterator(
            paths, preprocess_threads=threads, prefetch_buffer=prefetch, **AUGMENTED
        )
        run = []
        for _ in range(3):
            run += [(b.data[0].asnumpy(), b.label[0].asnumpy(), b.pad) for b in it]
            it.reset()
        runs.append(run)
    for run in runs[1:]:
        assert len(run) == len(runs[0])
        for a, b in zip(run, runs[0]):
            assert all(np.array_equal(x, y) for x, y in zip(a, b))
    first, second = runs[0][0][0], runs[0][6][0]
    assert not np.array_equal(first, second)  # epochs differ


def test_a_position_in_the_middle_of_an_epoch_is_gone_on_from(tmp_path):
    paths = write(tmp_path, 23)
    it = iterator(paths, **AUGMENTED)
    for _ in it:
        pass
    it.reset()
    for _ in range(2):
        next(it)
    state = it.state_dict()
    wanted = [b.data[0].asnumpy() for b in it]
    it.reset()
    wanted += [b.data[0].asnumpy() for b in it]
    other = iterator(paths, **AUGMENTED)
    other.load_state_dict(state)
    got = [b.data[0].asnumpy() for b in other]
    other.reset()
    got += [b.data[0].asnumpy() for b in other]
    assert len(got) == len(wanted)
    assert all(np.array_equal(a, b) for a, b in zip(got, wanted))


def test_shuffling_covers_every_record_in_every_epoch(tmp_path):
    paths = write(tmp_path, 12)
    orders = []
    for seed in (1, 2):
        it = iterator(paths, shuffle=True, seed=seed)
        for _ in range(2):
            orders.append(sum((rows for rows, _ in epoch(it)), []))
            it.reset()
    assert all(sorted(order) == list(range(12)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4


@pytest.mark.parametrize("indexed", [False, True])
def test_parts_have_every_record_once(tmp_path, indexed):
    paths = write(tmp_path, 25)
    index = paths[0] if indexed else ""
    for parts in (2, 3, 7):
        seen = []
        for part in range(parts):
            it = iterator(paths, num_parts=parts, part_index=part, path_imgidx=index)
            for rows, pad in epoch(it):
                seen += rows[: len(rows) - pad]
        assert sorted(seen) == list(range(25))
    with pytest.raises(MXNetValueError, match="part_index is 2 of num_parts 2"):
        iterator(paths, num_parts=2, part_index=2)


def test_several_files_and_folders_are_one_set(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    paths = [write(tmp_path / name, 3)[1] for name in "ab"]
    assert len(iterator((None, ";".join(paths)))) == 6
    os.remove(tmp_path / "a/a.idx")
    assert len(iterator((None, str(tmp_path / "a")))) == 3


def test_labels_of_records_and_lists(tmp_path):
    paths = write(tmp_path, 4, labels=lambda i: [i, i + 0.5])
    it = iterator(paths, label_width=2)
    assert it.provide_label[0].shape == (4, 2)
    wanted = [[i, i + 0.5] for i in range(4)]
    assert np.array_equal(next(it).label[0].asnumpy(), wanted)
    with pytest.raises(
        MXNetValueError, match="image 0: it has 2 labels; label_width is"
    ):
        next(iterator(paths))
    lines = ["%d\t%f\t%f\tsome path/%d.png\n" % (i, -i, i, i) for i in range(3)]
    (tmp_path / "a.lst").write_text("".join(lines))
    it = iterator(paths, path_imglist=str(tmp_path / "a.lst"), batch_size=3)
    assert list(next(it).label[0].asnumpy()) == [0, -1, -2]
    with pytest.raises(MXNetValueError, match="image 3: the list has no entry for it"):
        next(it)
    (tmp_path / "a.lst").write_text("0\t1.0\ta.png\nnonsense\n")
    with pytest.raises(MXNetOSError, match="a.lst: line 2 is wrong"):
        iterator(paths, path_imglist=str(tmp_path / "a.lst"))


def test_the_mean_image_is_computed_and_kept(ten, tmp_path):
    path = str(tmp_path / "mean.bin")
    kwargs = {"mean_img": path, "batch_size": 5}
    first = next(iterator(ten, **kwargs)).data[0].asnumpy()
    assert list(mx.nd.load(path)) == ["mean_img"]
    np.testing.assert_allclose(mx.nd.load(path)["mean_img"].asnumpy(), 45)
    np.testing.assert_allclose(first[:, 0, 0, 0], np.arange(5) * 10 - 45)
    again = next(iterator(ten, **kwargs)).data[0].asnumpy()
    assert np.array_equal(first, again)
    with pytest.raises(MXNetValueError, match="mean image has 432 numbers; 300 were"):
        iterator(ten, data_shape=(3, 10, 10), **kwargs)


def test_a_delivered_batch_is_not_touched_again(ten):
    it = iterator(ten, prefetch_buffer=1)
    first = next(it)
    kept = first.data[0].asnumpy()
    for _ in it:
        pass
    assert np.array_equal(first.data[0].asnumpy(), kept)
    assert list(first.label[0].asnumpy()) == [0, 1, 2, 3]


def test_wrong_arguments(ten, tmp_path, caplog):
    with pytest.raises(MXNetValueError, match="batch_size is missing"):
        mx.io.ImageRecordIter(path_imgrec=ten[1], data_shape=(3, 8, 8))
    for kwargs, text in (
        ({"data_shape": (5, 8, 8)}, "5 channels"),
        ({"data_shape": (3, 8)}, "data_shape"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"resize": "many"}, "resize is 'many'"),
        ({"inter_method": 5}, "inter_method is 5"),
        ({"std_r": 0}, "deviation is 0"),
        ({"min_random_scale": 2}, "no range of scales"),
        ({"random_resized_crop": True, "rand_crop": True}, "cannot go with"),
        ({"on_error": "ignore"}, "on_error is 'ignore'"),
        ({"preprocess_threads": 0}, "preprocess_threads is 0"),
        ({"prefetch_buffer": 0}, "prefetch_buffer is 0"),
    ):
        with pytest.raises(MXNetValueError, match=text):
            iterator(ten, **kwargs)
    with pytest.raises(MXNetOSError, match="cannot be opened"):
        iterator((None, str(tmp_path / "none.rec")))
    with pytest.raises(TypeError, match="dtype int64"):
        next(iterator(ten, dtype="int64"))
    iterator(ten, and_mirror=False, data_shape="(3, 8, 8)", batch_size="2")
    assert "unknown arguments are ignored: and_mirror" in caplog.text


def damage_image(paths, number):
    """Cuts the image of a record short, but leaves the record sound."""
    reader = recordio.MXIndexedRecordIO(*paths, "r")
    records = [reader.read_idx(i) for i in reader.keys]
    records[number] = records[number][:60]
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        for i, record in enumerate(records):
            writer.write_idx(i, record)


def test_a_broken_image_is_named(ten):
    damage_image(ten, 5)
    it = iterator(ten)
    next(it)
    with pytest.raises(
        MXNetValueError, match=r"a\.rec: at offset \d+, image 5: image:"
    ):
        next(it)
    assert list(next(it).label[0].asnumpy()) == [8, 9, 0, 1]


@pytest.mark.parametrize("number", [0, 5, 9])
def test_broken_images_are_left_out_and_counted(ten, number, caplog):
    damage_image(ten, number)
    sound = [i for i in range(10) if i != number]
    for threads in (1, 3):
        it = iterator(ten, on_error="skip", preprocess_threads=threads)
        seen = []
        for _ in range(4):
            for rows, pad in epoch(it):
                seen += rows
                del pad
            it.reset()
        assert seen[:36] == sound * 4
        assert it.skipped == 1
    assert "1 records without a sound image were left out" in caplog.text
    it = iterator(ten, on_error="skip", round_batch=False, batch_size=3)
    assert [pad for _, pad in epoch(it)] == [0, 0, 0]
    # The batch that was planned for the broken record alone is none.
    if number == 9:
        it = iterator(ten, on_error="skip", batch_size=9)
        assert [len(rows) for rows, _ in epoch(it)] == [9]


def test_damaged_records_are_named_or_left_out(ten):
    data = bytearray(Path(ten[1]).read_bytes())
    reader = recordio.MXIndexedRecordIO(*ten, "r")
    data[reader.idx[5]] ^= 1
    Path(ten[1]).write_bytes(data)
    with pytest.raises(MXNetOSError, match=r"a\.rec: at offset \d+ \(record 5\)"):
        iterator(ten)
    it = iterator(ten, on_error="skip", batch_size=9)
    assert epoch(it) == [([0, 1, 2, 3, 4, 6, 7, 8, 9], 0)] and it.skipped == 1
    it = iterator(ten, path_imgidx=ten[0])
    with pytest.raises(MXNetOSError, match="no record begins here"):
        list(it)
    it = iterator(ten, path_imgidx=ten[0], on_error="skip", batch_size=9)
    assert epoch(it) == [([0, 1, 2, 3, 4, 6, 7, 8, 9], 0)]


def test_files_without_images(tmp_path):
    path = tmp_path / "a.rec"
    path.write_bytes(b"")
    with pytest.raises(MXNetOSError, match="has no records"):
        iterator((None, str(path)))
    path.write_text("this is a text file and no record file")
    with pytest.raises(MXNetOSError, match="no record file"):
        iterator((None, str(path)))
    with recordio.MXRecordIO(path, "w") as writer:
        writer.write(b"short")
    with pytest.raises(MXNetValueError, match="record of 5 bytes; at least 24"):
        next(iterator((None, str(path))))
    with pytest.raises(MXNetOSError, match="none of the 1 records has an image"):
        next(iterator((None, str(path)), on_error="skip"))


def test_iterators_leave_no_threads_and_no_memory(ten):
    def threads():
        return len(os.listdir("/proc/self/task"))

    next(iterator(ten))
    gc.collect()
    before, live = threads(), _plait.memory_stats("cpu", 0)["live"]
    for _ in range(30):
        it = iterator(ten, preprocess_threads=4)
        next(it)
    it.close()
    with pytest.raises(MXNetError, match="is closed"):
        next(it)
    del it
    gc.collect()
    mx.nd.waitall()
    assert threads() == before
    assert _plait.memory_stats("cpu", 0)["live"] <= live + 1024


def test_leaving_early_and_ending_is_quiet(ten):
    code = (
        "import mxnet as mx\n"
        "shape = (3, 8, 8)\n"
        "it = mx.io.ImageRecordIter(path_imgrec=%r, data_shape=shape, batch_size=2)\n"
        "for batch in it: break\n" % ten[1]
    )
    env = dict(os.environ, PYTHONPATH="")
    env["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT / "python/alias"), *(p for p in sys.path if p)]
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, timeout=60
    )
    assert done.returncode == 0 and done.stderr == b""


def test_a_forked_child_is_told_to_make_its_own(ten):
    it = iterator(ten)
    next(it)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            next(it)
        except MXNetError as error:
            status = 0 if "before a fork" in str(error) else 2
        own = iterator(ten)
        os._exit(status or (next(own) is None))
    assert os.waitpid(child, 0)[1] == 0
    assert len(epoch(it)) == 2


def test_the_profiler_shows_how_long_batches_were_waited_for(ten, tmp_path):
    path = str(tmp_path / "trace.json")
    mx.profiler.set_config(filename=path, profile_all=True)
    mx.profiler.set_state("run")
    for _ in iterator(ten):
        pass
    mx.profiler.set_state("stop")
    mx.profiler.dump()
    events = json.loads(Path(path).read_text())["traceEvents"]
    assert sum(e.get("name") == "ImageLoader.wait" for e in events) >= 3


def test_a_module_trains_from_records(tmp_path):
    paths = write(tmp_path, 20, labels=lambda i: float(i >= 10))
    it = iterator(paths, batch_size=5, scale=1 / 128, mean_r=95, mean_g=95, mean_b=95)
    net = mx.sym.FullyConnected(mx.sym.Flatten(mx.sym.Variable("data")), num_hidden=2)
    module = mx.mod.Module(mx.sym.SoftmaxOutput(net, name="softmax"))
    logging.disable(logging.INFO)
    mx.random.seed(1)
    module.fit(it, num_epoch=8, optimizer_params={"learning_rate": 0.05})
    logging.disable(logging.NOTSET)
    assert module.score(it, "acc")[0][1] == 1
