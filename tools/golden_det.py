"""Batches of MXNet 1.9.1's ImageDetRecordIter: makes tests/golden/mxnet-1.9.1-det.npz.

usage: python tools/golden_det.py --files FILES.npz     with Plait: makes a record file
       python tools/golden_det.py FILES.npz OUT.npz     with MXNet: reads it

Keys: "rec" the file; "CASE data", "CASE label", "CASE pad" of all batches. The
cases have nothing that is left to chance.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

CASES = {
    "plain": {},
    "gray": {"data_shape": (1, 24, 28)},
    "resized": {"resize": 26},
    "area": {"inter_method": 9, "data_shape": (3, 14, 20)},
    "shrunk": {"resize_mode": "shrink", "inter_method": 2},
    "fitted": {"resize_mode": "fit", "data_shape": (3, 50, 40)},
    "mirrored": {"rand_mirror_prob": 1.0},
    "padded labels": {"label_pad_width": 40, "label_pad_value": 7.5},
    "normalised": {
        "mean_r": 100,
        "mean_g": 90,
        "mean_b": -80,
        "std_r": 2,
        "std_b": 3,
        "scale": 0.5,
    },
    "no mean": {"mean_g": -5, "std_g": 4},
    # All but the last row and column.
    "cropped": {
        "rand_crop_prob": 1.0,
        "min_crop_scales": 0.9999,
        "min_crop_aspect_ratios": 0.2,
        "max_crop_aspect_ratios": 5.0,
        "crop_emit_mode": "overlap",
        "emit_overlap_thresh": 0.5,
    },
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
                boxes = [
                    [k, 0.1 + 0.01 * i, 0.2, 0.6, 0.9 - 0.1 * k, 0.25]
                    for k in range(1 + i % 3)
                ]
                boxes.append([9, 0.5, 0.5, 0.5, 0.7, 1])  # without area
                labels = np.array([3, 6, -2, *np.ravel(boxes)], "float32")
                writer.write_idx(i, recordio.pack((0, labels, i, 0), file))
        return {"rec": np.frombuffer(Path(paths[1]).read_bytes(), np.uint8)}


def batches(mx, folder, case):
    """Arrays of all batches of a case."""
    kwargs = {"data_shape": (3, 24, 28), **CASES[case]}
    iterator = mx.io.ImageDetRecordIter(
        path_imgrec=str(Path(folder) / "a.rec"),
        batch_size=4,
        preprocess_threads=1,
        verbose=False,
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
        (Path(folder) / "a.rec").write_bytes(result["rec"].tobytes())
        for case in CASES:
            result.update(batches(mx, folder, case))
    np.savez_compressed(sys.argv[2], **result)


if __name__ == "__main__":
    main()
