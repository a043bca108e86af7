"""The files of the benchmarks of data: JPEGs cut from photographs, and records of them.

usage: python benchmarks/data_files.py FOLDER [COUNT]

FOLDER/jpg/CLASS/N.jpg are cuts of two photographs, of many sizes and places, brought to
375 x 500 pixels; FOLDER/a.rec and a.idx have the same bytes as records. What is there
already is left as it is.
"""

import os
import sys
from pathlib import Path

import numpy as np

from plait import _plait, recordio

PHOTOS = Path(os.environ.get("PEERS", "~/.cache/plait-peers")).expanduser() / "photos"
HEIGHT, WIDTH = 375, 500


def cut(photo, random):
    """A part of the photograph of about the proportions that are wanted."""
    height = random.randint(min(HEIGHT, photo.shape[0]) * 4 // 5, photo.shape[0])
    width = min(photo.shape[1], int(height * random.uniform(1.2, 1.45)))
    y = random.randint(0, photo.shape[0] - height + 1)
    x = random.randint(0, photo.shape[1] - width + 1)
    image = np.empty((HEIGHT, WIDTH, 3), "uint8")
    part = np.ascontiguousarray(photo[y : y + height, x : x + width])
    _plait.resize_image(part, image, 2)
    return image[:, ::-1] if random.rand() < 0.5 else image


def make(folder, count=2000):
    """Makes the files."""
    if (folder / "done").exists() and (folder / "done").read_text() == str(count):
        return
    photos = [
        _plait.decode_image(path.read_bytes(), 1, False)
        for path in sorted(PHOTOS.glob("*.jpg"))
    ]
    if not photos:
        sys.exit("no photographs: benchmarks/setup_peers.sh photos puts them there")
    random = np.random.RandomState(0)
    for label in range(10):
        (folder / "jpg" / str(label)).mkdir(parents=True, exist_ok=True)
    names = str(folder / "a.idx"), str(folder / "a.rec")
    with recordio.MXIndexedRecordIO(*names, "w") as writer:
        for i in range(count):
            image = np.ascontiguousarray(cut(photos[i % len(photos)], random))
            file = _plait.encode_image(image, ".jpg", 90)
            (folder / "jpg" / str(i % 10) / ("%05d.jpg" % i)).write_bytes(file)
            head = recordio.IRHeader(0, float(i % 10), i, 0)
            writer.write_idx(i, recordio.pack(head, file))
    (folder / "done").write_text(str(count))


if __name__ == "__main__":
    make(Path(sys.argv[1]), *map(int, sys.argv[2:]))
