"""Transforms of images: blocks from an image (height, width, channels) to another.

ToTensor and Normalize use array operators; the others compute on NumPy arrays.
Random numbers come from chance.current(): NumPy's global generator, or in a DataLoader
the sample's own. _step() describes a transform for C++ (SampleMaker).
"""

import math

import numpy as np

from .... import ndarray as nd
from ....base import numeric_types
from ....error import MXNetValueError
from ...block import Block, HybridBlock
from ...nn import HybridSequential, Sequential
from .. import chance
from . import pixels

__all__ = [
    "Compose",
    "Cast",
    "ToTensor",
    "Normalize",
    "Rotate",
    "RandomRotation",
    "RandomResizedCrop",
    "CropResize",
    "CenterCrop",
    "Resize",
    "RandomFlipLeftRight",
    "RandomFlipTopBottom",
    "RandomBrightness",
    "RandomContrast",
    "RandomSaturation",
    "RandomHue",
    "RandomColorJitter",
    "RandomLighting",
    "RandomApply",
    "HybridRandomApply",
]


class Compose(Sequential):
    """Transforms one after the other; neighbours that are hybrid are joined."""

    def __init__(self, transforms):
        super().__init__()
        run = []
        for transform in list(transforms) + [None]:
            if isinstance(transform, HybridBlock):
                run.append(transform)
                continue
            if len(run) == 1:
                self.add(run[0])
            elif run:
                joined = HybridSequential()
                joined.add(*run)
                joined.hybridize()
                self.add(joined)
            run = []
            if transform is not None:
                self.add(transform)


class Cast(HybridBlock):
    """Casts to a dtype."""

    def __init__(self, dtype="float32"):
        super().__init__()
        self._dtype = dtype

    def hybrid_forward(self, F, x):
        return F.cast(x, dtype=self._dtype)


class ToTensor(HybridBlock):
    """(H, W, C) of 0..255 to float32 (C, H, W) of 0..1; a batch keeps its
    first axis.
    """

    def hybrid_forward(self, F, x):
        axes = (2, 0, 1) if len(x.shape) == 3 else (0, 3, 1, 2)
        return F.cast(F.transpose(x, axes=axes), dtype="float32") / 255.0


class Normalize(HybridBlock):
    """(x - mean) / std by channel, of float (C, H, W) or a batch of them."""

    def __init__(self, mean=0.0, std=1.0):
        super().__init__()
        self._mean = mean
        self._std = std

    def hybrid_forward(self, F, x):
        self._check(x.shape)
        return F.broadcast_div(
            F.broadcast_sub(x, self._column(F, self._mean, x)),
            self._column(F, self._std, x),
        )

    def _check(self, shape):
        counts = {np.size(self._mean), np.size(self._std)}
        if (
            len(shape) not in (3, 4)
            or shape[-3] not in (1, 3)
            or not counts <= {1, shape[-3]}
        ):
            raise MXNetValueError(
                "Normalize: the shape is %s, mean has %d and std %d values; (C, H, W) "
                "or (N, C, H, W) with 1 or 3 channels was expected, and one value or "
                "one a channel" % (shape, np.size(self._mean), np.size(self._std))
            )

    @staticmethod
    def _column(F, values, x):
        """The values as an array (C, 1, 1) on the device of x."""
        values = values if isinstance(values, (tuple, list)) else [values]
        return F.array(np.reshape(values, (-1, 1, 1)), ctx=x.context, dtype=x.dtype)


class _Pixels(Block):
    """Base of transforms that compute on NumPy arrays in _pixels()."""

    def _pixels(self, image):
        raise NotImplementedError

    def forward(self, x):
        image = x.asnumpy()
        result = self._pixels(image)
        if result is image:
            return x
        return nd.array(np.ascontiguousarray(result), dtype=result.dtype, ctx=x.context)


def _pair(size):
    return (size, size) if isinstance(size, numeric_types) else tuple(size)


def _size_of_step(size):
    width, height = size
    return {"width": int(width), "height": int(height)}


def _check_float(x):
    if np.dtype(x.dtype) != np.float32:
        raise TypeError(
            "This transformation only supports float32. Consider calling it after "
            "ToTensor"
        )


class Rotate(_Pixels):
    """Turns a float32 (C, H, W) image by degrees."""

    def __init__(self, rotation_degrees, zoom_in=False, zoom_out=False):
        super().__init__()
        self._args = (rotation_degrees, zoom_in, zoom_out)

    def _pixels(self, image):
        _check_float(image)
        return pixels.rotate(image, *self._args)


class RandomRotation(_Pixels):
    """Turns a float32 (C, H, W) image by random degrees within angle_limits."""

    def __init__(
        self, angle_limits, zoom_in=False, zoom_out=False, rotate_with_proba=1.0
    ):
        super().__init__()
        if angle_limits[0] >= angle_limits[1]:
            raise ValueError("`angle_limits` must be an ordered tuple")
        if not 0 <= rotate_with_proba <= 1:
            raise ValueError(
                "Probability of rotating the image should be between 0 and 1"
            )
        self._limits = angle_limits
        self._zoom = (zoom_in, zoom_out)
        self._rotate_with_proba = rotate_with_proba

    def _pixels(self, image):
        if chance.current().unit() > self._rotate_with_proba:
            return image
        _check_float(image)
        return pixels.rotate(
            image, chance.current().uniform(*self._limits), *self._zoom
        )


class RandomResizedCrop(_Pixels):
    """A random part by area (scale) and aspect ratio, resized to `size` (width,
    height); antialias as Resize has it.
    """

    def __init__(
        self,
        size,
        scale=(0.08, 1.0),
        ratio=(3.0 / 4.0, 4.0 / 3.0),
        interpolation=1,
        antialias=False,
    ):
        super().__init__()
        scale = scale if isinstance(scale, (tuple, list)) else (scale, 1.0)
        self._args = (_pair(size), scale, ratio, interpolation, antialias)

    def _pixels(self, image):
        return pixels.random_resized_crop(image, *self._args)

    def _step(self):
        size, scale, ratio, interpolation, antialias = self._args
        if min(ratio) <= 0:
            return None
        return {
            "kind": "random_resized_crop",
            **_size_of_step(size),
            "interpolation": interpolation,
            "antialias": bool(antialias),
            "min_area": float(scale[0]),
            "max_area": float(scale[1]),
            "min_log_ratio": math.log(ratio[0]),
            "max_log_ratio": math.log(ratio[1]),
        }


class CropResize(_Pixels):
    """The rectangle at (x, y), resized where `size` is given."""

    def __init__(self, x, y, width, height, size=None, interpolation=None):
        super().__init__()
        self._rectangle = (x, y, width, height)
        self._size = size
        self._interpolation = 1 if interpolation is None else interpolation

    def _pixels(self, image):
        part = pixels.crop(image, *self._rectangle)
        if not self._size:
            return part
        return pixels.resize(part, self._size, False, self._interpolation)

    def _step(self):
        x, y, width, height = self._rectangle
        return {
            "kind": "crop",
            "x": x,
            "y": y,
            "part_width": width,
            "part_height": height,
            **(_size_of_step(_pair(self._size)) if self._size else {}),
            "interpolation": self._interpolation,
        }


class CenterCrop(_Pixels):
    """The middle, of `size` (width, height)."""

    def __init__(self, size, interpolation=1):
        super().__init__()
        self._args = (_pair(size), interpolation)

    def _pixels(self, image):
        return pixels.center_crop(image, *self._args)

    def _step(self):
        size, interpolation = self._args
        return {
            "kind": "center_crop",
            **_size_of_step(size),
            "interpolation": interpolation,
        }


class Resize(_Pixels):
    """Resizes to (width, height); a number is both, or with keep_ratio the shorter
    side. antialias: every pixel counts, as Pillow and torchvision resize.
    """

    def __init__(self, size, keep_ratio=False, interpolation=1, antialias=False):
        super().__init__()
        self._args = (size, keep_ratio, interpolation, antialias)

    def _pixels(self, image):
        return pixels.resize(image, *self._args)

    def _step(self):
        size, keep_ratio, interpolation, antialias = self._args
        whole = isinstance(size, (int, np.integer))
        return {
            "kind": "resize",
            **_size_of_step(_pair(size)),
            "keep_ratio": bool(keep_ratio and whole),
            "interpolation": interpolation,
            "antialias": bool(antialias),
        }


class RandomFlipLeftRight(_Pixels):
    """Mirrors left and right, every other time at random."""

    def _pixels(self, image):
        return image[..., ::-1, :] if chance.current().unit() < 0.5 else image

    def _step(self):
        return {"kind": "flip_left_right"}


class RandomFlipTopBottom(_Pixels):
    """Mirrors top and bottom, every other time at random."""

    def _pixels(self, image):
        return image[..., ::-1, :, :] if chance.current().unit() < 0.5 else image

    def _step(self):
        return {"kind": "flip_top_bottom"}


class _Jitter(_Pixels):
    """Base of changes by a random factor within 1 - amount and 1 + amount."""

    _change = None

    def __init__(self, amount):
        super().__init__()
        self._limits = (max(0, 1 - amount), 1 + amount)

    def _pixels(self, image):
        return type(self)._change(image, chance.current().uniform(*self._limits))


class RandomBrightness(_Jitter):
    """Multiplies all values by a random factor."""

    _change = staticmethod(pixels.brightness)

    def __init__(self, brightness):
        super().__init__(brightness)


class RandomContrast(_Jitter):
    """Moves values away from the mean grey, or towards it, by a random factor."""

    _change = staticmethod(pixels.contrast)

    def __init__(self, contrast):
        super().__init__(contrast)


class RandomSaturation(_Jitter):
    """Moves values away from their pixel's grey, or towards it, by a random factor."""

    _change = staticmethod(pixels.saturation)

    def __init__(self, saturation):
        super().__init__(saturation)


class RandomHue(_Jitter):
    """Turns colours on the colour circle by a random part of it."""

    _change = staticmethod(pixels.hue)

    def __init__(self, hue):
        super().__init__(hue)


class RandomColorJitter(_Pixels):
    """Brightness, contrast, saturation and hue, in random order."""

    def __init__(self, brightness=0, contrast=0, saturation=0, hue=0):
        super().__init__()
        jitters = (
            (RandomBrightness, brightness),
            (RandomContrast, contrast),
            (RandomSaturation, saturation),
            (RandomHue, hue),
        )
        self._steps = [kind(amount)._pixels for kind, amount in jitters if amount > 0]

    def _pixels(self, image):
        for step in chance.shuffled(self._steps):
            image = step(image)
        return image


class RandomLighting(_Pixels):
    """AlexNet's colour noise, of standard deviation alpha."""

    def __init__(self, alpha):
        super().__init__()
        self._alpha = alpha

    def _pixels(self, image):
        return pixels.lighting(image, self._alpha)


class RandomApply(Sequential):
    """Applies a transform with probability p."""

    def __init__(self, transforms, p=0.5):
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, x):
        return x if self.p < chance.current().unit() else self.transforms(x)


class HybridRandomApply(RandomApply):
    """Applies a transform with probability p."""


# Those that C++ can do, by _step().
STEPS = frozenset(
    (
        Resize,
        CropResize,
        CenterCrop,
        RandomResizedCrop,
        RandomFlipLeftRight,
        RandomFlipTopBottom,
    )
)
