"""Photographs packed by Plait are read by MXNet 1.9.1, and the other way round.

MXNet is looked for where benchmarks/setup_peers.sh puts it; without it there is nothing
to compare with, and what tests/golden has of MXNet must do.
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import plait as mx
from plait import _plait, im2rec, recordio

PEERS = Path(os.environ.get("PEERS", "~/.cache/plait-peers")).expanduser()
MXNET = PEERS / "mx/bin/python"


def installed():
    if not MXNET.exists() or not _plait.features()["OPENCV"]:
        return False
    command = [str(MXNET), "-c", "import mxnet"]
    return subprocess.run(command, capture_output=True).returncode == 0


def photographs(folder):
    """Cuts of a photograph, as JPEGs of many sizes and a PNG."""
    cbook = pytest.importorskip("matplotlib.cbook")
    photo = cbook.get_sample_data("grace_hopper.jpg").read()
    photo = _plait.decode_image(photo, 1, False)
    rng = np.random.RandomState(5)
    for i in range(12):
        (folder / ("%d" % (i % 3))).mkdir(parents=True, exist_ok=True)
        height, width = rng.randint(150, 400, 2)
        y, x = rng.randint(0, photo.shape[0] - height), rng.randint(0, 512 - width)
        part = np.ascontiguousarray(photo[y : y + height, x : x + width])
        kind = ".png" if i == 7 else ".jpg"
        file = _plait.encode_image(part, kind, 3 if i == 7 else 90)
        (folder / ("%d/%d%s" % (i % 3, i, kind))).write_bytes(file)


def pack(tmp_path):
    """images.lst, and plait.rec as plait-im2rec makes it."""
    photographs(tmp_path / "images")
    prefix, root = str(tmp_path / "images"), str(tmp_path / "images")
    assert im2rec.main(["--list", "--recursive", prefix, root]) == 0
    assert im2rec.main(["--pass-through", prefix, root]) == 0
    for ending in (".rec", ".idx"):
        os.rename(prefix + ending, str(tmp_path / "plait") + ending)


@pytest.mark.skipif(not installed(), reason="MXNet 1.9.1 is not installed beside Plait")
def test_photographs_travel_both_ways(tmp_path):
    pack(tmp_path)
    script = Path(__file__).with_name("peer_records.py")
    done = subprocess.run(
        [str(MXNET), str(script), str(tmp_path)],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stderr
    for ending in (".rec", ".idx"):
        files = [
            (tmp_path / (side + ending)).read_bytes() for side in ("plait", "mxnet")
        ]
        assert files[0] == files[1]
    with np.load(tmp_path / "mxnet.npz") as found:
        for line in (tmp_path / "images.lst").read_text().splitlines():
            number, label, name = line.split("\t")
            content = (tmp_path / "images" / name).read_bytes()
            assert found["file " + name].tobytes() == content
            assert found["head " + name].tolist() == [0, float(label), int(number), 0]
        names = str(tmp_path / "mxnet.idx"), str(tmp_path / "mxnet.rec")
        iterator = mx.io.ImageRecordIter(
            path_imgrec=names[1], path_imgidx=names[0], data_shape=(3, 90, 120),
            resize=100, batch_size=4, mean_r=120, mean_g=110, mean_b=100, scale=0.02,
            exact=True,
        )  # fmt: skip
        for i, batch in enumerate(iterator):
            assert np.array_equal(found["label %d" % i], batch.label[0].asnumpy())
            gap = np.abs(found["data %d" % i] - batch.data[0].asnumpy())
            # One step of a byte, times the scale; and that seldom.
            assert gap.max() < 0.021 and (gap > 1e-5).mean() < 1e-3
        assert i == 2
    reader = recordio.MXIndexedRecordIO(*names, "r")
    for key in reader.keys:
        assert recordio.unpack_img(reader.read_idx(key))[1].ndim == 3
