"""Augmenters: objects that change an image, mostly by chance.

Their chances come from Python's `random` (LightingAug: from `numpy.random`), as MXNet's
do. Unlike MXNet's they leave the image that they are given as it is.
"""

import json
import random
import warnings

import numpy as np

from .. import ndarray as nd
from ..error import check
from .functions import (
    center_crop,
    color_normalize,
    imresize,
    random_crop,
    random_size_crop,
    resize_short,
)

__all__ = [
    "Augmenter",
    "BrightnessJitterAug",
    "CastAug",
    "CenterCropAug",
    "ColorJitterAug",
    "ColorNormalizeAug",
    "ContrastJitterAug",
    "CreateAugmenter",
    "ForceResizeAug",
    "HorizontalFlipAug",
    "HueJitterAug",
    "LightingAug",
    "RandomCropAug",
    "RandomGrayAug",
    "RandomOrderAug",
    "RandomSizedCropAug",
    "ResizeAug",
    "SaturationJitterAug",
    "SequentialAug",
]

_GRAY = (0.299, 0.587, 0.114)
# Red, green, blue to luma and two chromas, and back.
_TO_YIQ = np.array([_GRAY, (0.596, -0.274, -0.321), (0.211, -0.523, 0.311)])
_FROM_YIQ = np.array([(1.0, 0.956, 0.621), (1.0, -0.272, -0.647), (1.0, -1.107, 1.705)])
# Principal components of the colours of ImageNet.
EIGENVALUES = np.array([55.46, 4.794, 1.148])
EIGENVECTORS = np.array(
    [
        [-0.5675, 0.7192, 0.4009],
        [-0.5808, -0.0045, -0.8140],
        [-0.5836, -0.6948, 0.4203],
    ]
)
MEAN = (123.68, 116.28, 103.53)
STD = (58.395, 57.12, 57.375)


def _plain(value):
    if isinstance(value, nd.NDArray):
        value = value.asnumpy()
    return value.tolist() if isinstance(value, np.ndarray) else value


class Augmenter:
    """Base. A subclass has __call__(src), which gives an image."""

    def __init__(self, **kwargs):
        self._kwargs = {name: _plain(value) for name, value in kwargs.items()}

    def dumps(self):
        """A JSON text: the class's name in lower case, and its arguments."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src):
        raise NotImplementedError("Must override implementation.")


class SequentialAug(Augmenter):
    """Augmenters, one after the other."""

    def __init__(self, ts):
        super().__init__()
        self.ts = ts

    def dumps(self):
        return [type(self).__name__.lower(), [t.dumps() for t in self.ts]]

    def __call__(self, src):
        for t in self.ts:
            src = t(src)
        return src


class RandomOrderAug(SequentialAug):
    """Augmenters in an order by chance."""

    def __call__(self, src):
        random.shuffle(self.ts)
        return super().__call__(src)


class ResizeAug(Augmenter):
    """The shorter edge to `size`."""

    def __init__(self, size, interp=2):
        super().__init__(size=size, interp=interp)
        self.size = size
        self.interp = interp

    def __call__(self, src):
        return resize_short(src, self.size, self.interp)


class ForceResizeAug(ResizeAug):
    """To (width, height) `size`, whatever the proportions."""

    def __call__(self, src):
        return imresize(src, *self.size, interp=self.interp)


class RandomCropAug(ResizeAug):
    """A rectangle of (width, height) `size` anywhere."""

    def __call__(self, src):
        return random_crop(src, self.size, self.interp)[0]


class CenterCropAug(ResizeAug):
    """A rectangle of (width, height) `size` in the middle."""

    def __call__(self, src):
        return center_crop(src, self.size, self.interp)[0]


class RandomSizedCropAug(Augmenter):
    """A rectangle of random area and proportions, resized; see random_size_crop."""

    def __init__(self, size, area, ratio, interp=2, **kwargs):
        super().__init__(size=size, area=area, ratio=ratio, interp=interp)
        if "min_area" in kwargs:
            warnings.warn(
                "`min_area` is deprecated. Please use `area` instead.",
                DeprecationWarning,
                stacklevel=2,
            )
            area = kwargs.pop("min_area")
        check(not kwargs, "RandomSizedCropAug: unexpected arguments %s", sorted(kwargs))
        self.size = size
        self.area = area
        self.ratio = ratio
        self.interp = interp

    def __call__(self, src):
        return random_size_crop(src, self.size, self.area, self.ratio, self.interp)[0]


class BrightnessJitterAug(Augmenter):
    """Brighter or darker by a share of up to `brightness`."""

    def __init__(self, brightness):
        super().__init__(brightness=brightness)
        self.brightness = brightness

    def __call__(self, src):
        return src * (1.0 + random.uniform(-self.brightness, self.brightness))


class ContrastJitterAug(Augmenter):
    """More or less contrast around the mean brightness."""

    def __init__(self, contrast):
        super().__init__(contrast=contrast)
        self.contrast = contrast
        self.coef = nd.array([[_GRAY]], dtype="float32")

    def __call__(self, src):
        alpha = 1.0 + random.uniform(-self.contrast, self.contrast)
        gray = src * self.coef
        return src * alpha + nd.sum(gray) * (3.0 * (1.0 - alpha) / gray.size)


class SaturationJitterAug(Augmenter):
    """More or less colour around each pixel's brightness."""

    def __init__(self, saturation):
        super().__init__(saturation=saturation)
        self.saturation = saturation
        self.coef = nd.array([[_GRAY]], dtype="float32")

    def __call__(self, src):
        alpha = 1.0 + random.uniform(-self.saturation, self.saturation)
        gray = nd.sum(src * self.coef, axis=2, keepdims=True)
        return src * alpha + gray * (1.0 - alpha)


class HueJitterAug(Augmenter):
    """Colours turned on their circle by up to `hue` half turns."""

    def __init__(self, hue):
        super().__init__(hue=hue)
        self.hue = hue
        self.tyiq = _TO_YIQ
        self.ityiq = _FROM_YIQ

    def __call__(self, src):
        alpha = random.uniform(-self.hue, self.hue)
        u, w = np.cos(alpha * np.pi), np.sin(alpha * np.pi)
        turn = np.array([[1.0, 0.0, 0.0], [0.0, u, -w], [0.0, w, u]])
        turn = (self.ityiq @ turn @ self.tyiq).T
        return nd.dot(src, nd.array(turn, dtype="float32"))


class ColorJitterAug(RandomOrderAug):
    """Brightness, contrast and saturation in an order by chance."""

    def __init__(self, brightness, contrast, saturation):
        ts = []
        if brightness > 0:
            ts.append(BrightnessJitterAug(brightness))
        if contrast > 0:
            ts.append(ContrastJitterAug(contrast))
        if saturation > 0:
            ts.append(SaturationJitterAug(saturation))
        super().__init__(ts)


class LightingAug(Augmenter):
    """Adds one colour, along the principal components of colours."""

    def __init__(self, alphastd, eigval, eigvec):
        super().__init__(alphastd=alphastd, eigval=eigval, eigvec=eigvec)
        self.alphastd = alphastd
        self.eigval = eigval
        self.eigvec = eigvec

    def __call__(self, src):
        alpha = np.random.normal(0, self.alphastd, size=(3,))
        color = np.dot(self.eigvec * alpha, self.eigval)
        return src + nd.array(color, dtype="float32")


class ColorNormalizeAug(Augmenter):
    """(image - mean) / std."""

    def __init__(self, mean, std):
        super().__init__(mean=mean, std=std)

        def array(x):
            if x is None or isinstance(x, nd.NDArray):
                return x
            return nd.array(x, dtype="float32")

        self.mean = array(mean)
        self.std = array(std)

    def __call__(self, src):
        return color_normalize(src, self.mean, self.std)


class RandomGrayAug(Augmenter):
    """Gray, still with three channels, with the probability p."""

    def __init__(self, p):
        super().__init__(p=p)
        self.p = p
        mat = [[0.21] * 3, [0.72] * 3, [0.07] * 3]
        self.mat = nd.array(mat, dtype="float32")

    def __call__(self, src):
        return nd.dot(src, self.mat) if random.random() < self.p else src


class HorizontalFlipAug(Augmenter):
    """Left and right exchanged with the probability p."""

    def __init__(self, p):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src):
        return nd.flip(src, axis=1) if random.random() < self.p else src


class CastAug(Augmenter):
    """To another dtype."""

    def __init__(self, typ="float32"):
        super().__init__(type=typ)
        self.typ = typ

    def __call__(self, src):
        return src.astype(self.typ)


def colour_augmenters(brightness, contrast, saturation, hue, pca_noise, rand_gray):
    """What CreateAugmenter and CreateDetAugmenter do to colours, as a list."""
    found = []
    if brightness or contrast or saturation:
        found.append(ColorJitterAug(brightness, contrast, saturation))
    if hue:
        found.append(HueJitterAug(hue))
    if pca_noise > 0:
        found.append(LightingAug(pca_noise, EIGENVALUES, EIGENVECTORS))
    if rand_gray > 0:
        found.append(RandomGrayAug(rand_gray))
    return found


def normalizers(mean, std):
    """A list with a ColorNormalizeAug, unless mean and std are None."""

    def numbers(name, value, default):
        if value is True:
            return np.array(default)
        check(
            value is None
            or (
                isinstance(value, (np.ndarray, nd.NDArray)) and value.shape[0] in (1, 3)
            ),
            "CreateAugmenter: %s is %s; None, True or an array of 1 or 3 numbers was "
            "expected",
            name,
            value,
        )
        return value

    mean, std = numbers("mean", mean, MEAN), numbers("std", std, STD)
    return [] if mean is None and std is None else [ColorNormalizeAug(mean, std)]


def CreateAugmenter(
    data_shape,
    resize=0,
    rand_crop=False,
    rand_resize=False,
    rand_mirror=False,
    mean=None,
    std=None,
    brightness=0,
    contrast=0,
    saturation=0,
    hue=0,
    pca_noise=0,
    rand_gray=0,
    inter_method=2,
):
    """The usual augmenters for images of data_shape (channels, height, width).

    resize: the shorter edge first, above 0. rand_crop: a rectangle anywhere, else in
    the middle; with rand_resize of random size too. mean, std: arrays, or True for
    those of ImageNet. brightness to hue, pca_noise: how much; rand_gray: a probability.
    """
    found = [ResizeAug(resize, inter_method)] if resize > 0 else []
    size = data_shape[2], data_shape[1]
    if rand_resize:
        check(rand_crop, "CreateAugmenter: rand_resize needs rand_crop")
        found.append(RandomSizedCropAug(size, 0.08, (3 / 4, 4 / 3), inter_method))
    elif rand_crop:
        found.append(RandomCropAug(size, inter_method))
    else:
        found.append(CenterCropAug(size, inter_method))
    if rand_mirror:
        found.append(HorizontalFlipAug(0.5))
    found.append(CastAug())
    found += colour_augmenters(
        brightness, contrast, saturation, hue, pca_noise, rand_gray
    )
    return found + normalizers(mean, std)
