"""Functions on images: NDArrays (height, width, channels), red first."""

import random
import warnings
from numbers import Number

import numpy as np

from .. import _plait
from .. import ndarray as nd
from ..error import MXNetError, MXNetOSError, MXNetTypeError, MXNetValueError, check

__all__ = [
    "center_crop",
    "color_normalize",
    "copyMakeBorder",
    "fixed_crop",
    "imdecode",
    "imread",
    "imresize",
    "imrotate",
    "random_crop",
    "random_rotate",
    "random_size_crop",
    "resize_short",
    "scale_down",
]


def _decode(buf, flag, to_rgb, out):
    image = _plait.decode_image_array(buf, int(flag), bool(to_rgb))
    if out is None:
        return image
    out[:] = image
    return out


def imread(filename, flag=1, to_rgb=True, out=None):
    """Reads an image file. flag: 1 colour, 0 gray, -1 as it is stored."""
    try:
        with open(filename, "rb") as file:
            buf = file.read()
    except OSError as error:
        raise MXNetOSError(
            "imread: %s: cannot be read: %s" % (filename, error.strerror)
        ) from None
    try:
        return _decode(buf, flag, to_rgb, out)
    except MXNetError as error:
        raise type(error)("imread: %s: %s" % (filename, error)) from None


def imdecode(buf, flag=1, to_rgb=True, out=None):
    """The image of a file's bytes: bytes, bytearray, or an array of uint8.

    flag: 1 colour, 0 gray, -1 as it is stored (with alpha and 16 bits, if it has them).
    to_rgb: red first; else blue first, as OpenCV has it. A JPEG is turned as its EXIF
    data says, unless 128 is added to flag.
    """
    if isinstance(buf, nd.NDArray):
        buf = buf.asnumpy()
    if isinstance(buf, np.ndarray):
        buf = np.ascontiguousarray(buf)
    elif not isinstance(buf, (bytes, bytearray, memoryview)):
        raise MXNetTypeError(
            "imdecode: buf is of type %s; bytes, bytearray or an array of uint8 was "
            "expected" % type(buf).__name__
        )
    return _decode(buf, flag, to_rgb, out)


def imresize(src, w, h, interp=1, out=None, antialias=False):
    """src with width w and height h.

    interp: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos; 9 cubic to enlarge, area to
    shrink, else linear; 10 one of the first five by chance. antialias: every pixel
    counts, as Pillow and torchvision resize; not with 0.
    """
    interp = _get_interp_method(interp, (src.shape[0], src.shape[1], h, w))
    if antialias:
        from ..gluon.data.vision import pixels

        made = pixels.resize(src.asnumpy(), (w, h), False, interp, True)
        made = nd.array(made, dtype=made.dtype)
        if out is None:
            return made
        out[:] = made
        return out
    return nd._internal._cvimresize(src, w=w, h=h, interp=interp, out=out)


def copyMakeBorder(src, top, bot, left, right, type=0, value=0, values=(), out=None):
    """src with pixels added at its edges.

    type: 0 constant (`values`, one for each channel), 1 the edge's pixel, 2 mirrored, 3
    from the other side, 4 mirrored without the edge.
    """
    return nd._internal._cvcopyMakeBorder(
        src,
        top=top,
        bot=bot,
        left=left,
        right=right,
        type=type,
        value=value,
        values=tuple(float(v) for v in values),
        out=out,
    )


def scale_down(src_size, size):
    """The (width, height) `size` made smaller, in proportion, to fit into src_size."""
    w, h = size
    sw, sh = src_size
    if sh < h:
        w, h = float(w * sh) / h, sh
    if sw < w:
        w, h = sw, float(h * sw) / w
    return int(w), int(h)


def _get_interp_method(interp, sizes=()):
    """0 to 4 for 0 to 10. sizes: (old height, old width, new height, new width)."""
    if interp == 9:
        if not sizes:
            return 2
        old_height, old_width, height, width = sizes
        if height > old_height and width > old_width:
            return 2
        return 3 if height < old_height and width < old_width else 1
    if interp == 10:
        return random.randint(0, 4)
    if interp not in (0, 1, 2, 3, 4):
        raise MXNetValueError(
            "imresize: interp is %s; 0 to 4, 9 or 10 was expected" % (interp,)
        )
    return interp


def resize_short(src, size, interp=2):
    """src with its shorter edge of `size` pixels and the same proportions."""
    h, w = src.shape[:2]
    if h > w:
        new_h, new_w = size * h // w, size
    else:
        new_h, new_w = size, size * w // h
    return imresize(src, new_w, new_h, interp)


def fixed_crop(src, x0, y0, w, h, size=None, interp=2):
    """The rectangle at (x0, y0), resized to (width, height) `size` if that is given."""
    if size is not None and (w, h) == tuple(size):
        size = None
    out = nd.image.crop(src, x=int(x0), y=int(y0), width=int(w), height=int(h))
    return out if size is None else imresize(out, size[0], size[1], interp)


def random_crop(src, size, interp=2):
    """(image, (x, y, width, height)): a rectangle of `size` (width, height)."""
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    x0 = random.randint(0, w - new_w)
    y0 = random.randint(0, h - new_h)
    out = fixed_crop(src, x0, y0, new_w, new_h, size, interp)
    return out, (x0, y0, new_w, new_h)


def center_crop(src, size, interp=2):
    """(image, (x, y, width, height)): a rectangle of `size` in the middle."""
    h, w = src.shape[:2]
    new_w, new_h = scale_down((w, h), size)
    x0 = (w - new_w) // 2
    y0 = (h - new_h) // 2
    out = fixed_crop(src, x0, y0, new_w, new_h, size, interp)
    return out, (x0, y0, new_w, new_h)


def color_normalize(src, mean, std=None):
    """(src - mean) / std."""
    if mean is not None:
        src = src - mean
    if std is not None:
        src = src / std
    return src


def random_size_crop(src, size, area, ratio, interp=2, **kwargs):
    """(image, (x, y, width, height)): a rectangle of random size, resized to `size`.

    area: its smallest and largest share of the image, or the smallest. ratio: the range
    of width / height. When ten attempts do not fit, the middle of the image.
    """
    if "min_area" in kwargs:
        warnings.warn(
            "`min_area` is deprecated. Please use `area` instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        area = kwargs.pop("min_area")
    check(not kwargs, "random_size_crop: unexpected arguments %s", sorted(kwargs))
    if isinstance(area, Number):
        area = (area, 1.0)
    h, w = src.shape[:2]
    logs = np.log(ratio[0]), np.log(ratio[1])
    for _ in range(10):
        target = random.uniform(*area) * h * w
        new_ratio = np.exp(random.uniform(*logs))
        new_w = int(round(np.sqrt(target * new_ratio)))
        new_h = int(round(np.sqrt(target / new_ratio)))
        if 0 < new_w <= w and 0 < new_h <= h:
            x0 = random.randint(0, w - new_w)
            y0 = random.randint(0, h - new_h)
            out = fixed_crop(src, x0, y0, new_w, new_h, size, interp)
            return out, (x0, y0, new_w, new_h)
    return center_crop(src, size, interp)


def _zoom(height, width, radians, zoom_out):
    """By how much turned images grow or shrink, (batch, 1, 1)."""
    rho, angle = np.hypot(height, width), np.arctan2(height, width)
    turned = np.abs(radians)
    x = rho * np.maximum(np.abs(np.cos(angle + turned)), np.abs(np.cos(angle - turned)))
    y = rho * np.maximum(np.abs(np.sin(angle + turned)), np.abs(np.sin(angle - turned)))
    if zoom_out:
        return np.maximum(x / width, y / height)
    return np.minimum(width / x, height / y)


def imrotate(src, rotation_degrees, zoom_in=False, zoom_out=False):
    """Turns an image (channels, height, width) of float32, or a batch of such.

    rotation_degrees: a number, or for a batch one for each image. zoom_in: nothing from
    outside the image is seen. zoom_out: all of the image is seen.
    """
    if zoom_in and zoom_out:
        raise MXNetValueError("imrotate: zoom_in and zoom_out cannot be both True")
    if src.dtype != np.float32:
        raise MXNetTypeError(
            "imrotate: src is of %s; float32 was expected" % np.dtype(src.dtype).name
        )
    if src.ndim not in (3, 4):
        raise MXNetValueError(
            "imrotate: src has %d axes; (channels, height, width) or a batch of such "
            "was expected" % src.ndim
        )
    single = src.ndim == 3
    scalar = isinstance(rotation_degrees, Number)
    if single:
        if not scalar:
            raise MXNetTypeError(
                "imrotate: one image and rotation_degrees of type %s; a number was "
                "expected" % type(rotation_degrees).__name__
            )
        src = src.expand_dims(axis=0)
    if scalar:
        degrees = np.full(src.shape[0], rotation_degrees, "float32")
    elif isinstance(rotation_degrees, nd.NDArray):
        degrees = rotation_degrees.asnumpy()
    else:
        degrees = np.asarray(rotation_degrees, "float32")
    if len(degrees) != src.shape[0]:
        raise MXNetValueError(
            "imrotate: %d images and %d angles; as many were expected"
            % (src.shape[0], len(degrees))
        )
    radians = np.deg2rad(degrees.astype("float64"))[:, None, None]
    h, w = src.shape[2:]
    # Places of pixels around the middle. They are turned before they are scaled to
    # [-1, 1], which keeps the proportions.
    y = (np.arange(h) - (h - 1) / 2)[None, :, None]
    x = (np.arange(w) - (w - 1) / 2)[None, None, :]
    cos, sin = np.cos(radians), np.sin(radians)
    grid = np.stack(
        [
            (x * cos - y * sin) / max((w - 1) / 2, 0.5),
            (x * sin + y * cos) / max((h - 1) / 2, 0.5),
        ],
        axis=1,
    )
    if zoom_in or zoom_out:
        grid *= _zoom(h, w, radians, zoom_out)[:, None]
    out = nd.BilinearSampler(src, nd.array(grid.astype("float32"), ctx=src.context))
    return out[0] if single else out


def random_rotate(src, angle_limits, zoom_in=False, zoom_out=False):
    """imrotate by angles of the range `angle_limits`, by chance."""
    if src.ndim == 3:
        degrees = np.random.uniform(*angle_limits)
    else:
        degrees = np.random.uniform(*angle_limits, size=src.shape[0])
    return imrotate(src, degrees, zoom_in, zoom_out)
