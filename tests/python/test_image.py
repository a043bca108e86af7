"""mx.image: decoding and resizing as MXNet does, augmenters, ImageIter, bad input."""

import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

import plait as mx
from plait import _plait, recordio
from plait.error import MXNetError, MXNetOSError, MXNetTypeError, MXNetValueError

pytestmark = pytest.mark.skipif(
    not _plait.features()["OPENCV"], reason="this build has no codecs of images"
)

GOLDEN = Path(__file__).parents[1] / "golden/mxnet-1.9.1-images.npz"


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN) as found:
        return dict(found)


def picture(height=40, width=60, channels=3, seed=0):
    """Smooth noise, so that JPEG keeps it nearly as it is."""
    x = np.random.RandomState(seed).rand(height // 8 + 2, width // 8 + 2, channels)
    x = np.kron(x, np.ones((8, 8, 1)))[:height, :width] * 255
    return x.astype("uint8")


def jpeg(*args, **kwargs):
    return _plait.encode_image(picture(*args, **kwargs), ".jpg", 95)


def test_files_are_decoded_as_mxnet_does(golden):
    names = [k for k in golden if k.startswith("decoded ")]
    assert len(names) == 32
    for name in names:
        kind, _, flag = name[8:].rpartition(" ")
        image = mx.image.imdecode(golden["file " + kind].tobytes(), flag=int(flag))
        assert image.shape == golden[name].shape, name
        assert np.array_equal(image.asnumpy(), golden[name]), name


@pytest.fixture(scope="module")
def webp():
    """Three WebP files that OpenCV made, and what it makes of them, blue first."""
    with np.load(GOLDEN.parent / "opencv-webp.npz") as found:
        found = dict(found)
    try:
        _plait.image_shape(found["file webp lossy"].tobytes())
    except NotImplementedError:
        pytest.skip("this build has no codec for WebP")
    return found


def test_webp_files_are_decoded_as_opencv_does(webp):
    for name in (k for k in webp if k.startswith("decoded ")):
        kind, _, flag = name[8:].rpartition(" ")
        image = _plait.decode_image(webp["file " + kind].tobytes(), int(flag), False)
        assert image.shape == webp[name].shape
        off = np.abs(image.astype(int) - webp[name])
        assert off.max() <= (1 if flag == "0" else 0), name


def test_damaged_webp_files_give_pixels_or_errors(webp):
    rng = random.Random(6)
    files = [v.tobytes() for k, v in webp.items() if k.startswith("file ")]
    for file in files:
        for size in range(12, len(file) - 8, 11):
            with pytest.raises(MXNetValueError, match="the WebP"):
                _plait.decode_image(file[:size])
    for round_ in range(1500):
        file = bytearray(files[round_ % 3])
        for _ in range(rng.randint(1, 4)):
            file[rng.randrange(12, len(file))] = rng.randrange(256)
        try:
            _plait.decode_image(bytes(file), rng.choice([-1, 0, 1]))
        except MXNetError:
            pass


def test_images_are_resized_as_mxnet_does(golden):
    image = mx.nd.array(golden["decoded jpeg colour 1"], dtype="uint8")
    for name in (k for k in golden if k.startswith("resized ")):
        interp, height, width = map(int, name.split()[1:])
        y = mx.image.imresize(image, width, height, interp=interp).asnumpy()
        off = np.abs(y.astype(int) - golden[name])
        assert off.max() <= (1 if interp in (2, 4) else 0), name
        assert (off > 0).mean() < 1e-3, name


def test_decoded_forms():
    image = picture()
    file = _plait.encode_image(image, ".png", 3)  # blue first
    assert np.array_equal(mx.image.imdecode(file, to_rgb=0).asnumpy(), image)
    assert np.array_equal(mx.image.imdecode(file).asnumpy(), image[..., ::-1])
    for buf in (
        bytearray(file),
        np.frombuffer(file, np.uint8),
        mx.nd.array(np.frombuffer(file, np.uint8), dtype="uint8"),
    ):
        assert np.array_equal(mx.image.imdecode(buf, to_rgb=0).asnumpy(), image)
    out = mx.nd.zeros((40, 60, 3), dtype="uint8")
    mx.image.imdecode(file, out=out, to_rgb=False)
    assert np.array_equal(out.asnumpy(), image)
    wide = np.arange(24, dtype="uint16").reshape(2, 3, 4) * 2000
    file = _plait.encode_image(wide, ".png", 1)
    stored = mx.image.imdecode(file, flag=-1, to_rgb=False)
    assert stored.dtype == np.uint16 and np.array_equal(stored.asnumpy(), wide)
    assert mx.image.imdecode(file).shape == (2, 3, 3)


def test_unpack_img_and_pack_img_are_inverse(golden):
    image = picture()
    header = recordio.IRHeader(0, 3.0, 7, 0)
    for fmt, exact in ((".png", True), (".PNG", True), (".jpg", False)):
        record = recordio.pack_img(header, image, img_fmt=fmt)
        got, again = recordio.unpack_img(record)
        assert got == header and again.dtype == np.uint8
        assert not exact or np.array_equal(again, image)
    assert recordio.unpack_img(recordio.pack_img(header, image[..., 0]))[1].ndim == 2
    turned = recordio.pack(header, golden["file jpeg turned 6"].tobytes())
    assert recordio.unpack_img(turned)[1].shape == (31, 45, 3)  # as stored
    assert recordio.unpack_img(turned, 1)[1].shape == (45, 31, 3)
    assert recordio.unpack_img(turned, 129)[1].shape == (31, 45, 3)
    with pytest.raises(MXNetValueError, match="'.bmp'"):
        recordio.pack_img(header, image, img_fmt=".bmp")
    with pytest.raises(MXNetTypeError, match="uint8 or uint16"):
        recordio.pack_img(header, image.astype("float32"))
    with pytest.raises(MXNetValueError, match="quality 101"):
        recordio.pack_img(header, image, quality=101)
    with pytest.raises(MXNetValueError, match="2 channels"):
        recordio.pack_img(header, image[..., :2])


def test_a_jpeg_comes_out_smaller_where_that_is_asked_for():
    y, x = np.mgrid[:400, :600]
    waves = [127 + 127 * np.sin(x / 9 + c) * np.cos(y / 7 - c) for c in range(3)]
    file = _plait.encode_image(np.stack(waves, -1).astype("uint8"), ".jpg", 95)
    whole = _plait.decode_image(file)
    for edge, height in ((401, 400), (400, 400), (399, 400), (200, 200), (51, 100)):
        small = _plait.decode_image(file, shorter_edge=edge)
        assert small.shape[0] == height and small.shape[1] == height * 3 // 2
        factor = 400 // height
        mean = whole.reshape(height, factor, height * 3 // 2, factor, 3).mean((1, 3))
        assert np.abs(mean - small).mean() < 2


def test_bytes_that_are_no_image():
    with pytest.raises(MXNetValueError, match="no bytes"):
        mx.image.imdecode(b"")
    with pytest.raises(MXNetValueError, match="no image format"):
        mx.image.imdecode(b"clearly not image content")
    with pytest.raises(NotImplementedError, match="no codec for GIF"):
        mx.image.imdecode(b"GIF89a....")
    with pytest.raises(TypeError, match="type str"):
        mx.image.imdecode("text")
    with pytest.raises(MXNetValueError, match="flag 3"):
        mx.image.imdecode(jpeg(), flag=3)
    with pytest.raises(MXNetOSError, match="none.jpg: cannot be read"):
        mx.image.imread("/nonexistent/none.jpg")


def png_chunk(kind, data):
    return (
        struct.pack(">I", len(data))
        + kind
        + data
        + struct.pack(">I", zlib.crc32(kind + data))
    )


def test_images_that_claim_to_be_huge():
    head = struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", head) + png_chunk(b"IDAT", b"")
    with pytest.raises(
        MXNetValueError, match="2147483647 x 2147483647 pixels; at most"
    ):
        mx.image.imdecode(bomb)
    file = bytearray(jpeg())
    at = file.index(b"\xff\xc0") + 5
    file[at : at + 4] = struct.pack(">HH", 65000, 65000)
    with pytest.raises(MXNetValueError, match="65000 x 65000"):
        mx.image.imdecode(file)


@pytest.mark.parametrize("kind", ["jpeg colour", "png alpha", "png wide", "jpeg gray"])
def test_images_that_are_cut_off_are_errors(golden, kind):
    file = golden["file " + kind].tobytes()
    for size in range(3, len(file) - 20, 7):
        with pytest.raises(MXNetValueError):
            mx.image.imdecode(file[:size])


def test_fuzzed_images_give_pixels_or_errors(golden):
    rng = random.Random(5)
    files = [v.tobytes() for k, v in golden.items() if k.startswith("file ")]
    failed = 0
    for round_ in range(3000):
        file = bytearray(files[round_ % len(files)])
        for _ in range(rng.randint(1, 5)):
            at = rng.randrange(len(file))
            if rng.random() < 0.7:
                file[at] = rng.randrange(256)
            else:
                del file[at : at + rng.randint(1, 8)]
        try:
            _plait.decode_image(bytes(file), rng.choice([-1, 0, 1]))
        except MXNetError:
            failed += 1
    assert 1000 < failed < 3000


def test_crops():
    image = mx.nd.array(picture(40, 60), dtype="uint8")
    x = image.asnumpy()
    y, box = mx.image.center_crop(image, (20, 10))
    assert box == (20, 15, 20, 10) and np.array_equal(y.asnumpy(), x[15:25, 20:40])
    y, box = mx.image.center_crop(image, (120, 120))
    assert box == (10, 0, 40, 40) and y.shape == (120, 120, 3)
    random.seed(1)
    y, (a, b, w, h) = mx.image.random_crop(image, (20, 10))
    assert (w, h) == (20, 10) and np.array_equal(y.asnumpy(), x[b : b + h, a : a + w])
    for _ in range(20):
        y, (a, b, w, h) = mx.image.random_size_crop(image, (9, 8), (0.2, 0.5), (0.5, 2))
        assert y.shape == (8, 9, 3) and 0 <= a <= 60 - w and 0 <= b <= 40 - h
        assert 0.15 < w * h / 2400 < 0.55 and 0.4 < w / h < 2.2
    with pytest.raises(MXNetValueError, match="not inside"):
        mx.image.fixed_crop(image, 50, 0, 20, 10)
    assert mx.image.scale_down((640, 480), (720, 120)) == (640, 106)
    assert mx.image.resize_short(image, 20).shape == (20, 30, 3)
    assert mx.image.imresize(image, 7, 5, interp=9).shape == (5, 7, 3)
    assert mx.image.imresize(image, 7, 5, interp=10).shape == (5, 7, 3)
    with pytest.raises(MXNetValueError, match="interp is 7"):
        mx.image.imresize(image, 7, 5, interp=7)


def test_cubic_resizing_keeps_the_range_of_bytes():
    board = np.indices((16, 16)).sum(0) % 2 * 255
    image = mx.nd.array(np.repeat(board[..., None], 3, 2), dtype="uint8")
    for interp in (2, 4):
        y = mx.image.imresize(image, 37, 41, interp=interp).asnumpy()
        assert y.min() == 0 and y.max() == 255


@pytest.mark.parametrize(
    "kind, mode",
    list(enumerate(["constant", "edge", "symmetric", "wrap", "reflect"])),
)
def test_borders(kind, mode):
    image = picture(8, 9)
    y = mx.image.copyMakeBorder(mx.nd.array(image, dtype="uint8"), 1, 2, 3, 4, kind)
    assert np.array_equal(y.asnumpy(), np.pad(image, ((1, 2), (3, 4), (0, 0)), mode))


def test_augmenters_leave_their_image_and_give_the_formula():
    image = mx.nd.array(picture(), dtype="float32")
    before = image.asnumpy()
    gray = before @ np.array([0.299, 0.587, 0.114], "float32")
    random.seed(3)
    alpha = 1 + random.uniform(-0.4, 0.4)
    for aug, wanted in (
        (mx.image.BrightnessJitterAug(0.4), before * alpha),
        (mx.image.ContrastJitterAug(0.4), before * alpha + gray.mean() * (1 - alpha)),
        (
            mx.image.SaturationJitterAug(0.4),
            before * alpha + gray[..., None] * (1 - alpha),
        ),
    ):
        random.seed(3)
        np.testing.assert_allclose(aug(image).asnumpy(), wanted, rtol=1e-4, atol=1e-2)
    for aug in (
        mx.image.HueJitterAug(0.5),
        mx.image.RandomGrayAug(1),
        mx.image.HorizontalFlipAug(1),
        mx.image.LightingAug(0.1, np.ones(3), np.eye(3)),
        mx.image.ColorNormalizeAug(np.ones(3), np.ones(3) * 2),
    ):
        assert aug(image).shape == image.shape
    assert np.array_equal(image.asnumpy(), before)
    flipped = mx.image.HorizontalFlipAug(1)(image).asnumpy()
    assert np.array_equal(flipped, before[:, ::-1])


def test_dumps_of_augmenters_are_mxnets():
    aug = mx.image.ResizeAug(4)
    assert aug.dumps() == '["resizeaug", {"size": 4, "interp": 2}]'
    assert mx.image.SequentialAug([aug]).dumps() == ["sequentialaug", [aug.dumps()]]
    found = mx.image.CreateAugmenter((3, 8, 8), mean=True, brightness=0.1, hue=0.1)
    names = [type(a).__name__ for a in found]
    assert names == [
        "CenterCropAug",
        "CastAug",
        "ColorJitterAug",
        "HueJitterAug",
        "ColorNormalizeAug",
    ]


@pytest.fixture
def folder(tmp_path):
    """Seven images, of which number 3 may be broken by a test, and their list."""
    lines = []
    for i in range(7):
        image = np.full((20, 24, 3), 10 * i, "uint8")
        (tmp_path / ("%d.png" % i)).write_bytes(_plait.encode_image(image, ".png", 1))
        lines.append("%d\t%f\t%d.png\n" % (i, i, i))
    (tmp_path / "a.lst").write_text("".join(lines))
    return tmp_path


def batches(iterator):
    return [
        (b.data[0].asnumpy()[:, 0, 0, 0] / 10, b.label[0].asnumpy(), b.pad)
        for b in iterator
    ]


def from_folder(folder, **kwargs):
    kwargs = {"path_imglist": str(folder / "a.lst"), **kwargs}
    return mx.image.ImageIter(3, (3, 16, 16), path_root=str(folder), **kwargs)


def test_last_batches(folder):
    iterator = from_folder(folder)
    for _ in range(2):
        got = batches(iterator)
        assert [b[2] for b in got] == [0, 0, 2]
        assert [list(b[0]) for b in got] == [[0, 1, 2], [3, 4, 5], [6, 0, 1]]
        assert all(np.array_equal(b[0], b[1]) for b in got)
        iterator.reset()
    assert len(batches(from_folder(folder, last_batch_handle="discard"))) == 2
    iterator = from_folder(folder, last_batch_handle="roll_over")
    assert len(batches(iterator)) == 2
    iterator.reset()
    got = batches(iterator)
    assert list(got[0][0]) == [6, 0, 1] and got[0][2] == 2
    iterator.hard_reset()
    assert list(batches(iterator)[0][0]) == [0, 1, 2]


def test_parts_cover_every_image_once(folder):
    seen = []
    for part in range(3):
        iterator = from_folder(folder, num_parts=3, part_index=part)
        for rows, _, pad in batches(iterator):
            seen += list(rows[: len(rows) - pad])
    assert sorted(seen) == list(range(7))


def test_a_broken_image_is_named_or_skipped(folder, caplog):
    (folder / "3.png").write_bytes((folder / "3.png").read_bytes()[:60])
    with pytest.raises(
        MXNetValueError, match="Broken image filename: 3.png, image: the"
    ):
        batches(from_folder(folder))
    iterator = from_folder(folder, on_error="skip")
    got = batches(iterator)
    assert [list(b[0]) for b in got] == [[0, 1, 2], [4, 5, 6]]
    assert "1 images could not be read" in caplog.text
    (folder / "3.png").unlink()
    with pytest.raises(MXNetOSError, match="image 3: .*3.png: cannot be read"):
        batches(from_folder(folder))


def test_record_files(folder):
    paths = str(folder / "a.idx"), str(folder / "a.rec")
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        for i in range(7):
            image = (folder / ("%d.png" % i)).read_bytes()
            writer.write_idx(i, recordio.pack((0, float(i), i, 0), image))
    kwargs = {"path_imglist": None, "path_imgrec": paths[1]}
    got = batches(from_folder(folder, **kwargs))
    assert [list(b[0]) for b in got] == [[0, 1, 2], [3, 4, 5], [6, 0, 1]]
    iterator = from_folder(folder, path_imgidx=paths[0], shuffle=True, **kwargs)
    random.seed(1)
    iterator.reset()
    got = batches(iterator)
    assert all(np.array_equal(b[0], b[1]) for b in got)
    order = [*got[0][0], *got[1][0], got[2][0][0]]
    assert sorted(order) == list(range(7)) and order != list(range(7))
    with pytest.raises(MXNetError, match="need path_imgidx"):
        from_folder(folder, shuffle=True, **kwargs)


def test_bad_lists(folder):
    (folder / "a.lst").write_text("0\t0.0\t0.png\n1\tx\t1.png\n")
    with pytest.raises(MXNetOSError, match="a.lst: line 2 is wrong"):
        from_folder(folder)
    (folder / "a.lst").write_text("0\t0.0\t1.0\t0.png\n")
    with pytest.raises(MXNetValueError, match="2 labels; label_width is 1"):
        batches(from_folder(folder))
