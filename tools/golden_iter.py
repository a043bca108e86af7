"""Batches of MXNet 1.9.1's ImageRecordIter: makes tests/golden/mxnet-1.9.1-iter.npz.

usage: python tools/golden_iter.py --files FILES.npz     with Plait: makes a record file
       python tools/golden_iter.py FILES.npz OUT.npz     with MXNet: reads it

Keys: "rec", "idx" the files; "CASE data", "CASE label", "CASE pad" of all batches. The
cases have nothing that is left to chance.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

SHAPE = (3, 24, 28)
CASES = {
    "plain": {},
    "resized": {"resize": 26},
    "area": {"resize": 26, "inter_method": 9},
    "enlarged": {"data_shape": (3, 60, 50)},
    "mean": {"mean_r": 100, "mean_g": 90, "mean_b": 80, "std_r": 2, "std_b": 3},
    "scaled": {"scale": 0.01, "mirror": True},
    "padded": {"pad": 5, "fill_value": 7, "data_shape": (3, 50, 60)},
    "square": {"max_crop_size": 20, "min_crop_size": 20},
    "bytes": {"dtype": "uint8", "mirror": True},
    "signed": {"dtype": "int8", "mean_r": 100.4, "mean_g": 90.6},
    "gray": {"data_shape": (1, 24, 28)},
    "rotated": {"rotate": 30, "fill_value": 9, "inter_method": 1},
    "rotated cubic": {"rotate": 30, "fill_value": 9, "inter_method": 2},
}


def make_files():
    from plait import _plait, recordio

    with tempfile.TemporaryDirectory() as folder:
        paths = str(Path(folder) / "a.idx"), str(Path(folder) / "a.rec")
        with recordio.MXIndexedRecordIO(*paths, "w") as writer:
            for i in range(7):
                y, x = np.mgrid[: 30 + i, : 45 - 2 * i]
                image = np.stack([x * 5 + i, y * 6, (x + y) * 3], -1).astype("uint8")
                file = _plait.encode_image(
                    image, ".png" if i % 2 else ".jpg", 9 if i % 2 else 90
                )
                writer.write_idx(i, recordio.pack((0, i / 2, i, 0), file))
        return {
            k: np.frombuffer(Path(p).read_bytes(), np.uint8)
            for k, p in zip(("idx", "rec"), paths)
        }


def batches(mx, folder, case):
    """Arrays of all batches of a case."""
    kwargs = {"data_shape": SHAPE, **CASES[case]}
    iterator = mx.io.ImageRecordIter(
        path_imgrec=str(Path(folder) / "a.rec"),
        batch_size=4,
        preprocess_threads=1,
        **kwargs,
    )
    found = [(b.data[0].asnumpy(), b.label[0].asnumpy(), b.pad) for b in iterator]
    return {
        case + " data": np.concatenate([f[0] for f in found]),
        case + " label": np.concatenate([f[1] for f in found]),
        case + " pad": np.array([f[2] for f in found]),
    }


def main():
    if sys.argv[1] == "--files":
        np.savez_compressed(sys.argv[2], **make_files())
        return
    import mxnet as mx

    with np.load(sys.argv[1]) as found, tempfile.TemporaryDirectory() as folder:
        result = dict(found)
        for name in ("rec", "idx"):
            (Path(folder) / ("a." + name)).write_bytes(result[name].tobytes())
        for case in CASES:
            result.update(batches(mx, folder, case))
    np.savez_compressed(sys.argv[2], **result)


if __name__ == "__main__":
    main()
