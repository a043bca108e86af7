"""The part of test_peer_records.py that runs with MXNet 1.9.1.

usage: python peer_records.py FOLDER: FOLDER/images.lst names photographs under
FOLDER/images, and FOLDER/plait.rec has them as Plait packed them. Packs them as
FOLDER/mxnet.rec, and writes what it reads of Plait's file to FOLDER/mxnet.npz.
"""

import sys
from pathlib import Path

import mxnet as mx
import numpy as np

folder = Path(sys.argv[1])
lines = [line.split("\t") for line in (folder / "images.lst").read_text().splitlines()]
names = str(folder / "mxnet.idx"), str(folder / "mxnet.rec")
writer = mx.recordio.MXIndexedRecordIO(*names, "w")
for number, label, name in lines:
    header = mx.recordio.IRHeader(0, float(label), int(number), 0)
    content = (folder / "images" / name).read_bytes()
    writer.write_idx(int(number), mx.recordio.pack(header, content))
writer.close()

found = {}
names = str(folder / "plait.idx"), str(folder / "plait.rec")
reader = mx.recordio.MXIndexedRecordIO(*names, "r")
for number, _, name in lines:
    header, content = mx.recordio.unpack(reader.read_idx(int(number)))
    found["file " + name] = np.frombuffer(content, np.uint8)
    found["head " + name] = np.array([header.flag, header.label, header.id, header.id2])
iterator = mx.io.ImageRecordIter(
    path_imgrec=names[1], path_imgidx=names[0], data_shape=(3, 90, 120), resize=100,
    batch_size=4, preprocess_threads=1, mean_r=120, mean_g=110, mean_b=100, scale=0.02,
)  # fmt: skip
for i, batch in enumerate(iterator):
    found["data %d" % i] = batch.data[0].asnumpy()
    found["label %d" % i] = batch.label[0].asnumpy()
np.savez(folder / "mxnet.npz", **found)
