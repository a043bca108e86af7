"""mx.image for detection: boxes follow what is done to the image."""

import random

import numpy as np
import pytest

import plait as mx
from plait import _plait, recordio
from plait.error import MXNetValueError

pytestmark = pytest.mark.skipif(
    not _plait.features()["OPENCV"], reason="this build has no codecs of images"
)


def marked(height=40, width=60, boxes=((0.25, 0.5, 0.5, 0.75),)):
    """A dark image with a bright rectangle for each box, and its label."""
    image = np.zeros((height, width, 3), "uint8")
    for left, top, right, bottom in boxes:
        rows = slice(round(top * height), round(bottom * height))
        image[rows, round(left * width) : round(right * width)] = 255
    label = np.array([[i, *box] for i, box in enumerate(boxes)])
    return mx.nd.array(image, dtype="uint8"), label


def assert_follows(image, label):
    """The bright pixels of the image are those of the only box."""
    x = image.asnumpy()[..., 0]
    height, width = x.shape
    rows, columns = np.nonzero(x > 200)
    found = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    wanted = label[0, 1:5] * [width, height, width, height]
    np.testing.assert_allclose(found, wanted, atol=0.51)


def test_flipping_moves_boxes():
    image, label = marked()
    before = label.copy()
    flipped, moved = mx.image.DetHorizontalFlipAug(1)(image, label)
    assert_follows(flipped, moved)
    np.testing.assert_allclose(moved[0, 1:], [0.5, 0.5, 0.75, 0.75])
    assert np.array_equal(label, before)
    assert mx.image.DetHorizontalFlipAug(0)(image, label)[1] is label


def test_cropping_keeps_objects_and_their_places():
    random.seed(4)
    aug = mx.image.DetRandomCropAug(0.5, (0.5, 2), (0.2, 0.9), 0.3)
    cropped = 0
    for _ in range(30):
        image, label = marked()
        new, moved = aug(image, label)
        if new.shape != image.shape:
            cropped += 1
            assert 0.2 <= new.shape[0] * new.shape[1] / 2400 <= 0.9
        assert_follows(new, moved)
    assert cropped > 20


def test_objects_that_are_cropped_away_are_forgotten():
    random.seed(5)
    image, label = marked(boxes=((0, 0, 0.2, 0.2), (0.7, 0.7, 1, 1)))
    aug = mx.image.DetRandomCropAug(0, (1, 1), (0.1, 0.3), 0.9, 9000)
    counts = {len(aug(image, label)[1]) for _ in range(30)}
    assert counts == {1}


def test_padding_moves_boxes():
    random.seed(6)
    aug = mx.image.DetRandomPadAug((0.8, 1.6), (1.2, 3), pad_val=7)
    for _ in range(20):
        image, label = marked()
        new, moved = aug(image, label)
        assert_follows(new, moved)
        assert new.shape[0] > 40 and new.shape[1] > 60
        assert new.asnumpy()[0, 0, 0] in (0, 7)


def test_wrong_augmenters():
    with pytest.warns(UserWarning, match="does nothing"):
        aug = mx.image.DetRandomPadAug(area_range=(0.5, 0.9))
    image, label = marked()
    assert aug(image, label)[0] is image
    with pytest.raises(TypeError, match="an Augmenter was expected"):
        mx.image.DetBorrowAug(aug)
    with pytest.raises(MXNetValueError, match="no DetAugmenter"):
        mx.image.DetRandomSelectAug([mx.image.CastAug()])
    with pytest.raises(AssertionError, match="1 or 3 were expected"):
        mx.image.CreateMultiRandCropAugmenter([0.1, 0.2, 0.3], max_attempts=[1, 2])
    many = mx.image.CreateMultiRandCropAugmenter([0.1, 0.2, 0.3])
    assert len(many.aug_list) == 3


@pytest.fixture
def folder(tmp_path):
    for i in range(5):
        boxes = [(0.1 * k, 0.2, 0.1 * k + 0.3, 0.6) for k in range(i % 3 + 1)]
        image, label = marked(boxes=boxes)
        file = _plait.encode_image(image.asnumpy(), ".png", 3)
        (tmp_path / ("%d.png" % i)).write_bytes(file)
        numbers = [2, 5, *label.ravel()]
        with open(tmp_path / "a.lst", "a") as lst:
            fields = [str(i), *("%f" % n for n in numbers), "%d.png" % i]
            lst.write("\t".join(fields) + "\n")
    return tmp_path


def test_batches_have_room_for_the_most_objects(folder):
    lst = str(folder / "a.lst")
    it = mx.image.ImageDetIter(2, (3, 20, 30), path_imglist=lst, path_root=str(folder))
    assert it.label_shape == (3, 5)
    for _ in range(2):
        batches = list(it)
        assert [b.pad for b in batches] == [0, 0, 1]
        label = batches[0].label[0].asnumpy()
        assert label.shape == (2, 3, 5) and batches[0].data[0].shape == (2, 3, 20, 30)
        np.testing.assert_allclose(label[0, 0], [0, 0, 0.2, 0.3, 0.6], atol=1e-6)
        assert (label[0, 1:] == -1).all() and (label[1, 2] == -1).all()
        it.reset()
    other = mx.image.ImageDetIter(
        1, (3, 20, 30), imglist=[[2, 5, 0, 0.1, 0.1, 0.5, 0.5, "0.png"]],
        path_root=str(folder),
    )  # fmt: skip
    assert other.label_shape == (1, 5)
    assert it.sync_label_shape(other) is other and other.label_shape == (3, 5)
    assert next(other).label[0].shape == (1, 3, 5)
    with pytest.raises(MXNetValueError, match="reduce label count from 3 to 2"):
        it.reshape(label_shape=(2, 5))
    it.reshape(data_shape=(3, 10, 10))
    other.reset()
    drawn = next(other.draw_next(color=(255, 0, 0)))
    assert drawn.shape == (20, 30, 3) and (drawn[2, 3] == (255, 0, 0)).all()


def test_labels_of_records_that_make_no_sense_are_left_out(tmp_path):
    path = str(tmp_path / "a.rec")
    image, _ = marked()
    file = _plait.encode_image(image.asnumpy(), ".png", 3)
    with recordio.MXRecordIO(path, "w") as writer:
        for label in (
            [2, 5, 1, 0, 0, 1, 1],
            [2, 5, 1],
            [2, 5, 1, 0.5, 0, 0.5, 1],
            [2, 4, 1, 0, 0, 1],
            [9, 5, 1, 0, 0, 1, 1],
            [2, 5, 2, 0, 0, 1, 1],
        ):
            writer.write(recordio.pack((0, label, 0, 0), file))
    it = mx.image.ImageDetIter(2, (3, 20, 30), path_imgrec=path)
    assert it.label_shape == (1, 5)
    assert [list(b.label[0].asnumpy()[:, 0, 0]) for b in it] == [[1, 2]]
