"""Record files in Python: MXNet's bytes, keys, pickling, forks, threads, bad input."""

import importlib.util
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from plait import recordio
from plait.error import MXNetError, MXNetKeyError, MXNetOSError, MXNetValueError

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/mxnet-1.9.1-records.npz"


def _tool(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / (name + ".py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


golden_records = _tool("golden_records")


@pytest.fixture
def paths(tmp_path):
    return str(tmp_path / "a.idx"), str(tmp_path / "a.rec")


@pytest.fixture
def ten(paths):
    """Ten records with an index, keys 0 to 9."""
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        for i in range(10):
            writer.write_idx(i, b"record %d" % i)
    return paths


def test_files_equal_those_of_mxnet():
    with np.load(GOLDEN) as golden:
        for name, made in golden_records.files(recordio).items():
            assert golden[name].tobytes() == made, name


def test_files_of_mxnet_are_read(paths):
    idx, rec = paths
    with np.load(GOLDEN) as golden:
        for name, key_type in (("int", int), ("str", str)):
            Path(rec).write_bytes(golden[name + ".rec"].tobytes())
            Path(idx).write_bytes(golden[name + ".idx"].tobytes())
            reader = recordio.MXIndexedRecordIO(idx, rec, "r", key_type)
            wanted = golden_records.payloads()
            for key, record in reversed(list(zip(reader.keys, wanted))):
                assert reader.read_idx(key) == record
            reader.reset()
            assert [reader.read() for _ in wanted] == wanted
            for i in range(7):
                header, image = recordio.unpack(reader.read())
                assert image == b"image %d" % i
                assert header.id == 7 + i and header.id2 == i
            assert reader.read() is None
            assert reader.read() is None


def test_reset_of_a_writer_empties_the_file(paths):
    writer = recordio.MXRecordIO(paths[1], "w")
    writer.write(b"one")
    writer.reset()
    writer.write(b"two")
    writer.close()
    reader = recordio.MXRecordIO(paths[1], "r")
    assert [reader.read(), reader.read()] == [b"two", None]
    reader.reset()
    assert reader.read() == b"two"


def test_appending_continues_file_and_index(ten):
    with recordio.MXIndexedRecordIO(*ten, "a") as writer:
        assert writer.tell() == 160
        writer.write_idx(77, b"another")
    reader = recordio.MXIndexedRecordIO(*ten, "r")
    assert reader.keys == [*range(10), 77]
    assert reader.read_idx(77) == b"another"
    assert reader.idx[9] == 144


def test_read_goes_on_behind_read_idx(ten):
    reader = recordio.MXIndexedRecordIO(*ten, "r")
    assert reader.read_idx(3) == b"record 3"
    assert reader.read() == b"record 4"
    reader.seek(8)
    assert reader.read() == b"record 8"


def test_pickling_keeps_open_readers_open(ten):
    reader = recordio.MXIndexedRecordIO(*ten, "r")
    other = pickle.loads(pickle.dumps(reader))
    assert other.read_idx(5) == reader.read_idx(5) == b"record 5"
    plain = pickle.loads(pickle.dumps(recordio.MXRecordIO(ten[1], "r")))
    assert plain.read() == b"record 0"
    plain.close()
    assert not pickle.loads(pickle.dumps(plain)).is_open


def test_pickling_a_writer_closes_both(paths):
    writer = recordio.MXRecordIO(paths[1], "w")
    writer.write(b"kept")
    copy = pickle.loads(pickle.dumps(writer))
    with pytest.raises(MXNetError, match="is closed"):
        copy.write(b"x")
    assert recordio.MXRecordIO(paths[1], "r").read() == b"kept"


def test_a_forked_child_reads_and_may_not_write(ten, tmp_path):
    reader = recordio.MXIndexedRecordIO(*ten, "r")
    other = str(tmp_path / "b.idx"), str(tmp_path / "b.rec")
    writer = recordio.MXIndexedRecordIO(*other, "w")
    writer.write_idx(0, b"parent's")
    assert reader.read() == b"record 0"
    child = os.fork()
    if child == 0:
        try:
            assert reader.read() == b"record 1"
            assert reader.read_idx(9) == b"record 9"
            with pytest.raises(RuntimeError, match="opened by another process"):
                writer.write_idx(1, b"child's")
            writer.close()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert reader.read() == b"record 1"
    writer.write_idx(2, b"more")
    writer.close()
    again = recordio.MXIndexedRecordIO(*other, "r")
    assert again.keys == [0, 2] and again.read_idx(2) == b"more"


def test_threads_share_a_reader(paths):
    records = [bytes([i % 256]) * (1 + i * 37 % 5000) for i in range(400)]
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        for i, record in enumerate(records):
            writer.write_idx(i, record)
    reader = recordio.MXIndexedRecordIO(*paths, "r")
    sequential, wrong = [], []

    def work(seed):
        for i in np.random.RandomState(seed).permutation(len(records)):
            if reader.read_idx(int(i)) != records[i]:
                wrong.append(i)

    def drain(shared):
        while (record := shared.read()) is not None:
            sequential.append(record)

    shared = recordio.MXRecordIO(paths[1], "r")
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    threads += [threading.Thread(target=drain, args=(shared,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert sorted(sequential) == sorted(records)


def test_import_starts_no_thread_of_the_engine():
    code = (
        "import os, numpy; n = len(os.listdir('/proc/self/task'))\n"
        "from plait import recordio\n"
        "assert len(os.listdir('/proc/self/task')) == n\n"
        "import sys; assert 'plait.ndarray' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_damage_is_named_and_can_be_passed(ten):
    data = bytearray(Path(ten[1]).read_bytes())
    data[5 * 16] ^= 1
    Path(ten[1]).write_bytes(data)
    reader = recordio.MXRecordIO(ten[1], "r")
    found = [reader.read() for _ in range(5)]
    with pytest.raises(MXNetOSError, match=r"a\.rec: at offset 80 \(record 5\)"):
        reader.read()
    assert reader.recover()
    while (record := reader.read()) is not None:
        found.append(record)
    assert len(found) == 9
    indexed = recordio.MXIndexedRecordIO(*ten, "r")
    with pytest.raises(MXNetOSError, match="read_idx: key 5: .*at offset 80"):
        indexed.read_idx(5)
    assert indexed.read_idx(6) == b"record 6"


def test_index_that_points_past_the_end(ten):
    Path(ten[0]).write_text("0\t0\n1\t160\n2\t1600\n")
    reader = recordio.MXIndexedRecordIO(*ten, "r")
    assert reader.read_idx(0) == b"record 0"
    with pytest.raises(MXNetOSError, match="nothing stands at offset 160"):
        reader.read_idx(1)
    with pytest.raises(MXNetOSError, match="behind the file's end"):
        reader.read_idx(2)
    with pytest.raises(MXNetKeyError, match="no record with the key 3"):
        reader.read_idx(3)


@pytest.mark.parametrize("key_type", [int, str])
def test_bad_index_lines_are_named(ten, key_type):
    Path(ten[0]).write_text("0\t0\nnothing\n")
    with pytest.raises(MXNetOSError, match=r"a\.idx: line 2"):
        recordio.MXIndexedRecordIO(*ten, "r", key_type)


def test_files_that_are_no_record_files(tmp_path):
    with pytest.raises(MXNetOSError, match="cannot be opened"):
        recordio.MXRecordIO(str(tmp_path / "none.rec"), "r")
    with pytest.raises(MXNetOSError, match="not a regular file"):
        recordio.MXRecordIO(str(tmp_path), "r")
    with pytest.raises(MXNetOSError, match="cannot be written"):
        recordio.MXRecordIO(str(tmp_path / "none" / "a.rec"), "w")
    with pytest.raises(MXNetValueError, match="flag is 'q'"):
        recordio.MXRecordIO(str(tmp_path / "a.rec"), "q")
    text = tmp_path / "text.rec"
    text.write_text("no records here, only text\n")
    with pytest.raises(MXNetOSError, match="at offset 0 .*no record begins here"):
        recordio.MXRecordIO(text, "r").read()
    text.write_bytes(b"")
    assert recordio.MXRecordIO(text, "r").read() is None


def test_modes_are_checked(ten):
    reader = recordio.MXRecordIO(ten[1], "r")
    with pytest.raises(AssertionError, match="opened for reading"):
        reader.write(b"x")
    reader.close()
    reader.close()
    with pytest.raises(MXNetError, match="closed"):
        reader.read()
    with (
        recordio.MXRecordIO(ten[1], "w") as writer,
        pytest.raises(AssertionError, match="opened for writing"),
    ):
        writer.read()


def test_labels_that_float32_cannot_hold_are_refused():
    assert recordio.unpack(recordio.pack((0, 2**24, 1, 0), b""))[0].label == 2**24
    for label in (16777217, [1, 16777217], np.array([16777217])):
        with pytest.raises(MXNetValueError, match="16777217"):
            recordio.pack((0, label, 1, 0), b"")


def test_unpack_of_short_records():
    with pytest.raises(MXNetValueError, match="at least 24"):
        recordio.unpack(b"short")
    record = recordio.pack((0, [1.0, 2.0], 0, 0), b"")
    with pytest.raises(IndexError, match="says that it has 2 labels"):
        recordio.unpack(record[:-1])
    with pytest.raises(MXNetValueError, match="header"):
        recordio.pack((0, 1.0, -1, 0), b"")
