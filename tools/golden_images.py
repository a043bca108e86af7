"""Images as MXNet 1.9.1 decodes and resizes them: makes tests/golden/...-images.npz.

usage: python tools/golden_images.py --files FILES.npz     with Plait: makes files
       python tools/golden_images.py FILES.npz OUT.npz     with MXNet: decodes them

Keys: "file NAME" the bytes of a file; "decoded NAME FLAG" what MXNet makes of them;
"resized INTERP HEIGHT WIDTH" of the decoded "jpeg colour".
"""

import struct
import sys

import numpy as np

SIZES = ((20, 30), (31, 45), (64, 80), (10, 80), (62, 90))


def smooth(height, width, channels, most=255):
    """A picture of waves."""
    y, x = np.mgrid[:height, :width]
    waves = [np.sin(x / (3 + c) + c) * np.cos(y / (5 - c)) for c in range(channels)]
    return np.stack([(0.5 + 0.5 * w) * most for w in waves], -1)


def with_orientation(jpeg, orientation):
    """A JPEG with EXIF data that asks to be turned."""
    tiff = b"II*\0" + struct.pack("<IHHHIII", 8, 1, 0x112, 3, 1, orientation, 0)
    exif = b"Exif\0\0" + tiff
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + jpeg[2:]


def make_files():
    from plait import _plait

    images = {
        n: smooth(31, 45, c).astype("uint8")
        for n, c in (("colour", 3), ("gray", 1), ("alpha", 4))
    }
    wide = smooth(9, 7, 3, 65535).astype("uint16")
    encode = _plait.encode_image
    files = {
        "jpeg colour": encode(images["colour"], ".jpg", 90),
        "jpeg low": encode(images["colour"], ".jpg", 30),
        "jpeg gray": encode(images["gray"][..., 0], ".jpg", 90),
        "png colour": encode(images["colour"], ".png", 9),
        "png gray": encode(images["gray"][..., 0], ".png", 9),
        "png alpha": encode(images["alpha"], ".png", 9),
        "png wide": encode(wide, ".png", 9),
        "png one pixel": encode(images["colour"][:1, :1], ".png", 9),
    }
    for orientation in range(1, 9):
        name = "jpeg turned %d" % orientation
        files[name] = with_orientation(files["jpeg low"], orientation)
    return {"file " + k: np.frombuffer(v, np.uint8) for k, v in files.items()}


def decode(files):
    import mxnet as mx

    result = dict(files)
    for name, data in files.items():
        for flag in (0, 1):
            image = mx.image.imdecode(data.tobytes(), flag=flag)
            result["decoded %s %d" % (name[5:], flag)] = image.asnumpy()
    image = mx.image.imdecode(files["file jpeg colour"].tobytes())
    for interp in range(5):
        for height, width in SIZES:
            y = mx.image.imresize(image, width, height, interp=interp)
            result["resized %d %d %d" % (interp, height, width)] = y.asnumpy()
    return result


if __name__ == "__main__":
    if sys.argv[1] == "--files":
        np.savez_compressed(sys.argv[2], **make_files())
    else:
        with np.load(sys.argv[1]) as found:
            np.savez_compressed(sys.argv[2], **decode(dict(found)))
