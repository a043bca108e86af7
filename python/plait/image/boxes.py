"""Augmenters for detection: they change an image and the boxes of its objects.

A label is a NumPy array (objects, 5 or more): class, left, top, right, bottom, as
shares of the image's width and height.
"""

import json
import math
import random
import warnings
from numbers import Number

import numpy as np

from .. import ndarray as nd
from ..error import MXNetTypeError, MXNetValueError, check
from .augment import Augmenter, _plain
from .functions import copyMakeBorder, fixed_crop

__all__ = [
    "CreateMultiRandCropAugmenter",
    "DetAugmenter",
    "DetBorrowAug",
    "DetHorizontalFlipAug",
    "DetRandomCropAug",
    "DetRandomPadAug",
    "DetRandomSelectAug",
]


def _range(value):
    return (value, value) if isinstance(value, Number) else value


def areas(boxes):
    """Areas of boxes (left, top, right, bottom)."""
    sizes = np.maximum(0, boxes[:, 2:4] - boxes[:, :2])
    return sizes[:, 0] * sizes[:, 1]


class DetAugmenter:
    """Base. A subclass has __call__(src, label), which gives an image and a label."""

    def __init__(self, **kwargs):
        self._kwargs = {name: _plain(value) for name, value in kwargs.items()}

    def dumps(self):
        """A JSON text: the class's name in lower case, and its arguments."""
        return json.dumps([type(self).__name__.lower(), self._kwargs])

    def __call__(self, src, label):
        raise NotImplementedError("Must override implementation.")


class DetBorrowAug(DetAugmenter):
    """An augmenter that leaves boxes where they are."""

    def __init__(self, augmenter):
        if not isinstance(augmenter, Augmenter):
            raise MXNetTypeError(
                "DetBorrowAug: augmenter is of type %s; an Augmenter was expected"
                % type(augmenter).__name__
            )
        super().__init__(augmenter=augmenter.dumps())
        self.augmenter = augmenter

    def dumps(self):
        return [type(self).__name__.lower(), self.augmenter.dumps()]

    def __call__(self, src, label):
        return self.augmenter(src), label


class DetRandomSelectAug(DetAugmenter):
    """One of a list of augmenters, or with the probability skip_prob none."""

    def __init__(self, aug_list, skip_prob=0):
        super().__init__(skip_prob=skip_prob)
        if not isinstance(aug_list, (list, tuple)):
            aug_list = [aug_list]
        for aug in aug_list:
            if not isinstance(aug, DetAugmenter):
                raise MXNetValueError(
                    "DetRandomSelectAug: %r is no DetAugmenter" % (aug,)
                )
        self.aug_list = aug_list
        self.skip_prob = skip_prob if aug_list else 1

    def dumps(self):
        return [type(self).__name__.lower(), [a.dumps() for a in self.aug_list]]

    def __call__(self, src, label):
        if random.random() < self.skip_prob:
            return src, label
        return random.choice(self.aug_list)(src, label)


class DetHorizontalFlipAug(DetAugmenter):
    """Left and right exchanged with the probability p."""

    def __init__(self, p):
        super().__init__(p=p)
        self.p = p

    def __call__(self, src, label):
        if random.random() >= self.p:
            return src, label
        label = label.copy()
        label[:, [1, 3]] = 1.0 - label[:, [3, 1]]
        return nd.flip(src, axis=1), label


class _RandomArea(DetAugmenter):
    """What cropping and padding have in common: ranges, and attempts to meet them."""

    def _set(self, aspect_ratio_range, area_range, max_attempts, sound):
        self.aspect_ratio_range = aspect_ratio_range
        self.area_range = area_range
        self.max_attempts = max_attempts
        low, high = aspect_ratio_range
        self.enabled = sound and 0 < low <= high and area_range[0] <= area_range[1]
        if not self.enabled:
            warnings.warn(
                "%s does nothing: area_range %s, aspect_ratio_range %s"
                % (type(self).__name__, area_range, aspect_ratio_range),
                stacklevel=3,
            )

    def _attempts(self, height, width):
        """(proportions, smallest height, largest height) of each attempt."""
        if not self.enabled or height <= 0 or width <= 0:
            return
        for _ in range(self.max_attempts):
            ratio = random.uniform(*self.aspect_ratio_range)
            low, high = (
                int(round(math.sqrt(share * height * width / ratio)))
                for share in self.area_range
            )
            yield ratio, low, high


class DetRandomCropAug(_RandomArea):
    """A rectangle that keeps some of the objects.

    Of every object that it touches more than min_object_covered is inside. Objects of
    which no more than min_eject_coverage is left are forgotten. After max_attempts the
    image stays as it is.
    """

    def __init__(
        self,
        min_object_covered=0.1,
        aspect_ratio_range=(0.75, 1.33),
        area_range=(0.05, 1.0),
        min_eject_coverage=0.3,
        max_attempts=50,
    ):
        aspect_ratio_range, area_range = _range(aspect_ratio_range), _range(area_range)
        super().__init__(
            min_object_covered=min_object_covered,
            aspect_ratio_range=aspect_ratio_range,
            area_range=area_range,
            min_eject_coverage=min_eject_coverage,
            max_attempts=max_attempts,
        )
        self.min_object_covered = min_object_covered
        self.min_eject_coverage = min_eject_coverage
        self._set(aspect_ratio_range, area_range, max_attempts, area_range[1] > 0)

    def __call__(self, src, label):
        height, width = src.shape[:2]
        least, most = (share * height * width for share in self.area_range)
        for ratio, low, high in self._attempts(height, width):
            if round(high * ratio) > width:
                high = int((width + 0.4999999) / ratio)
            high = min(high, height)
            h = random.randint(min(low, high), high)
            w = int(round(h * ratio))
            if w * h < least:  # by rounding
                h, w = h + 1, int(round((h + 1) * ratio))
            elif w * h > most:
                h, w = h - 1, int(round((h - 1) * ratio))
            if not (least <= w * h <= most and 0 < w <= width and 0 < h <= height):
                continue
            y, x = random.randint(0, height - h), random.randint(0, width - w)
            if self._covers(label, x, y, x + w, y + h, width, height):
                inside = self._inside(label, (x, y, w, h), height, width)
                if inside is not None:
                    return fixed_crop(src, x, y, w, h), inside
        return src, label

    def _covers(self, label, left, top, right, bottom, width, height):
        """Whether enough of each object that is touched is inside."""
        if (right - left) * (bottom - top) < 2:
            return False
        boxes = label[areas(label[:, 1:]) * width * height > 2][:, 1:5]
        if len(boxes) < 1:
            return False
        inside = np.empty_like(boxes)
        inside[:, 0] = np.maximum(boxes[:, 0], left / width)
        inside[:, 1] = np.maximum(boxes[:, 1], top / height)
        inside[:, 2] = np.minimum(boxes[:, 2], right / width)
        inside[:, 3] = np.minimum(boxes[:, 3], bottom / height)
        covered = areas(inside) / areas(boxes)
        covered = covered[covered > 0]
        return covered.size > 0 and covered.min() > self.min_object_covered

    def _inside(self, label, crop, height, width):
        """The label in the rectangle; None where no object is left."""
        x, y, w, h = (
            crop[0] / width,
            crop[1] / height,
            crop[2] / width,
            crop[3] / height,
        )
        out = label.copy()
        out[:, [1, 3]] = np.clip((out[:, [1, 3]] - x) / w, 0, 1)
        out[:, [2, 4]] = np.clip((out[:, [2, 4]] - y) / h, 0, 1)
        before = np.maximum(areas(label[:, 1:]), 1e-12)
        left = areas(out[:, 1:]) * w * h / before
        sound = (out[:, 3] > out[:, 1]) & (out[:, 4] > out[:, 2])
        out = out[sound & (left > self.min_eject_coverage)]
        return out if len(out) else None


class DetRandomPadAug(_RandomArea):
    """The image on a larger ground of one colour."""

    def __init__(
        self,
        aspect_ratio_range=(0.75, 1.33),
        area_range=(1.0, 3.0),
        max_attempts=50,
        pad_val=(128, 128, 128),
    ):
        aspect_ratio_range, area_range = _range(aspect_ratio_range), _range(area_range)
        pad_val = (pad_val,) * 3 if isinstance(pad_val, Number) else pad_val
        super().__init__(
            aspect_ratio_range=aspect_ratio_range,
            area_range=area_range,
            max_attempts=max_attempts,
            pad_val=pad_val,
        )
        self.pad_val = pad_val
        self._set(aspect_ratio_range, area_range, max_attempts, area_range[1] > 1)

    def __call__(self, src, label):
        height, width = src.shape[:2]
        for ratio, low, high in self._attempts(height, width):
            if round(low * ratio) < width:
                low = int((width + 0.499999) / ratio)
            low = min(max(low, height), high)
            h = random.randint(low, high)
            w = int(round(h * ratio))
            if h - height < 2 or w - width < 2:
                continue  # hardly anything would be added
            y, x = random.randint(0, h - height), random.randint(0, w - width)
            label = label.copy()
            label[:, [1, 3]] = (label[:, [1, 3]] * width + x) / w
            label[:, [2, 4]] = (label[:, [2, 4]] * height + y) / h
            bottom, right = h - y - height, w - x - width
            return copyMakeBorder(src, y, bottom, x, right, values=self.pad_val), label
        return src, label


def CreateMultiRandCropAugmenter(
    min_object_covered=0.1,
    aspect_ratio_range=(0.75, 1.33),
    area_range=(0.05, 1.0),
    min_eject_coverage=0.3,
    max_attempts=50,
    skip_prob=0,
):
    """One of several DetRandomCropAug by chance; arguments that are lists have a value
    for each.
    """
    given = [
        p if isinstance(p, list) else [p]
        for p in (
            min_object_covered,
            aspect_ratio_range,
            area_range,
            min_eject_coverage,
            max_attempts,
        )
    ]
    number = max(len(p) for p in given)
    for p in given:
        check(
            len(p) in (1, number),
            "CreateMultiRandCropAugmenter: a list of %d values; 1 or %d were expected",
            len(p),
            number,
        )
    columns = [p if len(p) == number else p * number for p in given]
    return DetRandomSelectAug([DetRandomCropAug(*a) for a in zip(*columns)], skip_prob)
