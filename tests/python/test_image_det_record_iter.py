"""ImageDetRecordIter: MXNet's batches, boxes that follow the image, damaged labels."""

import sys
from pathlib import Path

import numpy as np
import pytest

import plait as mx
from plait import _plait, recordio
from plait.error import MXNetError, MXNetValueError

pytestmark = pytest.mark.skipif(
    not _plait.features()["OPENCV"], reason="this build has no codecs of images"
)

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import golden_det  # noqa: E402

BOX = (0.25, 0.375, 0.75, 0.625)


@pytest.fixture(scope="module")
def golden():
    with np.load(ROOT / "tests/golden/mxnet-1.9.1-det.npz") as found:
        return dict(found)


def write(folder, labels, size=(64, 64)):
    """Black images with BOX in white, and the labels of each."""
    paths = str(folder / "a.idx"), str(folder / "a.rec")
    image = np.zeros((*size, 3), "uint8")
    x0, y0, x1, y1 = (int(v * s) for v, s in zip(BOX, (*size[::-1], *size[::-1])))
    image[y0:y1, x0:x1] = 255
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        for i, values in enumerate(labels):
            file = _plait.encode_image(image, ".png", 1)
            header = (0, np.array(values, "float32"), i, 0)
            writer.write_idx(i, recordio.pack(header, file))
    return paths


def one_box(number=0):
    return [2, 5, number, *BOX]


def iterator(paths, **kwargs):
    defaults = {"batch_size": 4, "data_shape": (3, 64, 64), "preprocess_threads": 2}
    return mx.io.ImageDetRecordIter(path_imgrec=paths[1], **{**defaults, **kwargs})


@pytest.mark.parametrize("case", golden_det.CASES)
def test_batches_equal_those_of_mxnet(golden, case, tmp_path):
    (tmp_path / "a.rec").write_bytes(golden["rec"].tobytes())
    made = golden_det.batches(mx, tmp_path, case)
    # The crop is by chance, though within a pixel.
    rounding = 2e-4 if case == "cropped" else 1e-6
    for name, values in made.items():
        assert values.shape == golden[name].shape and values.dtype == golden[name].dtype
        gap = np.abs(values.astype("float64") - golden[name])
        assert gap.max() <= (rounding if name.endswith("label") else 4e-6), name


AUGMENTED = {
    "rand_mirror_prob": 0.5,
    "rand_pad_prob": 0.5,
    "max_pad_scale": 2,
    "rand_crop_prob": 0.7,
    "num_crop_sampler": 2,
    "min_crop_scales": (0.4, 0.6),
    "min_crop_object_coverages": "(0.9, 0.5)",
    "min_crop_aspect_ratios": 0.5,
    "max_crop_aspect_ratios": 2,
    "fill_value": 0,
}


def test_boxes_follow_the_image(tmp_path):
    it = iterator(write(tmp_path, [one_box(i) for i in range(40)]), **AUGMENTED)
    seen = set()
    for batch in it:
        for image, label in zip(batch.data[0].asnumpy(), batch.label[0].asnumpy()):
            assert list(label[:6]) == [3, 64, 64, 7, 2, 5] and len(label) == 11
            rows, columns = np.nonzero(image[0] > 127)
            found = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
            assert np.abs(np.array(found) - 64 * label[7:]).max() < 2.5
            seen.add(tuple(label[7:]))
    assert len(seen) > 20  # they differ


def test_colours_change_and_boxes_stay(tmp_path):
    paths = write(tmp_path, [one_box()] * 8)
    plain = next(iterator(paths)).data[0].asnumpy()
    for name, most in (("illumination", 60), ("contrast", 0.5)):
        kwargs = {"random_%s_prob" % name: 1, "max_random_%s" % name: most}
        batch = next(iterator(paths, **kwargs))
        changed = batch.data[0].asnumpy()
        assert any(np.abs(a - b).max() > 3 for a, b in zip(changed, plain))
        assert np.allclose(batch.label[0].asnumpy()[:, 7:], BOX)


def test_threads_and_positions_change_nothing(tmp_path):
    paths = write(tmp_path, [one_box(i) for i in range(11)])
    runs = []
    for threads in (1, 2, 8):
        kwargs = {"preprocess_threads": threads, "shuffle": True, "seed": 3}
        it = iterator(paths, **AUGMENTED, **kwargs)
        first = next(it)
        resumed = iterator(paths, **AUGMENTED, **kwargs)
        resumed.load_state_dict(it.state_dict())
        rest, again = list(it), list(resumed)
        assert len(rest) == 2
        for a, b in zip(rest, again, strict=True):
            assert np.array_equal(a.data[0].asnumpy(), b.data[0].asnumpy())
            assert np.array_equal(a.label[0].asnumpy(), b.label[0].asnumpy())
        runs.append([first, *rest])
    for run in runs[1:]:
        for a, b in zip(run, runs[0], strict=True):
            assert np.array_equal(a.data[0].asnumpy(), b.data[0].asnumpy())
            assert np.array_equal(a.label[0].asnumpy(), b.label[0].asnumpy())


@pytest.mark.parametrize(
    "labels,match",
    [
        ([2, 5, 0, 0.1], "it has 4 labels; at least 7"),
        ([1, 5, 0, *BOX], "the header has 1 numbers"),
        ([2, 4, 0, *BOX], "an object 4"),
        ([2, 5, 0, *BOX, 1], "no multiple of 5"),
        ([2, float("nan"), 0, *BOX], "an object nan"),
        ([1e30, 5, 0, *BOX], "the header has 1e"),
    ],
)
def test_wrong_labels_are_named_or_left_out(tmp_path, labels, match):
    paths = write(tmp_path, [one_box(), labels, one_box()])
    with pytest.raises(MXNetError, match="a.rec: at offset .* image 1: .*" + match):
        list(iterator(paths))
    it = iterator(paths, on_error="skip", batch_size=2)
    assert [b.index.tolist() for b in it] == [[0, 2]]
    assert it.skipped == 1


def test_records_without_labels_are_an_error(tmp_path):
    paths = write(tmp_path, [one_box()])
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        image = _plait.encode_image(np.zeros((4, 4, 3), "uint8"), ".png", 1)
        writer.write_idx(0, recordio.pack((0, 3.0, 0, 0), image))
    with pytest.raises(MXNetError, match="it has 0 labels"):
        next(iterator(paths))


@pytest.mark.parametrize(
    "kwargs,match",
    [
        ({"label_pad_width": 5}, "label_pad_width is 5; an image has 7 labels"),
        ({"label_width": 0}, "label_width is 0"),
        ({"label_width": "many"}, "label_width is 'many'"),
        ({"resize_mode": "stretch"}, "resize_mode is 'stretch'"),
        ({"crop_emit_mode": "none"}, "crop_emit_mode is 'none'"),
        ({"min_crop_scales": (0.1, 0.2)}, "min_crop_scales has 2 values"),
        ({"min_crop_scales": "a"}, "min_crop_scales is no number"),
        ({"min_crop_scales": 0.5, "max_crop_scales": 0.4}, "are no range"),
        ({"max_crop_scales": 2}, "at most 1"),
        ({"min_crop_overlaps": 0.5, "max_crop_overlaps": 0.1}, "are no range"),
        ({"max_pad_scale": 0.5}, "max_pad_scale is 0.5"),
        ({"inter_method": 7}, "inter_method is 7"),
    ],
)
def test_wrong_arguments(tmp_path, kwargs, match):
    paths = write(tmp_path, [one_box()])
    with pytest.raises(MXNetValueError, match=match):
        iterator(paths, **kwargs)


def test_a_fixed_label_width_is_checked(tmp_path):
    paths = write(tmp_path, [one_box()])
    assert next(iterator(paths, label_width=7)).label[0].shape == (4, 11)
    with pytest.raises(MXNetError, match="it has 7 labels; label_width is 8"):
        next(iterator(paths, label_width=8))


def test_labels_come_from_a_list(tmp_path):
    paths = write(tmp_path, [one_box(), one_box()])
    rows = ["%d\t%s\tx.png\n" % (i, "\t".join(map(str, one_box(5)))) for i in (0, 1)]
    (tmp_path / "a.lst").write_text("".join(rows))
    it = iterator(paths, path_imglist=str(tmp_path / "a.lst"), batch_size=2)
    assert it.provide_label[0].shape == (2, 11)
    assert np.allclose(next(it).label[0].asnumpy()[:, 4:], one_box(5))
