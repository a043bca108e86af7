"""Speed of reading and augmenting images: Plait's and MXNet's iterators, PyTorch's
DataLoader with torchvision.

usage: DATA=FOLDER MODULE=plait|mxnet|torch python benchmarks/data_rows.py [ROWS]

Prints a JSON line for each row: images a second with two threads or workers, the median
of three passes over the files of data_files.py after one that does not count; and, for
all sides to agree on, numbers from the middle of the first images.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path

import numpy as np

BATCH, PASSES = 50, 3
MEAN, STD = 123.7, 58.4
CROP = "random resized crop"
RESIZE = "shorter edge 256, random crop"
AREA = {"min_random_area": 0.08, "max_aspect_ratio": 4 / 3, "min_aspect_ratio": 3 / 4}
OPTIONS = {CROP: {"random_resized_crop": True, **AREA}}
OPTIONS[RESIZE] = {"resize": 256, "rand_crop": True}
# Cut evenly from the middle, so that nobody has to round.
CHECK_SHAPE = (3, 225, 224)


def middle(images):
    """Of two batches of pixels: the mean of each image, and some pixels as they are."""
    images = np.concatenate([np.asarray(x, "float64") for x in images])
    pixels = images[:, :, ::75, ::74]
    return np.concatenate([images.mean((1, 2, 3)), pixels.ravel()[::13]]).tolist()


def iterator_rows(mx, folder):
    """ImageRecordIter of Plait and of MXNet."""

    def make(shape, **kwargs):
        return mx.io.ImageRecordIter(
            path_imgrec=str(folder / "a.rec"),
            data_shape=shape,
            batch_size=BATCH,
            preprocess_threads=2,
            **kwargs,
        )

    def check():
        batches = make(CHECK_SHAPE)
        return middle([next(batches).data[0].asnumpy() for _ in range(2)])

    for row, options in OPTIONS.items():
        iterator = make(
            (3, 224, 224),
            rand_mirror=True,
            **{"mean_" + c: MEAN for c in "rgb"},
            **{"std_" + c: STD for c in "rgb"},
            **options,
        )

        def run(iterator=iterator):
            iterator.reset()
            for batch in iterator:
                batch.data[0].wait_to_read()
                yield BATCH

        yield row + ", ImageRecordIter", check, run


def gluon_rows(mx, folder):
    """Gluon's DataLoader."""
    T = mx.gluon.data.vision.transforms
    data = mx.gluon.data.vision.ImageRecordDataset(str(folder / "a.rec"))

    def load(transforms):
        data_of = data.transform_first(T.Compose(transforms))
        return mx.gluon.data.DataLoader(data_of, BATCH, num_workers=2)

    def check():
        batches = iter(load([T.CenterCrop(CHECK_SHAPE[:0:-1]), T.ToTensor()]))
        return middle([255 * next(batches)[0].asnumpy() for _ in range(2)])

    normalize = T.Normalize([MEAN / 255] * 3, [STD / 255] * 3)
    crop, flip = T.RandomResizedCrop(224), T.RandomFlipLeftRight()
    loader = load([crop, flip, T.ToTensor(), normalize])

    def run():
        for images, _ in loader:
            images.wait_to_read()
            yield len(images)

    yield CROP + ", DataLoader", check, run


def torch_rows(folder):
    """PyTorch's DataLoader; beside both of Plait's."""
    from PIL import Image
    from torch.utils.data import DataLoader
    from torchvision import transforms as T

    class Files:
        def __init__(self, transforms):
            paths = folder.glob("jpg/*/*.jpg")
            self._paths = sorted(paths, key=lambda path: path.name)
            self._transform = T.Compose(transforms)

        def __len__(self):
            return len(self._paths)

        def __getitem__(self, i):
            return self._transform(Image.open(self._paths[i]).convert("RGB")), 0

    def load(transforms):
        return DataLoader(
            Files(transforms),
            batch_size=BATCH,
            num_workers=2,
            persistent_workers=True,
        )

    def check():
        batches = iter(load([T.CenterCrop(CHECK_SHAPE[1:]), T.ToTensor()]))
        return middle([255 * next(batches)[0].numpy() for _ in range(2)])

    crops = {
        CROP: [T.RandomResizedCrop(224)],
        RESIZE: [T.Resize(256), T.RandomCrop(224)],
    }
    for row, crop in crops.items():
        normalize = T.Normalize([MEAN / 255] * 3, [STD / 255] * 3)
        loader = load([*crop, T.RandomHorizontalFlip(), T.ToTensor(), normalize])

        def run(loader=loader):
            return (len(images) for images, _ in loader)

        yield row + ", ImageRecordIter", check, run
        if row == CROP:
            yield row + ", DataLoader", check, run


def rate(run):
    """Images a second."""
    rates = []
    for _ in range(PASSES + 1):
        start = time.perf_counter()
        images = sum(run())
        rates.append(images / (time.perf_counter() - start))
    return statistics.median(rates[1:])


def main():
    folder, module = Path(os.environ["DATA"]), os.environ["MODULE"]
    if module == "torch":
        rows = torch_rows(folder)
    else:
        mx = __import__(module)
        rows = [*iterator_rows(mx, folder)]
        if module == "plait":
            rows += gluon_rows(mx, folder)
    measured = {}  # PyTorch's one loader stands beside both of Plait's
    for row, check, run in rows:
        if sys.argv[1:] and row not in sys.argv[1:]:
            continue
        outputs = check()
        key = row.rsplit(", ", 1)[0] if module == "torch" else row
        if key not in measured:
            measured[key] = rate(run)
        line = {"row": row, "value": measured[key], "unit": "img/s", "outputs": outputs}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
