"""Batches of MXNet 1.9.1's ImageDetRecordIter: makes tests/golden/mxnet-1.9.1-det.npz.

usage: python tools/golden_det.py --files FILES.npz     with Plait: makes a record file
       python tools/golden_det.py FILES.npz OUT.npz     with MXNet: reads it

Keys: "rec" the file; "CASE data", "CASE label", "CASE pad" of all batches. The
cases have nothing that is left to chance.
"""

from pathlib import Path

import golden_files
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


def label(i):
    boxes = [
        [k, 0.1 + 0.01 * i, 0.2, 0.6, 0.9 - 0.1 * k, 0.25] for k in range(1 + i % 3)
    ]
    boxes.append([9, 0.5, 0.5, 0.5, 0.7, 1])  # without area
    return np.array([3, 6, -2, *np.ravel(boxes)], "float32")


def files():
    return {"rec": golden_files.make_files(label)["rec"]}


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
    return golden_files.batches(iterator, case)


if __name__ == "__main__":
    golden_files.main(files, batches, CASES)
