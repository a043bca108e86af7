"""Batches of MXNet 1.9.1's ImageRecordIter: makes tests/golden/mxnet-1.9.1-iter.npz.

usage: python tools/golden_iter.py --files FILES.npz     with Plait: makes a record file
       python tools/golden_iter.py FILES.npz OUT.npz     with MXNet: reads it

Keys: "rec", "idx" the files; "CASE data", "CASE label", "CASE pad" of all batches. The
cases have nothing that is left to chance.
"""

from pathlib import Path

import golden_files

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


def batches(mx, folder, case):
    """Arrays of all batches of a case."""
    kwargs = {"data_shape": SHAPE, **CASES[case]}
    iterator = mx.io.ImageRecordIter(
        path_imgrec=str(Path(folder) / "a.rec"),
        batch_size=4,
        preprocess_threads=1,
        **kwargs,
    )
    return golden_files.batches(iterator, case)


if __name__ == "__main__":
    golden_files.main(lambda: golden_files.make_files(lambda i: i / 2), batches, CASES)
