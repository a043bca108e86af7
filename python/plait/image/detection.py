"""ImageDetIter: batches of images with boxes of their objects."""

import logging

import numpy as np

from .. import ndarray as nd
from ..error import MXNetRuntimeError, MXNetValueError, check
from . import boxes
from .augment import (
    CastAug,
    ForceResizeAug,
    ResizeAug,
    colour_augmenters,
    normalizers,
)
from .boxes import *  # noqa: F403
from .boxes import (
    CreateMultiRandCropAugmenter,
    DetBorrowAug,
    DetHorizontalFlipAug,
    DetRandomPadAug,
    DetRandomSelectAug,
)
from .iterator import ImageIter

__all__ = [*boxes.__all__, "CreateDetAugmenter", "ImageDetIter"]


def CreateDetAugmenter(
    data_shape,
    resize=0,
    rand_crop=0,
    rand_pad=0,
    rand_gray=0,
    rand_mirror=False,
    mean=None,
    std=None,
    brightness=0,
    contrast=0,
    saturation=0,
    pca_noise=0,
    hue=0,
    inter_method=2,
    min_object_covered=0.1,
    aspect_ratio_range=(0.75, 1.33),
    area_range=(0.05, 3.0),
    min_eject_coverage=0.3,
    max_attempts=50,
    pad_val=(127, 127, 127),
):
    """The usual augmenters for detection.

    rand_crop, rand_pad: probabilities. area_range: the smallest rectangle that is
    cropped and the largest ground to pad to, as shares of the image. The others are
    those of CreateAugmenter, DetRandomCropAug and DetRandomPadAug.
    """
    found = [DetBorrowAug(ResizeAug(resize, inter_method))] if resize > 0 else []
    if rand_crop > 0:
        found.append(
            CreateMultiRandCropAugmenter(
                min_object_covered,
                aspect_ratio_range,
                area_range,
                min_eject_coverage,
                max_attempts,
                skip_prob=1 - rand_crop,
            )
        )
    if rand_mirror > 0:
        found.append(DetHorizontalFlipAug(0.5))
    if rand_pad > 0:  # late, as it makes more pixels
        pad = DetRandomPadAug(
            aspect_ratio_range, (1.0, area_range[1]), max_attempts, pad_val
        )
        found.append(DetRandomSelectAug([pad], 1 - rand_pad))
    size = data_shape[2], data_shape[1]
    others = [ForceResizeAug(size, inter_method), CastAug()]
    others += colour_augmenters(
        brightness, contrast, saturation, hue, pca_noise, rand_gray
    )
    return found + [DetBorrowAug(aug) for aug in others + normalizers(mean, std)]


class ImageDetIter(ImageIter):
    """Batches of images, and labels (batch, objects, numbers of an object).

    The label of an image is [width of the head, numbers of an object, ... the head's
    rest, objects one after the other]; an object is [class, left, top, right, bottom,
    ...], as shares of the image. Rows without an object are -1. Arguments are those of
    ImageIter; kwargs go to CreateDetAugmenter.
    """

    def __init__(
        self,
        batch_size,
        data_shape,
        path_imgrec=None,
        path_imglist=None,
        path_root=None,
        path_imgidx=None,
        shuffle=False,
        part_index=0,
        num_parts=1,
        aug_list=None,
        imglist=None,
        data_name="data",
        label_name="label",
        last_batch_handle="pad",
        on_error="raise",
        **kwargs,
    ):
        super().__init__(
            batch_size,
            data_shape,
            path_imgrec=path_imgrec,
            path_imglist=path_imglist,
            path_root=path_root,
            path_imgidx=path_imgidx,
            shuffle=shuffle,
            part_index=part_index,
            num_parts=num_parts,
            aug_list=[],
            imglist=imglist,
            data_name=data_name,
            label_name=label_name,
            last_batch_handle=last_batch_handle,
            on_error=on_error,
        )
        if aug_list is None:
            aug_list = CreateDetAugmenter(self.data_shape, **kwargs)
        self.auglist = aug_list
        self.label_shape = self._estimate_label_shape()
        self.provide_label = [(label_name, (batch_size, *self.label_shape))]

    def _estimate_label_shape(self):
        """(most objects, numbers of an object) of all labels."""
        most, width = 0, 5
        self.reset()
        while True:
            try:
                label, _ = self.next_sample()
                label = self._parse_label(label)
                most, width = max(most, label.shape[0]), label.shape[1]
            except StopIteration:
                break
            except MXNetRuntimeError as error:
                logging.debug("%s: no label: %s", type(self).__name__, error)
        self.reset()
        return most, width

    def _parse_label(self, label):
        """The objects (objects, numbers) of a label as a record or a list has it."""
        raw = np.asarray(label.asnumpy() if isinstance(label, nd.NDArray) else label)
        raw = raw.ravel()
        if raw.size < 7:
            raise MXNetRuntimeError("Label shape is invalid: " + str(raw.shape))
        head, width = int(raw[0]), int(raw[1])
        if width < 5 or head < 2 or head > raw.size or (raw.size - head) % width:
            raise MXNetRuntimeError(
                "Label shape %s inconsistent with annotation width %d."
                % (raw.shape, width)
            )
        objects = raw[head:].reshape(-1, width)
        sound = (objects[:, 3] > objects[:, 1]) & (objects[:, 4] > objects[:, 2])
        if not sound.any():
            raise MXNetRuntimeError("Encounter sample with no valid label.")
        return objects[sound]

    def _batchify(self, batch_data, batch_label, start=0):
        i = start
        try:
            while i < self.batch_size:
                raw, data = self._sample()
                try:
                    self.check_valid_image([data])
                    data, label = self.augmentation_transform(
                        data, self._parse_label(raw)
                    )
                    self._check_valid_label(label)
                except MXNetRuntimeError as error:
                    logging.debug("Invalid image, skipping: %s", error)
                    continue
                batch_data[i] = self.postprocess_data(data)
                batch_label[i] = -1
                batch_label[i][: len(label)] = label
                i += 1
        except StopIteration:
            if i == 0:
                raise
        return i

    def _check_valid_label(self, label):
        if label.ndim != 2 or label.shape[1] < 5:
            raise MXNetRuntimeError(
                "Label with shape (1+, 5+) required, %s received." % (label.shape,)
            )
        sound = (label[:, 0] >= 0) & (label[:, 3] > label[:, 1])
        if not (sound & (label[:, 4] > label[:, 2])).any():
            raise MXNetRuntimeError("Invalid label occurs.")

    def augmentation_transform(self, data, label):
        """All augmenters, one after the other."""
        for aug in self.auglist:
            data, label = aug(data, label)
        return data, label

    def reshape(self, data_shape=None, label_shape=None):
        """Sets the shapes of an image and of its label, where they are given."""
        if data_shape is not None:
            self.check_data_shape(data_shape)
            name = self.provide_data[0][0]
            self.provide_data = [(name, (self.batch_size, *data_shape))]
            self.data_shape = data_shape
        if label_shape is not None:
            self.check_label_shape(label_shape)
            name = self.provide_label[0][0]
            self.provide_label = [(name, (self.batch_size, *label_shape))]
            self.label_shape = label_shape

    def check_label_shape(self, label_shape):
        """Raises unless all labels fit into the shape."""
        if len(label_shape) != 2:
            raise MXNetValueError("label_shape should have length 2")
        if label_shape[0] < self.label_shape[0]:
            raise MXNetValueError(
                "Attempts to reduce label count from %d to %d, not allowed."
                % (self.label_shape[0], label_shape[0])
            )
        if label_shape[1] != self.label_shape[1]:
            raise MXNetValueError(
                "label_shape object width inconsistent: %d vs %d."
                % (self.label_shape[1], label_shape[1])
            )

    def sync_label_shape(self, it, verbose=False):
        """Gives this and `it` the larger of their label shapes; returns `it`."""
        check(isinstance(it, ImageDetIter), "Synchronize with invalid iterator.")
        check(self.label_shape[1] == it.label_shape[1], "object width mismatch.")
        most = max(self.label_shape[0], it.label_shape[0])
        for one in (self, it):
            if most > one.label_shape[0]:
                one.reshape(None, (most, one.label_shape[1]))
                if verbose:
                    logging.info("Resized label_shape to %s.", one.label_shape)
        return it

    def draw_next(self, color=None, thickness=2, mean=None, std=None, clip=True):
        """Yields the next images as arrays (height, width, 3) of uint8, red first, with
        their boxes drawn. mean, std: what to undo of a normalisation.
        """
        from .augment import MEAN, STD

        while True:
            try:
                label, data = self._sample()
            except StopIteration:
                return
            data, label = self.augmentation_transform(data, self._parse_label(label))
            image = data.asnumpy().astype("float32")
            if std is not None:
                image *= np.array(STD) if std is True else std
            if mean is not None:
                image += np.array(MEAN) if mean is True else mean
            if clip:
                image = np.clip(image, 0, 255)
            image = image.astype("uint8")
            for box in label:
                if box[0] >= 0:
                    paint = color or tuple(np.random.randint(0, 256, 3))
                    draw_box(image, box[1:5], paint, thickness)
            yield image


def draw_box(image, box, color, thickness):
    """Draws a box (left, top, right, bottom), in shares of the image, into it."""
    height, width = image.shape[:2]
    left, right = (int(np.clip(x, 0, 1) * (width - 1)) for x in (box[0], box[2]))
    top, bottom = (int(np.clip(y, 0, 1) * (height - 1)) for y in (box[1], box[3]))
    inner = image[top : bottom + 1, left : right + 1]
    for edge in (
        inner[:thickness],
        inner[-thickness:],
        inner[:, :thickness],
        inner[:, -thickness:],
    ):
        edge[...] = color
