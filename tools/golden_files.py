"""A record file and batches read from it, for golden_iter.py and golden_det.py."""

import sys
import tempfile
from pathlib import Path

import numpy as np


def make_files(label_of):
    """The bytes of "idx" and "rec" of seven small images; label_of(i): a label."""
    from plait import _plait, recordio

    with tempfile.TemporaryDirectory() as folder:
        paths = {k: Path(folder) / f"a.{k}" for k in ("idx", "rec")}
        with recordio.MXIndexedRecordIO(*map(str, paths.values()), "w") as writer:
            for i in range(7):
                y, x = np.mgrid[: 30 + i, : 45 - 2 * i]
                image = np.stack([x * 5 + i, y * 6, (x + y) * 3], -1).astype("uint8")
                file = _plait.encode_image(
                    image, ".png" if i % 2 else ".jpg", 9 if i % 2 else 90
                )
                writer.write_idx(i, recordio.pack((0, label_of(i), i, 0), file))
        return {k: np.frombuffer(p.read_bytes(), np.uint8) for k, p in paths.items()}


def batches(iterator, case):
    """Arrays of all batches of a case."""
    found = [(b.data[0].asnumpy(), b.label[0].asnumpy(), b.pad) for b in iterator]
    return {
        case + " data": np.concatenate([f[0] for f in found]),
        case + " label": np.concatenate([f[1] for f in found]),
        case + " pad": np.array([f[2] for f in found]),
    }


def main(files, batches_of, cases):
    """Runs a tool: files() makes arrays, batches_of(mx, folder, case) reads them."""
    if sys.argv[1] == "--files":
        np.savez_compressed(sys.argv[2], **files())
        return
    import mxnet as mx

    with np.load(sys.argv[1]) as found, tempfile.TemporaryDirectory() as folder:
        result = dict(found)
        for name in {"rec", "idx"} & result.keys():
            (Path(folder) / f"a.{name}").write_bytes(result[name].tobytes())
        for case in cases:
            result.update(batches_of(mx, folder, case))
    np.savez_compressed(sys.argv[2], **result)
