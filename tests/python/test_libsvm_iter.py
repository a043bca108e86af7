"""LibSVMIter: csr batches, rounds, parts, and lines that are refused."""

import numpy as np
import pytest

from plait import io, nd
from plait.error import MXNetError

TEXT = "1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n"
DENSE = np.array([[0.5, 0, 1.2], [0, 0, 0], [0.6, 2.4, 1.2], [0, 0, -1.2]], "float32")
LABELS = np.array([1, -2, -3, 4], "float32")


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "data.t"
    file.write_text(TEXT)
    return str(file)


def test_batches_go_round(path):
    it = io.LibSVMIter(data_libsvm=path, data_shape=(3,), batch_size=3)
    assert it.provide_data[0].shape == (3, 3) and it.provide_label[0].shape == (3,)
    begin = 0
    for _ in range(3):
        epoch = list(it)
        for batch in epoch:
            rows = np.arange(begin, begin + 3) % 4
            (data,), (label,) = batch.data, batch.label
            assert data.stype == "csr"
            data.check_format()
            np.testing.assert_array_equal(data.asnumpy(), DENSE[rows])
            np.testing.assert_array_equal(label.asnumpy(), LABELS[rows])
            assert batch.pad == max(0, begin + 3 - 4)
            begin += 3
        begin -= 4
        it.reset()


def test_a_batch_larger_than_the_file(path):
    it = io.LibSVMIter(data_libsvm=path, data_shape=(3,), batch_size=10)
    (batch,) = list(it)
    np.testing.assert_array_equal(batch.data[0].asnumpy(), DENSE[np.arange(10) % 4])


def test_labels_from_a_file(path, tmp_path):
    labels = tmp_path / "label.t"
    labels.write_text("1\n-2 0:0.125\n-3 2:1.2\n4 1:1.0 2:-1.2\n")
    it = io.LibSVMIter(
        data_libsvm=path,
        data_shape="(3,)",
        label_libsvm=str(labels),
        label_shape=(3,),
        batch_size="2",
    )
    batch = list(it)[1]
    assert batch.label[0].stype == "csr"
    np.testing.assert_allclose(
        batch.label[0].asnumpy(), [[0, 0, 1.2], [0, 1, -1.2]], rtol=1e-6
    )


def test_parts_and_directories(path, tmp_path):
    (tmp_path / "more.t").write_text("5 1:1\n6 1:2")
    found = []
    for k in range(2):
        it = io.LibSVMIter(
            data_libsvm=str(tmp_path),
            data_shape=3,
            batch_size=1,
            num_parts=2,
            part_index=k,
        )
        found += [float(batch.label[0].asscalar()) for batch in it]
    assert sorted(found) == [-3, -2, 1, 4, 5, 6]


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("1 0:1\n2 -1:0.6\n", "at byte 8 column -1"),
        ("1 3:1\n", "column 3"),
        ("1 2:1 0:1\n", "column 0 follows 2"),
        ("x\n", "'x.*is no label"),
        ("1 1:\n", "is no value"),
        ("", "no rows"),
    ],
)
def test_refused(tmp_path, text, complaint):
    file = tmp_path / "bad.t"
    file.write_text(text)
    with pytest.raises(MXNetError, match=complaint):
        io.LibSVMIter(data_libsvm=str(file), data_shape=(3,), batch_size=2)


def test_refused_arguments(path):
    for arguments in (
        {"batch_size": 0},
        {"data_shape": (3, 1)},
        {"label_shape": (2,)},
        {"label_libsvm": path},
        {"num_parts": 2, "part_index": 2},
        {"data_libsvm": path + ".missing"},
        {"data_libsvm": None},
    ):
        given = {"data_libsvm": path, "data_shape": (3,), "batch_size": 2} | arguments
        with pytest.raises(MXNetError):
            io.LibSVMIter(**given)


def test_other_iterators_take_csr(path):
    data = nd.array(DENSE).tostype("csr")
    it = io.NDArrayIter(
        {"data": data}, nd.array(LABELS), 3, last_batch_handle="discard"
    )
    (batch,) = list(it)
    assert batch.data[0].stype == "csr"
    np.testing.assert_array_equal(batch.data[0].asnumpy(), DENSE[:3])
