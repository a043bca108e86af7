"""Record files as MXNet 1.9.1 writes them: makes them, or checks that they are equal.

usage: python tools/golden_records.py OUT.npz

With an interpreter that has MXNet 1.9.1 it makes tests/golden/mxnet-1.9.1-records.npz;
tests/python/test_recordio.py calls `files` with Plait and compares the bytes.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

MAGIC = b"\x0a\x23\xd7\xce"


def payloads():
    """Records of many sizes, with the magic at many places."""
    random = np.random.RandomState(3)
    found = [b"", b"a", b"four", MAGIC, MAGIC * 3, b"x" + MAGIC, MAGIC + b"x"]
    for size in (5, 64, 100, 1000):
        found.append(random.bytes(size))
    for _ in range(40):
        words = [MAGIC if random.rand() < 0.3 else random.bytes(4) for _ in range(9)]
        found.append(b"".join(words)[random.randint(0, 4) :])
    return found


def headers(recordio):
    """Packed headers with all kinds of labels."""
    labels = [3, 2.5, np.float64(0.1), [1.0], [1, 2, 3], np.arange(4.0), []]
    return [
        recordio.pack(recordio.IRHeader(9, label, 7 + i, i), b"image %d" % i)
        for i, label in enumerate(labels)
    ]


def files(recordio):
    """The bytes of record and index files that `recordio` writes."""
    result = {}
    with tempfile.TemporaryDirectory() as directory:
        rec, idx = Path(directory) / "a.rec", Path(directory) / "a.idx"
        writer = recordio.MXRecordIO(str(rec), "w")
        for record in payloads():
            writer.write(record)
        writer.close()
        result["plain"] = rec.read_bytes()
        for name, key_type in (("int", int), ("str", str)):
            writer = recordio.MXIndexedRecordIO(str(idx), str(rec), "w", key_type)
            for key, record in enumerate(payloads() + headers(recordio)):
                writer.write_idx(key * 3 if key_type is int else "key %d" % key, record)
            writer.close()
            result[name + ".rec"], result[name + ".idx"] = (
                rec.read_bytes(),
                idx.read_bytes(),
            )
    return result


def main():
    import mxnet as mx

    made = {k: np.frombuffer(v, np.uint8) for k, v in files(mx.recordio).items()}
    np.savez_compressed(sys.argv[1], **made)


if __name__ == "__main__":
    main()
