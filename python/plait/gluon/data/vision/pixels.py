"""Image functions on NumPy arrays (height, width, channels), batches in
front allowed.
"""

import math

import numpy as np

from .... import _plait
from ....error import MXNetValueError
from .. import chance

_GRAY = np.array([0.299, 0.587, 0.114], np.float32)
# Principal axes of the colours of natural images.
_EIGENVALUES = np.array([55.46, 4.794, 1.148], np.float32)
_EIGENVECTORS = np.array(
    [
        [-0.5675, 0.7192, 0.4009],
        [-0.5808, -0.0045, -0.8140],
        [-0.5836, -0.6948, 0.4203],
    ],
    np.float32,
)
_TO_YIQ = np.array(
    [[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]]
)
_FROM_YIQ = np.array([[1.0, 0.956, 0.621], [1.0, -0.272, -0.647], [1.0, -1.107, 1.705]])


def like(values, image):
    """Float values rounded and limited to the dtype of an image."""
    if image.dtype.kind not in "iu":
        return values.astype(image.dtype)
    limits = np.iinfo(image.dtype)
    return np.clip(np.rint(values), limits.min, limits.max).astype(image.dtype)


def choose_interp(interp, old, new):
    """9 and 10 replaced by a method: by whether the image grows or shrinks, or at
    random.
    """
    if interp == 9:
        if new[0] > old[0] and new[1] > old[1]:
            return 2
        return 3 if new[0] < old[0] and new[1] < old[1] else 1
    return chance.current().whole(0, 4) if interp == 10 else interp


def resize(image, size, keep_ratio=False, interp=1, antialias=False):
    """The image with (width, height) `size`; a number is both, or with keep_ratio the
    less. antialias: as Pillow and torchvision resize.
    """
    height, width = image.shape[-3:-1]
    if isinstance(size, (int, np.integer)):
        if not keep_ratio:
            size = (size, size)
        elif height > width:
            size = (size, height * size // width)
        else:
            size = (width * size // height, size)
    if len(size) != 2 or min(size) < 1:
        raise MXNetValueError(
            "resize: the size is %s; (width, height) of at least 1 was expected"
            % (size,)
        )
    interp = choose_interp(interp, (height, width), (size[1], size[0]))
    if (size[1], size[0]) == (height, width):
        return image.copy()
    known = image.dtype in (np.uint8, np.int32, np.float32, np.float64)
    source = np.ascontiguousarray(image if known else image.astype(np.float32))
    out = np.empty((*image.shape[:-3], size[1], size[0], image.shape[-1]), source.dtype)
    for index in np.ndindex(image.shape[:-3]):
        _plait.resize_image(source[index], out[index], interp, antialias)
    return out if known else like(out, image)


def crop(image, x, y, width, height):
    """A rectangle of the image."""
    rows, columns = image.shape[-3:-1]
    if (
        x < 0
        or y < 0
        or width < 1
        or height < 1
        or x + width > columns
        or y + height > rows
    ):
        raise MXNetValueError(
            "crop: a rectangle of %dx%d at (%d, %d) is not inside an image of %dx%d "
            "(width x height)" % (width, height, x, y, columns, rows)
        )
    return image[..., y : y + height, x : x + width, :]


def center_crop(image, size, interp=1, antialias=False):
    """The middle of the image; scaled down to fit and then resized where it is too
    small.
    """
    height, width = image.shape[-3:-1]
    w, h = size
    if height < h:
        w, h = w * height / float(h), height
    if width < w:
        w, h = width, h * width / float(w)
    w, h = int(w), int(h)
    part = crop(image, (width - w) // 2, (height - h) // 2, w, h)
    if (w, h) == tuple(size):
        return part
    return resize(part, size, False, interp, antialias)


def random_resized_crop(image, size, area, ratio, interp=1, antialias=False):
    """A random rectangle by area and aspect ratio, resized; the middle after ten
    misses.
    """
    height, width = image.shape[-3:-1]
    draw = chance.current()
    for _ in range(10):
        wanted = draw.uniform(*area) * height * width
        aspect = chance.log_uniform(*ratio)
        w = int(round(math.sqrt(wanted * aspect)))
        h = int(round(math.sqrt(wanted / aspect)))
        if 0 < w <= width and 0 < h <= height:
            x, y = draw.whole(0, width - w), draw.whole(0, height - h)
            return resize(crop(image, x, y, w, h), size, False, interp, antialias)
    return center_crop(image, size, interp, antialias)


def brightness(image, factor):
    """Every value times `factor`."""
    return like(image.astype(np.float32) * factor, image)


def contrast(image, factor):
    """Values moved away from the mean grey by `factor`."""
    values = image.astype(np.float32)
    mean = (values @ _GRAY).mean() if image.shape[-1] == 3 else values.mean()
    return like(values * factor + mean * (1 - factor), image)


def saturation(image, factor):
    """Values moved away from their pixel's grey by `factor`."""
    if image.shape[-1] != 3:
        return image
    values = image.astype(np.float32)
    gray = (values @ _GRAY)[..., None]
    return like(values * factor + gray * (1 - factor), image)


def hue(image, factor):
    """Colours turned on the colour circle by (factor - 1) * 360 degrees."""
    if image.shape[-1] != 3:
        return image
    angle = (factor - 1) * 2 * math.pi
    c, s = math.cos(angle), math.sin(angle)
    turn = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    matrix = (_FROM_YIQ @ turn @ _TO_YIQ).T.astype(np.float32)
    return like(image.astype(np.float32) @ matrix, image)


def lighting(image, alpha):
    """A random shift along the principal axes of colours, of standard deviation
    `alpha`.
    """
    draw = chance.current()
    shift = _EIGENVECTORS @ (
        _EIGENVALUES * np.array([alpha * draw.normal() for _ in range(3)], np.float32)
    )
    scale = 1.0 if image.dtype.kind in "iu" else 1 / 255.0
    return like(image.astype(np.float32) + shift * np.float32(scale), image)


def rotate(image, degrees, zoom_in=False, zoom_out=False):
    """A (channels, height, width) float image turned about its middle, black outside.

    zoom_in enlarges until no corner is black, zoom_out shrinks until all of it is seen.
    """
    if zoom_in and zoom_out:
        raise MXNetValueError("`zoom_in` and `zoom_out` cannot be both True")
    height, width = image.shape[-2:]
    angle = math.radians(degrees)
    half_h, half_w = (height - 1) / 2.0, (width - 1) / 2.0
    y = np.arange(height)[:, None] - half_h
    x = np.arange(width)[None, :] - half_w
    zoom = 1.0
    if zoom_in or zoom_out:
        reach, corner = math.hypot(height, width), math.atan2(height, width)
        ends = [(corner + abs(angle)), (corner - abs(angle))]
        widest = max(abs(reach * math.cos(e)) for e in ends)
        highest = max(abs(reach * math.sin(e)) for e in ends)
        zoom = (
            max(widest / width, highest / height)
            if zoom_out
            else min(width / widest, height / highest)
        )
    from_x = (x * math.cos(angle) - y * math.sin(angle)) * zoom + half_w
    from_y = (x * math.sin(angle) + y * math.cos(angle)) * zoom + half_h
    return _sample(image, from_x, from_y)


def _sample(image, x, y):
    """Bilinear values at real positions; zero outside."""
    height, width = image.shape[-2:]
    x0, y0 = np.floor(x).astype(int), np.floor(y).astype(int)
    result = np.zeros(image.shape[:-2] + x.shape, np.float32)
    for dy in (0, 1):
        for dx in (0, 1):
            xi, yi = x0 + dx, y0 + dy
            weight = np.maximum(0, 1 - np.abs(x - xi)) * np.maximum(
                0, 1 - np.abs(y - yi)
            )
            weight = np.where(
                (xi >= 0) & (xi < width) & (yi >= 0) & (yi < height), weight, 0
            )
            values = image[..., np.clip(yi, 0, height - 1), np.clip(xi, 0, width - 1)]
            result += values * weight.astype(np.float32)
    return result.astype(image.dtype)
