"""Damaged image and record files: errors of the right kind or sound results, never a
crash, a hang, or much memory. 100,000 images and as many record files, or PLAIT_FUZZ=N.
"""

import os
import resource
import struct
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest

import plait as mx
from plait import _plait, recordio
from plait.error import MXNetError, MXNetOSError

ROOT = Path(__file__).resolve().parents[2]
SEED = int(os.environ.get("PLAIT_FUZZ", 0))
COUNT = SEED or 100000
needs_codecs = pytest.mark.skipif(
    not _plait.features()["OPENCV"], reason="this build has no codecs of images"
)


def mutated(data, random, heads=()):
    """Some bytes changed, cut, repeated; `heads`: places of numbers to change."""
    data = bytearray(data)
    for _ in range(random.randint(1, 4)):
        kind = random.randint(0, 7)
        at = random.randint(0, len(data))
        if kind < 3:
            data[at] = random.randint(0, 256)
        elif kind == 3:
            data[at] ^= 1 << random.randint(0, 8)
        elif kind == 4 and len(data) > 40:
            del data[random.randint(20, len(data)) :]
        elif kind == 5:
            end = min(len(data), at + random.randint(1, 64))
            data[at:at] = data[at:end]
        elif kind == 6 and heads:
            place, size = heads[random.randint(0, len(heads))]
            number = random.choice([0, 1, 0x7F, 0xFF], size).astype("uint8")
            data[place : place + size] = number.tobytes()
        elif len(data) > 40:
            del data[at : at + random.randint(1, 16)]
        if len(data) < 2:
            data += b"\0\0"
    return bytes(data)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(
        ">I", zlib.crc32(kind + body)
    )  # fmt: skip


def png(width, height, depth, colour, rows):
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    palette = chunk(b"PLTE", bytes(range(48))) if colour == 3 else b""
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + palette + chunk(
        b"IDAT", zlib.compress(rows)
    ) + chunk(b"IEND", b"")  # fmt: skip


def images():
    """(bytes, places of the sizes) of a file of each kind."""
    random = np.random.RandomState(3)
    picture = random.randint(0, 256, (19, 23, 3)).astype("uint8")
    jpeg = _plait.encode_image(picture, ".jpg", 80)
    sizes = [(jpeg.index(b"\xff\xc0") + 5, 2), (jpeg.index(b"\xff\xc0") + 7, 2)]
    yield jpeg, sizes
    yield _plait.encode_image(picture[..., 0], ".jpg", 80), ()
    yield _plait.encode_image(picture, ".png", 3), [(16, 4), (20, 4), (24, 1)]
    wide = picture.astype("uint16") * 256
    yield _plait.encode_image(wide, ".png", 3), [(16, 4), (20, 4), (24, 1)]
    rows = b"".join(
        b"\0" + bytes(random.randint(0, 256, 12).tolist()) for _ in range(9)
    )
    yield png(24, 9, 4, 3, rows), [(16, 4), (20, 4), (24, 1)]
    with np.load(ROOT / "tests/golden/opencv-webp.npz") as found:
        files = [found[key] for key in found.files if found[key].ndim == 1]
        yield files[0].tobytes(), ()


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@needs_codecs
def test_mutated_images():
    random = np.random.RandomState(SEED)
    kinds = list(images())
    sound = 0
    before = peak()
    for _ in range(COUNT):
        file, heads = kinds[random.randint(0, len(kinds))]
        file = mutated(file, random, heads)
        try:
            decoded = _plait.decode_image(file, int(random.randint(-1, 2)))
            assert decoded.size > 0
            sound += 1
        except MXNetError:
            pass
    assert sound > 0
    assert peak() - before < 400 << 10  # KiB


def giants():
    """Small files that say they are huge."""
    for width, height in ((60000, 60000), (0x7FFFFFFF, 2), (16000, 16000)):
        yield png(width, height, 8, 2, bytes(100))
        yield png(width, height, 1, 0, bytes(100))
    jpeg = bytearray(_plait.encode_image(np.zeros((16, 16, 3), "uint8"), ".jpg", 80))
    at = jpeg.index(b"\xff\xc0") + 5
    for size in (65535, 16000):
        jpeg[at : at + 4] = struct.pack(">HH", size, size)
        yield bytes(jpeg)


@needs_codecs
def test_small_files_do_not_take_gigabytes():
    before = peak()
    for file in giants():
        for flag in (-1, 0, 1):
            with pytest.raises(MXNetError, match="image: the (PNG|JPEG)"):
                _plait.decode_image(file, flag)
        with pytest.raises(MXNetError):
            mx.image.imdecode(file)
    assert peak() - before < 200 << 10


@needs_codecs
def test_a_bomb_is_refused_by_its_number_of_pixels():
    packed = png(40000, 10000, 1, 0, bytes(10000 * 5001))  # 50 MB in 50 KB
    with pytest.raises(MXNetError, match="40000 x 10000 pixels; at most"):
        _plait.decode_image(packed, 1)


def records(folder, count=12):
    """A record file with images, whose fifth record has the magic inside."""
    paths = str(folder / "a.idx"), str(folder / "a.rec")
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        for i in range(count):
            picture = np.full((9, 8, 3), 20 * i, "uint8")
            body = _plait.encode_image(picture, ".png", 1)
            if i == 4:
                body += b"\0" * (-len(body) % 4) + b"\x0a\x23\xd7\xce" * 3
            writer.write_idx(i, recordio.pack((0, float(i), i, 0), body))
    return paths


@pytest.fixture
def folder(tmp_path):
    """In memory where that is possible: a disk would take most of the time."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


@needs_codecs
def test_mutated_record_files(folder):
    paths = records(folder)
    whole = Path(paths[1]).read_bytes()
    heads = [(int(line.split()[1]), 4) for line in open(paths[0])]
    heads += [(place + 4, 4) for place, _ in heads]
    random = np.random.RandomState(SEED + 1)
    broken = folder / "b.rec"
    for number in range(COUNT):
        broken.write_bytes(mutated(whole, random, heads))
        reader = recordio.MXRecordIO(str(broken), "r")
        found = []
        try:
            while (record := reader.read()) is not None:
                found.append(record)
        except MXNetOSError as error:
            assert "b.rec" in str(error)
        reader.close()
        assert len(found) <= 40
        if number % 50:
            continue
        try:
            iterator = mx.io.ImageRecordIter(
                path_imgrec=str(broken),
                data_shape=(3, 8, 8),
                batch_size=4,
                preprocess_threads=1,
                prefetch_buffer=1,
                on_error="skip",
            )
            assert sum(4 - batch.pad for batch in iterator) <= 40
            iterator.close()
        except MXNetError as error:  # no record is left
            assert "b.rec" in str(error) or "records" in str(error)


@needs_codecs
def test_mutated_indices_and_lists(tmp_path):
    paths = records(tmp_path)
    index = Path(paths[0]).read_bytes()
    rows = ["%d\t%d\tx.png\n" % (i, i) for i in range(12)]
    listed = "".join(rows).encode()
    random = np.random.RandomState(SEED + 2)
    for number in range(COUNT // 250):
        (tmp_path / "b.idx").write_bytes(mutated(index, random))
        (tmp_path / "b.lst").write_bytes(mutated(listed, random))
        extra = {"path_imglist": str(tmp_path / "b.lst")} if number % 2 else {}
        try:
            iterator = mx.io.ImageRecordIter(
                path_imgrec=paths[1],
                path_imgidx=str(tmp_path / "b.idx"),
                data_shape=(3, 8, 8),
                batch_size=4,
                preprocess_threads=1,
                prefetch_buffer=1,
                **extra,
            )
            assert sum(4 - batch.pad for batch in iterator) <= 20
        except MXNetError:
            pass
