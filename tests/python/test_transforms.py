"""Transforms of images, checked by what they must do to simple pictures."""

import random

import numpy as np
import pytest

import plait as mx
from plait import nd
from plait.gluon.data.vision import transforms as T


@pytest.fixture
def picture():
    """A random picture of bytes, 8 high and 10 wide."""
    return np.random.randint(0, 256, (8, 10, 3)).astype(np.uint8)


def apply(transform, image):
    return transform(nd.array(image, dtype=image.dtype)).asnumpy()


def test_to_tensor_and_normalize(picture):
    x = apply(T.ToTensor(), picture)
    assert x.dtype == np.float32 and x.shape == (3, 8, 10)
    np.testing.assert_allclose(x, picture.transpose(2, 0, 1) / 255.0, rtol=1e-6)
    batch = apply(T.ToTensor(), picture[None])
    assert (batch[0] == x).all()
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 2.0)
    got = apply(T.Normalize(mean, std), x)
    column = (3, 1, 1)
    want = (x - np.reshape(mean, column)) / np.reshape(std, column)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert apply(T.Cast("float16"), x).dtype == np.float16


def test_resize_by_each_method(picture):
    ramp = np.repeat(np.arange(16, dtype=np.float32)[None, :, None], 4, 0)
    half = apply(T.Resize((8, 4)), ramp)
    np.testing.assert_allclose(half[0, :, 0], np.arange(8) * 2 + 0.5)
    double = apply(T.Resize((32, 4)), ramp)[0, :, 0]
    np.testing.assert_allclose(double[1:-1], np.arange(1, 31) / 2 - 0.25, atol=1e-6)
    np.testing.assert_allclose(double[[0, -1]], [0, 15])  # edges are repeated
    nearest = apply(T.Resize((5, 4), interpolation=0), picture)
    assert (nearest == picture[::2, ::2]).all()
    area = apply(T.Resize((5, 4), interpolation=3), picture)
    want = picture.reshape(4, 2, 5, 2, 3).mean(axis=(1, 3))
    assert np.abs(area - want).max() <= 0.5
    for method in (2, 4, 9, 10):
        same = np.full((6, 6, 3), 77, np.uint8)
        assert (apply(T.Resize((9, 4), interpolation=method), same) == 77).all()


def test_sizes_are_width_and_height(picture):
    assert apply(T.Resize((6, 4)), picture).shape == (4, 6, 3)
    assert apply(T.Resize(5), picture).shape == (5, 5, 3)
    assert apply(T.Resize(4, keep_ratio=True), picture).shape == (4, 5, 3)
    assert apply(T.Resize((6, 4)), picture[None]).shape == (1, 4, 6, 3)
    assert (apply(T.CenterCrop((4, 2)), picture) == picture[3:5, 3:7]).all()
    assert apply(T.CenterCrop((20, 4)), picture).shape == (4, 20, 3)
    assert apply(T.RandomResizedCrop((7, 5)), picture).shape == (5, 7, 3)


def test_crop_resize(picture):
    part = apply(T.CropResize(2, 1, 5, 4), picture)
    assert (part == picture[1:5, 2:7]).all()
    assert apply(T.CropResize(2, 1, 5, 4, (10, 8), 1), picture).shape == (8, 10, 3)
    assert apply(T.CropResize(0, 0, 2, 2), picture[None]).shape == (1, 2, 2, 3)
    with pytest.raises(ValueError, match="not inside an image of 10x8"):
        apply(T.CropResize(8, 0, 5, 4), picture)


def test_flips_happen_half_the_time(picture):
    for flip, axis in ((T.RandomFlipLeftRight(), 1), (T.RandomFlipTopBottom(), 0)):
        np.random.seed(0)
        mirrored = np.flip(picture, axis)
        count = 0
        for _ in range(60):
            got = apply(flip, picture)
            assert (got == picture).all() or (got == mirrored).all()
            count += (got == mirrored).all()
        assert 15 < count < 45


def test_colour_changes_by_nothing_change_nothing(picture):
    for kind in (T.RandomBrightness, T.RandomContrast, T.RandomSaturation, T.RandomHue):
        assert np.abs(apply(kind(0), picture).astype(int) - picture).max() <= 1
    assert (apply(T.RandomColorJitter(), picture) == picture).all()
    assert (apply(T.RandomLighting(0), picture) == picture).all()


def test_colour_changes_keep_what_they_promise(picture):
    values = picture.astype(np.float32)
    gray = values @ np.array([0.299, 0.587, 0.114], np.float32)
    np.random.seed(3)
    bright = apply(T.RandomBrightness(0.5), values)
    factor = bright.sum() / values.sum()
    assert 0.5 <= factor <= 1.5
    np.testing.assert_allclose(bright, values * factor, rtol=1e-4)
    luma = np.array([0.299, 0.587, 0.114], np.float32)
    for kind in (T.RandomSaturation, T.RandomHue):
        changed = apply(kind(0.5), values)
        assert np.abs(changed - values).max() > 1
        np.testing.assert_allclose(changed @ luma, gray, rtol=0.02, atol=1)
    flat = apply(T.RandomContrast(0.5), values)
    np.testing.assert_allclose((flat @ luma).mean(), gray.mean(), rtol=1e-4)
    light = apply(T.RandomLighting(0.1), values) - values
    np.testing.assert_allclose(
        light, np.broadcast_to(light[0, 0], light.shape), atol=1e-4
    )
    jittered = apply(T.RandomColorJitter(0.3, 0.3, 0.3, 0.1), picture)
    assert jittered.dtype == np.uint8 and (jittered != picture).any()


def test_bytes_are_limited_not_wrapped():
    white = np.full((4, 4, 3), 250, np.uint8)
    np.random.seed(0)
    assert min(apply(T.RandomBrightness(0.9), white).min() for _ in range(20)) >= 25
    for _ in range(20):
        got = apply(T.RandomBrightness(0.9), white)
        assert len(np.unique(got)) == 1 and 24 <= got[0, 0, 0] <= 255


def test_rotation():
    image = np.random.rand(3, 9, 9).astype(np.float32)
    # Positive degrees turn as MXNet does: towards the left for the viewer.
    turned = apply(T.Rotate(90), image)
    np.testing.assert_allclose(turned, np.rot90(image, 1, (1, 2)), atol=1e-5)
    np.testing.assert_allclose(apply(T.Rotate(0), image), image, atol=1e-6)
    ones = np.ones((1, 20, 30), np.float32)
    assert apply(T.Rotate(30), ones).min() == 0
    assert apply(T.Rotate(30, zoom_in=True), ones)[0, 1:-1, 1:-1].min() > 0.99
    whole = apply(T.Rotate(30, zoom_out=True), ones)
    assert whole[0, [0, -1]].sum() + whole[0, :, [0, -1]].sum() < ones.size / 10
    with pytest.raises(TypeError, match="only supports float32"):
        apply(T.Rotate(10), np.ones((3, 4, 4), np.uint8))
    with pytest.raises(ValueError, match="cannot be both"):
        apply(T.Rotate(10, True, True), ones)


def test_random_rotation():
    with pytest.raises(ValueError, match="ordered tuple"):
        T.RandomRotation((10, -10))
    with pytest.raises(ValueError, match="between 0 and 1"):
        T.RandomRotation((-1, 1), rotate_with_proba=2)
    image = np.random.rand(3, 9, 9).astype(np.float32)
    assert (apply(T.RandomRotation((-9, 9), rotate_with_proba=0), image) == image).all()
    assert (apply(T.RandomRotation((80, 85)), image) != image).any()


def test_compose_and_random_apply(picture):
    chain = T.Compose([T.Resize(4), T.ToTensor(), T.Normalize(0.5, 0.5)])
    got = apply(chain, picture)
    assert got.shape == (3, 4, 4) and got.min() >= -1 and got.max() <= 1
    assert len(chain) == 2  # the hybrid ones are joined
    random.seed(0)
    invert = T.RandomApply(T.Cast("float64"), p=0.3)
    kinds = [apply(invert, picture).dtype for _ in range(100)]
    assert 10 < kinds.count(np.float64) < 50


@pytest.mark.parametrize("size", [(17, 23), (53, 30), (80, 33), (120, 90), (7, 71)])
@pytest.mark.parametrize("interp,name", [(1, "BILINEAR"), (2, "BICUBIC"), (3, "BOX")])
def test_antialiased_resizing_is_that_of_pillow(size, interp, name):
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.RandomState(0).randint(0, 256, (53, 71, 3)).astype("uint8")
    method = getattr(image, "Resampling", image)
    wanted = image.fromarray(pixels).resize(size[::-1], getattr(method, name))
    array = mx.nd.array(pixels, dtype="uint8")
    made = mx.image.imresize(array, size[1], size[0], interp, antialias=True)
    assert np.array_equal(made.asnumpy(), np.asarray(wanted))
    resize = T.Resize(size[::-1], interpolation=interp, antialias=True)
    assert np.array_equal(resize(array).asnumpy(), np.asarray(wanted))
    floats = mx.image.imresize(
        array.astype("float32"), size[1], size[0], interp, antialias=True
    )
    # Bytes are kept within 0 and 255 between the passes, which cubic leaves.
    gap = np.abs(floats.asnumpy().clip(0, 255) - np.asarray(wanted))
    assert gap.max() < (20 if interp == 2 else 1.6)


def test_the_nearest_pixel_has_no_antialiasing():
    with pytest.raises(ValueError, match="nearest"):
        mx.image.imresize(mx.nd.zeros((4, 4, 3)), 2, 2, 0, antialias=True)
