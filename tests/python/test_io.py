"""Data iterators: batches from arrays, idx and CSV files."""

import gc
import gzip
import struct
import threading

import numpy as np
import pytest

import plait as mx
from plait import nd

IO = mx.io


def rows(iterator, column=0):
    return [batch.data[0].asnumpy()[:, column].tolist() for batch in iterator]


def test_last_batches():
    data = np.arange(10.0).reshape(5, 2)
    pad = IO.NDArrayIter(data, batch_size=2)
    assert rows(pad) == [[0, 2], [4, 6], [8, 0]]
    pad.reset()
    assert [batch.pad for batch in pad] == [0, 0, 1]
    discard = IO.NDArrayIter(data, batch_size=2, last_batch_handle="discard")
    assert rows(discard) == [[0, 2], [4, 6]]
    roll = IO.NDArrayIter(data, batch_size=2, last_batch_handle="roll_over")
    assert rows(roll) == [[0, 2], [4, 6]]
    roll.reset()
    first = roll.next()
    assert first.data[0].asnumpy()[:, 0].tolist() == [8, 0] and first.pad == 1
    assert rows(roll) == [[2, 4], [6, 8]]
    with pytest.raises(ValueError, match="last_batch_handle"):
        IO.NDArrayIter(data, last_batch_handle="odd")


def test_padding_may_wrap_several_times():
    iterator = IO.NDArrayIter(np.arange(3.0), batch_size=8)
    batch = iterator.next()
    assert batch.data[0].asnumpy().tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert batch.pad == 5


def test_shuffle_keeps_rows_together():
    data, label = np.arange(20.0).reshape(20, 1), np.arange(20.0)
    iterator = IO.NDArrayIter(data, label, 4, shuffle=True)
    orders = []
    for _ in range(2):
        order = []
        for batch in iterator:
            x, y = batch.data[0].asnumpy()[:, 0], batch.label[0].asnumpy()
            assert (x == y).all()
            order += x.tolist()
        orders.append(order)
        iterator.reset()
    assert sorted(orders[0]) == sorted(orders[1]) == label.tolist()
    assert orders[0] != orders[1] != label.tolist()


def test_names_of_several_arrays():
    iterator = IO.NDArrayIter([np.ones((4, 2)), np.ones((4, 3))], np.ones(4), 2)
    assert [d.name for d in iterator.provide_data] == ["_0_data", "_1_data"]
    assert iterator.provide_label[0].name == "softmax_label"
    assert iterator.provide_data[1].shape == (2, 3)
    named = IO.NDArrayIter({"b": np.ones((2, 1)), "a": np.zeros((2, 1))})
    assert [d.name for d in named.provide_data] == ["a", "b"]


def test_a_delivered_batch_is_the_callers():
    data = nd.array(np.arange(4.0))
    iterator = IO.NDArrayIter(data, batch_size=2)
    first = iterator.next().data[0]
    iterator.next()
    assert first.asnumpy().tolist() == [0, 1]
    first[:] = 9
    assert data.asnumpy().tolist() == [0, 1, 2, 3]


def test_batch_axis_by_layout():
    iterator = IO.NDArrayIter(nd.ones((7, 4, 3)), batch_size=2, layout="TNC")
    assert [b.data[0].shape for b in iterator] == [(7, 2, 3), (7, 2, 3)]


def test_wrong_data():
    with pytest.raises(TypeError, match="Input must be"):
        IO.NDArrayIter(3)
    with pytest.raises(TypeError, match="Invalid type"):
        IO.NDArrayIter({"data": object()})
    with pytest.raises(AssertionError, match="data is missing"):
        IO.NDArrayIter(None)
    with pytest.raises(AssertionError, match="Data must be list"):
        IO.DataBatch(data=3)


def test_descriptions():
    desc = IO.DataDesc("data", (2, 3), np.float16, "NC")
    assert desc == ("data", (2, 3)) and desc.dtype is np.float16
    assert IO.DataDesc.get_batch_axis("TNC") == 1
    listed = IO.DataDesc.get_list([("a", (1,))], [("a", np.int32)])
    assert listed[0].dtype is np.int32


def test_resize_iter_starts_over():
    inner = IO.NDArrayIter(np.arange(4.0).reshape(4, 1), batch_size=2)
    longer = IO.ResizeIter(inner, 3)
    assert rows(longer) == [[0, 1], [2, 3], [0, 1]]
    longer.reset()
    assert len(rows(longer)) == 3


def test_prefetching_joins_iterators():
    def make():
        return IO.NDArrayIter(np.arange(6.0).reshape(6, 1), np.arange(6.0), 2)

    both = IO.PrefetchingIter(
        [make(), make()],
        rename_data=[{"data": "a"}, {"data": "b"}],
        rename_label=[{"softmax_label": "x"}, {"softmax_label": "y"}],
    )
    assert [d.name for d in both.provide_data + both.provide_label] == list("abxy")
    for _ in range(2):
        seen = [[d.asnumpy()[0, 0] for d in batch.data] for batch in both]
        assert seen == [[0, 0], [2, 2], [4, 4]]
        both.reset()


def test_prefetching_passes_errors_on():
    class Broken(IO.DataIter):
        provide_data = [IO.DataDesc("data", (1, 1))]
        provide_label = []

        def next(self):
            raise OSError("disk on fire")

    iterator = IO.PrefetchingIter(Broken(1))
    with pytest.raises(OSError, match="disk on fire"):
        iterator.next()


def test_prefetching_leaves_no_threads():
    gc.collect()  # iterators of the tests before
    before = threading.active_count()
    for _ in range(20):
        iterator = IO.PrefetchingIter(IO.NDArrayIter(np.ones((4, 1)), batch_size=2))
        iterator.next()
        del iterator
    for thread in threading.enumerate():
        if thread.name.startswith("plait-prefetch"):
            thread.join(5)
    assert threading.active_count() <= before


def idx(values):
    values = np.asarray(values, np.uint8)
    head = struct.pack(">BBBB", 0, 0, 8, values.ndim)
    return head + struct.pack(">%dI" % values.ndim, *values.shape) + values.tobytes()


@pytest.fixture
def mnist(tmp_path):
    images = np.arange(10 * 2 * 3).reshape(10, 2, 3)
    (tmp_path / "images").write_bytes(idx(images))
    with gzip.open(tmp_path / "labels", "wb") as f:
        f.write(idx(np.arange(10)))
    return images, dict(image=str(tmp_path / "images"), label=str(tmp_path / "labels"))


def test_mnist_iter(mnist):
    images, files = mnist
    iterator = IO.MNISTIter(batch_size=4, shuffle=False, **files)
    assert iterator.provide_data[0].shape == (4, 1, 2, 3)
    batches = list(iterator)
    assert len(batches) == 2
    data, label = batches[1].data[0].asnumpy(), batches[1].label[0].asnumpy()
    assert label.tolist() == [4, 5, 6, 7]
    assert (data[:, 0] == images[4:8].astype("float32") / 256).all()
    iterator.reset()
    assert iterator.iter_next() and iterator.getlabel().asnumpy()[0] == 0


def test_mnist_iter_shuffles_once_and_cuts_parts(mnist):
    _, files = mnist
    iterator = IO.MNISTIter(batch_size=10, shuffle="True", flat="1", seed=3, **files)
    first = next(iterator)
    assert first.data[0].shape == (10, 6)
    iterator.reset()
    again = next(iterator).label[0].asnumpy().tolist()
    assert again == first.label[0].asnumpy().tolist() != sorted(again)
    part = IO.MNISTIter(batch_size=1, shuffle=0, num_parts=3, part_index=1, **files)
    assert [b.label[0].asscalar() for b in part] == [3, 4, 5]


def test_damaged_idx_files(tmp_path, mnist):
    _, files = mnist
    bad = tmp_path / "bad"
    for content, text in (
        (b"", "no idx file"),
        (b"\0\0\x08\x03\0\0", "in its header"),
        (idx(np.ones((4, 4)))[:-1], "needs 28"),
        (b"\x1f\x8bxx", "cannot be unpacked"),
    ):
        bad.write_bytes(content)
        with pytest.raises(OSError, match=text):
            IO.MNISTIter(image=str(bad), label=files["label"])
    with pytest.raises(OSError, match="is not there"):
        IO.MNISTIter(image=str(tmp_path / "none"), label=files["label"])
    with pytest.raises(ValueError, match="batch_size"):
        IO.MNISTIter(batch_size=0, **files)
    with pytest.raises(ValueError, match="do not fill a batch"):
        IO.MNISTIter(batch_size=11, **files)
    with pytest.raises(ValueError, match="part_index"):
        IO.MNISTIter(part_index=2, num_parts=2, **files)


def test_csv_iter(tmp_path):
    data, label = tmp_path / "d.csv", tmp_path / "l.csv"
    data.write_text("﻿1,2,3,4\r\n5,6,7,8\n\n9,10,11,12\n", encoding="utf-8")
    label.write_text("0\n1\n2\n")
    iterator = IO.CSVIter(
        data_csv=str(data), data_shape="(2,2)", label_csv=str(label), batch_size=2
    )
    first, second = list(iterator)
    assert first.data[0].asnumpy().tolist() == [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]
    assert second.label[0].asnumpy().tolist() == [2, 0] and second.pad == 1
    iterator.reset()  # goes on after the borrowed row
    assert next(iterator).label[0].asnumpy().tolist() == [1, 2]
    plain = IO.CSVIter(
        data_csv=str(data), data_shape=(4,), batch_size=2, round_batch=False
    )
    assert [b.pad for b in plain] == [0, 1]
    plain.reset()
    assert next(plain).data[0].asnumpy()[0, 0] == 1


def test_csv_errors_name_file_and_line(tmp_path):
    data = tmp_path / "d.csv"
    data.write_text("1,2\n3\n")
    with pytest.raises(ValueError, match="line 2 of .*d.csv has 1 values; expected 2"):
        IO.CSVIter(data_csv=str(data), data_shape=(2,), batch_size=1)
    data.write_text("1,x\n")
    with pytest.raises(ValueError, match="line 1"):
        IO.CSVIter(data_csv=str(data), data_shape=(2,), batch_size=1)
    with pytest.raises(ValueError, match="batch_size is missing"):
        IO.CSVIter(data_csv=str(data), data_shape=(2,))
    with pytest.raises(OSError, match="cannot be read"):
        IO.CSVIter(data_csv=str(tmp_path / "no"), data_shape=(2,), batch_size=1)


def test_csv_integers(tmp_path):
    data = tmp_path / "d.csv"
    data.write_text("0x10,010\n16777217,-3\n")
    batch = next(
        IO.CSVIter(data_csv=str(data), data_shape=(2,), batch_size=2, dtype="int32")
    )
    assert batch.data[0].asnumpy().tolist() == [[16, 8], [16777217, -3]]
