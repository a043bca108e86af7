"""Files of arrays: .params byte by byte, .npz, .safetensors, and damaged ones."""

import json
import os
import pickle
import random
import struct

import numpy as np
import pytest

import plait as mx
from plait import _plait, nd

DTYPES = (
    "float16 float32 float64 bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 "
    "uint64 bool"
).split()
SHAPES = [(), (1,), (3,), (2, 3), (0,), (2, 0, 3), (1, 2, 1, 2)]

LIST_HEAD = bytes.fromhex("12010000000000000000000000000000")
DENSE = bytes.fromhex(
    "c9fa93f9 00000000 02000000 02000000 00000000 03000000 00000000 01000000 00000000"
    "00000000 00000000 0000803f 00000040 00004040 00008040 0000a040"
)
NAMED = (
    LIST_HEAD
    + bytes.fromhex("0100000000000000")
    + DENSE
    + bytes.fromhex("0100000000000000 0500000000000000 6172673a77")
)
ROW_SPARSE = bytes.fromhex(
    "c9fa93f9 01000000 02000000 01000000 00000000 02000000 00000000 02000000 04000000"
    "00000000 02000000 00000000 01000000 00000000 00000000 06000000 01000000 01000000"
    "00000000 0000803f 00000040 03000000 00000000"
)
CSR = bytes.fromhex(
    "c9fa93f9 02000000 01000000 01000000 00000000 02000000 02000000 00000000 03000000"
    "00000000 01000000 00000000 00000000 06000000 01000000 03000000 00000000 06000000"
    "01000000 01000000 00000000 0000a040 00000000 00000000 01000000 00000000 01000000"
    "00000000 02000000 00000000"
)
SCALAR = bytes.fromhex("cafa93f9 00000000 00000000 01000000 00000000 00000000 0000e040")
EMPTY = bytes.fromhex(
    "cafa93f9 00000000 02000000 00000000 00000000 03000000 00000000 01000000 00000000"
    "07000000"
)


def listed(*records, names=()):
    """A file of array records."""
    out = LIST_HEAD + struct.pack("<Q", len(records)) + b"".join(records)
    out += struct.pack("<Q", len(names))
    for name in names:
        out += struct.pack("<Q", len(name)) + name.encode()
    return out


def filled(shape, dtype):
    values = np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)
    return nd.array(values % 2 if dtype == "bool" else values, dtype=dtype)


def assert_same(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype
    np.testing.assert_array_equal(a.asnumpy(), b.asnumpy())


# ---------------------------------------------------------------- .params


def test_named_array_is_mxnets_bytes(tmp_path):
    path = tmp_path / "w.params"
    nd.save(str(path), {"arg:w": nd.array(np.arange(6).reshape(2, 3))})
    assert path.read_bytes() == NAMED
    loaded = nd.load(str(path))
    assert list(loaded) == ["arg:w"]
    np.testing.assert_array_equal(loaded["arg:w"].asnumpy(), [[0, 1, 2], [3, 4, 5]])
    assert loaded["arg:w"].dtype == np.float32


def test_list_and_single_array_are_lists_without_names(tmp_path):
    path, x = str(tmp_path / "x"), nd.array(np.arange(6).reshape(2, 3))
    for data in (x, [x], (x,)):
        nd.save(path, data)
        assert open(path, "rb").read() == listed(DENSE)
        (loaded,) = nd.load(path)
        assert_same(loaded, x)


@pytest.mark.parametrize("data", [[], {}])
def test_nothing_comes_back_as_an_empty_list(tmp_path, data):
    path = str(tmp_path / "x")
    nd.save(path, data)
    assert open(path, "rb").read() == listed()
    assert nd.load(path) == []


@pytest.mark.parametrize(
    "make, record",
    [
        (lambda: nd.full((), 7), SCALAR),
        (lambda: nd.zeros((0, 3), dtype="bool"), EMPTY),
    ],
)
def test_shapes_of_numpy_are_version_three(tmp_path, make, record):
    path = str(tmp_path / "x")
    nd.save(path, make())
    assert open(path, "rb").read() == listed(record)
    assert_same(nd.load(path)[0], make())


def test_version_one_and_zero_are_read():
    values = np.arange(128, dtype=np.float32)
    v0 = struct.pack("<IIiii", 1, 128, 1, 0, 0) + values.tobytes()
    v1 = struct.pack("<Iiqiii", 0xF993FAC8, 1, 128, 1, 0, 0) + values.tobytes()
    for record in (v0, v1):
        (loaded,) = nd.load_frombuffer(listed(record))
        np.testing.assert_array_equal(loaded.asnumpy(), values)


def test_a_file_from_a_gpu_is_loaded_to_the_cpu():
    on_gpu = DENSE[:28] + struct.pack("<ii", 2, 3) + DENSE[36:]
    (loaded,) = nd.load_frombuffer(listed(on_gpu))
    assert loaded.context == mx.cpu(0)


def test_bytes_behind_the_names_are_ignored():
    assert list(nd.load_frombuffer(NAMED + b"more")) == ["arg:w"]


@pytest.mark.parametrize(
    "record, word", [(ROW_SPARSE, "row_sparse"), (CSR, "csr")], ids=["rows", "csr"]
)
def test_sparse_arrays_are_read_and_written(tmp_path, record, word):
    path = tmp_path / "sparse.params"
    path.write_bytes(listed(record, names=["w"]))
    loaded = nd.load(str(path))
    assert loaded["w"].stype == word
    nd.save(str(path), loaded)
    assert path.read_bytes() == listed(record, names=["w"])


# ---------------------------------------------------------------- round trips


@pytest.mark.parametrize("ending", ["params", "safetensors"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_shape_survives(tmp_path, ending, dtype):
    path = str(tmp_path / ("x." + ending))
    arrays = {"%d" % i: filled(shape, dtype) for i, shape in enumerate(SHAPES)}
    nd.save(path, arrays)
    loaded = nd.load(path)
    assert list(loaded) == list(arrays)
    for name in arrays:
        assert_same(loaded[name], arrays[name])


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bfloat16"])
def test_npz_is_numpys(tmp_path, dtype):
    path, x = str(tmp_path / "x.npz"), filled((2, 3), dtype)
    nd.save(path, {"w": x, "scalar": filled((), dtype)})
    with np.load(path) as file:
        assert sorted(file.files) == ["scalar", "w"]
        np.testing.assert_array_equal(file["w"], x.asnumpy())
    loaded = nd.load(path)
    assert_same(loaded["w"], x)
    assert loaded["scalar"].shape == ()


def test_npz_of_a_list_has_numpys_names(tmp_path):
    path = str(tmp_path / "x.npz")
    nd.save(path, [nd.ones((1,)), nd.ones((2,))])
    assert list(nd.load(path)) == ["arr_0", "arr_1"]


def test_npz_keeps_bfloat16(tmp_path):
    path, x = str(tmp_path / "x.npz"), filled((2, 3), "bfloat16")
    nd.save(path, {"w": x})
    assert_same(nd.load(path)["w"], x)


def test_npz_of_others_in_fortran_order_and_big_endian(tmp_path):
    path, x = str(tmp_path / "x.npz"), np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(path, f=np.asfortranarray(x), b=x.astype(">f4"))
    for loaded in nd.load(path).values():
        np.testing.assert_array_equal(loaded.asnumpy(), x)


def test_npz_names_may_be_those_of_savez(tmp_path):
    path = str(tmp_path / "x.npz")
    nd.save(path, {"file": nd.ones((1,)), "args": nd.ones((2,))})
    assert {n: a.shape for n, a in nd.load(path).items()} == {
        "file": (1,),
        "args": (2,),
    }


@pytest.mark.parametrize("ending", ["params", "safetensors", "npz"])
@pytest.mark.parametrize("name", ["a.b", "ünï-文", "with space", 'q"uo\\te', "tab\t"])
def test_names_survive(tmp_path, ending, name):
    path = str(tmp_path / ("x." + ending))
    nd.save(path, {name: nd.ones((2,))})
    assert list(nd.load(path)) == [name]


def test_views_and_pending_results_are_saved_as_they_are(tmp_path):
    path, x = str(tmp_path / "x"), nd.array(np.arange(12).reshape(3, 4))
    nd.save(path, [x[1], x * 2 + 1])
    row, result = nd.load(path)
    np.testing.assert_array_equal(row.asnumpy(), [4, 5, 6, 7])
    np.testing.assert_array_equal(result.asnumpy(), x.asnumpy() * 2 + 1)


def test_pickle_is_one_record():
    x = nd.array(np.arange(6).reshape(2, 3))
    assert_same(pickle.loads(pickle.dumps(x)), x)
    assert x.__reduce__()[1] == (DENSE,)


# ---------------------------------------------------------------- safetensors


def split_safetensors(data):
    (n,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + n]), n, data[8 + n :]


def safetensors(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def test_safetensors_obey_the_format(tmp_path):
    path = tmp_path / "x.safetensors"
    nd.save(str(path), {d: filled((2, 3), d) for d in DTYPES})
    header, length, data = split_safetensors(path.read_bytes())
    assert length % 8 == 0
    names = "F16 F32 F64 BF16 I8 I16 I32 I64 U8 U16 U32 U64 BOOL".split()
    assert [header[d]["dtype"] for d in DTYPES] == names
    covered = 0
    for entry in header.values():  # no holes, no overlap, nothing behind
        begin, end = entry["data_offsets"]
        assert begin == covered and entry["shape"] == [2, 3]
        covered = end
    assert covered == len(data)
    begin, end = header["float64"]["data_offsets"]
    np.testing.assert_array_equal(np.frombuffer(data[begin:end]), np.arange(6))


def test_safetensors_of_others_with_metadata_and_any_order(tmp_path):
    path = tmp_path / "x.safetensors"
    header = {
        "__metadata__": {"format": "pt", "note": 'q"u\u00e9'},
        "b": {"shape": [2], "data_offsets": [4, 12], "dtype": "F32"},
        "a": {"dtype": "I32", "shape": [], "data_offsets": [0, 4]},
    }
    path.write_bytes(safetensors(header, struct.pack("<iff", 5, 1, 2)))
    loaded = nd.load(str(path))
    assert loaded["a"].asscalar() == 5 and loaded["a"].shape == ()
    np.testing.assert_array_equal(loaded["b"].asnumpy(), [1, 2])


F32 = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
BAD_SAFETENSORS = {
    "no object": (b"[]", b""),
    "empty header": (b"", b""),
    "unknown dtype": ({"a": dict(F32, dtype="F8_E4M3")}, b"\0" * 4),
    "no dtype": ({"a": {"shape": [1], "data_offsets": [0, 4]}}, b"\0" * 4),
    "no offsets": ({"a": {"dtype": "F32", "shape": [1]}}, b"\0" * 4),
    "negative size": ({"a": dict(F32, shape=[-1])}, b"\0" * 4),
    "fraction": ({"a": dict(F32, shape=[1.5])}, b"\0" * 4),
    "wrong size": ({"a": dict(F32, shape=[2])}, b"\0" * 4),
    "offset behind the end": ({"a": dict(F32, data_offsets=[4, 8])}, b"\0" * 4),
    "reversed offsets": ({"a": dict(F32, data_offsets=[4, 0])}, b"\0" * 4),
    "huge shape": ({"a": dict(F32, shape=[2**62, 2**62])}, b"\0" * 4),
    "overlap": ({"a": F32, "b": F32}, b"\0" * 4),
    "hole": ({"a": dict(F32, data_offsets=[4, 8])}, b"\0" * 8),
    "bytes behind": ({"a": F32}, b"\0" * 8),
    "same name": (
        json.dumps({"a": F32})[:-1].encode()
        + b',"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}',
        b"\0" * 8,
    ),
    "bytes in the header": (b"{}x", b""),
    "half a pair": (b'{"\\ud83d":{}}', b""),
    "not UTF-8": (b'{"\xff":{}}', b""),
}


def test_safetensors_names_may_be_escaped(tmp_path):
    path = tmp_path / "x.safetensors"
    names = ["\U0001f600", "\u00fc\u6587", 'a\\b"/\n\u0000']
    header = {
        n: {"dtype": "U8", "shape": [1], "data_offsets": [i, i + 1]}
        for i, n in enumerate(names)
    }
    path.write_bytes(safetensors(json.dumps(header).encode(), bytes([0, 1, 2])))
    assert {n: int(a.asscalar()) for n, a in nd.load(str(path)).items()} == {
        n: i for i, n in enumerate(names)
    }


def test_params_names_are_utf8(tmp_path):
    with pytest.raises(OSError, match="has a name that is not UTF-8"):
        nd.load_frombuffer(NAMED[:-1] + b"\xff")


@pytest.mark.parametrize("case", BAD_SAFETENSORS)
def test_bad_safetensors_are_refused(tmp_path, case):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(safetensors(*BAD_SAFETENSORS[case]))
    with pytest.raises(mx.MXNetError) as caught:
        nd.load(str(path))
    assert isinstance(caught.value, OSError)
    assert str(path) in str(caught.value) and "byte" in str(caught.value)


# ---------------------------------------------------------------- saving and failing


@pytest.mark.parametrize("ending", ["params", "safetensors", "npz"])
def test_a_failing_save_leaves_the_old_file(tmp_path, ending):
    path = tmp_path / ("x." + ending)
    nd.save(str(path), {"w": nd.ones((3,))})
    before = path.read_bytes()
    bad = nd.array([0, 9])
    failing = nd.gather_nd(nd.ones((3,)), nd.array([[7]]))  # fails when it runs
    with pytest.raises(mx.MXNetError):
        nd.save(str(path), {"w": bad, "v": failing})
    with pytest.raises(TypeError):
        nd.save(str(path), {"w": bad, "v": np.ones(3)})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ["params", "safetensors", "npz"])
def test_files_that_cannot_be_written_or_read_are_named(tmp_path, ending):
    path = str(tmp_path / "none" / ("x." + ending))
    for call in (lambda: nd.save(path, nd.ones((1,))), lambda: nd.load(path)):
        with pytest.raises(OSError) as caught:
            call()
        assert path in str(caught.value)
        assert isinstance(caught.value, mx.MXNetError)


@pytest.mark.parametrize("ending", ["params", "safetensors", "npz"])
def test_an_empty_file_is_refused(tmp_path, ending):
    path = tmp_path / ("x." + ending)
    path.write_bytes(b"")
    with pytest.raises(OSError) as caught:
        nd.load(str(path))
    assert str(path) in str(caught.value)


def test_a_pathlike_name_is_a_name(tmp_path):
    nd.save(tmp_path / "x.params", nd.ones((1,)))
    assert len(nd.load(tmp_path / "x.params")) == 1
    nd.save(os.fsencode(tmp_path / "y.npz"), nd.ones((1,)))
    assert len(nd.load(os.fsencode(tmp_path / "y.npz"))) == 1


@pytest.mark.parametrize("data", [3, "x", None, {"a": 1}, [None]])
def test_only_arrays_are_saved(tmp_path, data):
    with pytest.raises((TypeError, ValueError)):
        nd.save(str(tmp_path / "x"), data)
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------- damaged files

NUMBERS = [
    0,
    1,
    2,
    255,
    2**16,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**63 - 1,
    2**64 - 1,
]


def damaged(data, rng):
    """The bytes cut short, with bits flipped, or with absurd numbers in them."""
    data = bytearray(data)
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(data[: rng.randrange(len(data))])
    for _ in range(rng.randint(1, 4)):
        if kind == 1:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif kind == 2:
            width = rng.choice([4, 8])
            at = 4 * rng.randrange((len(data) - 8) // 4)
            number = rng.choice(NUMBERS) % 2 ** (8 * width)
            data[at : at + width] = number.to_bytes(width, "little")
        else:
            at = rng.randrange(len(data))
            digits = str(rng.choice(NUMBERS)).encode()
            data[at : at + rng.randint(0, 4)] = digits
    return bytes(data)


@pytest.fixture
def overwrite(tmp_path):
    """Makes a named file of bytes in memory: thousands of files on a disk are slow."""
    memory = os.memfd_create("file")

    def write(name, data):
        path = tmp_path / name
        if not path.is_symlink():
            path.symlink_to("/proc/%d/fd/%d" % (os.getpid(), memory))
        os.ftruncate(memory, 0)
        os.pwrite(memory, data, 0)
        return str(path)

    yield write
    os.close(memory)


def load_or_complain(path, counts):
    try:
        loaded = nd.load(path)
    except mx.MXNetError as e:
        assert path in str(e) and "byte" in str(e), str(e)
        counts[0] += 1
    else:
        for a in loaded.values() if isinstance(loaded, dict) else loaded:
            (a if a.stype == "default" else a.data).asnumpy()
        counts[1] += 1


@pytest.mark.parametrize("ending", ["params", "safetensors"])
def test_damaged_files_are_refused_or_loaded_in_bounded_memory(
    tmp_path, overwrite, ending
):
    path = str(tmp_path / ("good." + ending))
    arrays = {
        "w": filled((2, 3), "float32"),
        "scalar": filled((), "int64"),
        "empty": filled((0, 3), "bool"),
        "rest": filled((5,), "bfloat16"),
    }
    nd.save(path, arrays)
    good = open(path, "rb").read()
    originals = [good]
    if ending == "params":
        v0 = struct.pack("<IIiii", 1, 2, 1, 0, 0) + bytes(8)
        originals += [listed(v0, DENSE, SCALAR), listed(ROW_SPARSE, CSR), NAMED]
    rng, counts = random.Random(3), [0, 0]
    _plait.empty_cache("cpu", 0)
    _plait.memory_reset_peak("cpu", 0)
    start = _plait.memory_stats("cpu", 0)["peak"]
    for k in range(2000):
        data = damaged(originals[k % len(originals)], rng)
        load_or_complain(overwrite("x." + ending, data), counts)
    grown = _plait.memory_stats("cpu", 0)["peak"] - start
    assert grown < 1 << 20, grown
    assert counts[0] > 500 and counts[1] > 20, counts


def test_every_truncation_of_a_file_names_its_byte(overwrite):
    for n in range(len(NAMED)):
        path = overwrite("x.params", NAMED[:n])
        with pytest.raises(OSError, match="at byte [0-9]+ the file (ends|says)") as e:
            nd.load(path)
        assert path in str(e.value)


def test_absurd_sizes_are_refused_before_memory_is_asked_for():
    count = LIST_HEAD + struct.pack("<Q", 2**62)
    name = listed(DENSE)[:-8] + struct.pack("<QQ", 1, 2**63)
    shape = listed(struct.pack("<Iiiqqiii", 0xF993FAC9, 0, 2, 2**40, 2**40, 1, 0, 0))
    zero = listed(struct.pack("<Iiiqqiii", 0xF993FACA, 0, 2, 0, 2**62, 1, 0, 0))
    axes = listed(struct.pack("<Iii", 0xF993FAC9, 0, 2**30))
    for data in (count, name, shape, axes):
        with pytest.raises(OSError, match="buffer: at byte"):
            nd.load_frombuffer(data)
    try:
        assert nd.load_frombuffer(zero)[0].size == 0
    except OSError:
        pass  # no elements, but a size that a multiplication does not hold


def test_damaged_npz_files_are_refused_by_name(tmp_path, overwrite):
    path = str(tmp_path / "good.npz")
    nd.save(path, {"w": filled((2, 3), "float32")})
    good, rng, refused = open(path, "rb").read(), random.Random(4), 0
    for _ in range(100):
        path = overwrite("x.npz", damaged(good, rng))
        try:
            nd.load(path)
        except mx.MXNetError as e:
            assert path in str(e)
            refused += 1
    assert refused > 50
