"""Speed of reading images: Plait's and MXNet's iterators, PyTorch's DataLoader.

usage: python benchmarks/data_rows.py --make DIR    with Plait: makes the files
       python benchmarks/data_rows.py DIR           measures what the interpreter has

The files are 500 JPEGs of 375 x 500 pixels, cut from a photograph of matplotlib's, as
single files and as records. Printed are images a second, of the second of two epochs.
"""

import glob
import sys
import time
from pathlib import Path

BATCH = 50
AREA = {"min_random_area": 0.08, "max_aspect_ratio": 4 / 3, "min_aspect_ratio": 3 / 4}
CASES = {
    "random resized crop": {"random_resized_crop": True, **AREA},
    "resize 256, random crop": {"resize": 256, "rand_crop": True},
}


def make(folder):
    import matplotlib.cbook
    import numpy as np

    from plait import _plait, recordio

    photo = matplotlib.cbook.get_sample_data("grace_hopper.jpg").read()
    photo = _plait.decode_image(photo, 1, False)
    random = np.random.RandomState(0)
    (folder / "jpg").mkdir(parents=True, exist_ok=True)
    paths = str(folder / "a.idx"), str(folder / "a.rec")
    with recordio.MXIndexedRecordIO(*paths, "w") as writer:
        for i in range(500):
            h, w = (random.randint(300, n) for n in photo.shape[:2])
            y, x = (random.randint(0, n - m + 1) for n, m in zip(photo.shape, (h, w)))
            image = np.empty((375, 500, 3), "uint8")
            part = np.ascontiguousarray(photo[y : y + h, x : x + w])
            _plait.resize_image(part, image, 1)
            noisy = image + random.randint(-6, 7, image.shape)
            image = np.clip(noisy, 0, 255).astype("uint8")
            file = _plait.encode_image(image, ".jpg", 90)
            (folder / "jpg" / ("%03d.jpg" % i)).write_bytes(file)
            writer.write_idx(i, recordio.pack((0, float(i % 10), i, 0), file))


def second_epoch(name, epoch):
    """Prints how fast the second epoch is; epoch() gives the sizes of batches."""
    for last in (False, True):
        start = time.perf_counter()
        images = sum(epoch())
        seconds = time.perf_counter() - start
        if last:
            print("%-40s %7.0f images/s" % (name, images / seconds))


def measure_records(mx, folder):
    for case, kwargs in CASES.items():
        iterator = mx.io.ImageRecordIter(
            path_imgrec=str(folder / "a.rec"),
            data_shape=(3, 224, 224),
            batch_size=BATCH,
            preprocess_threads=2,
            rand_mirror=True,
            mean_r=123.7,
            std_r=58.4,
            **kwargs,
        )

        def epoch(iterator=iterator):
            iterator.reset()
            for batch in iterator:
                batch.data[0].wait_to_read()
                yield BATCH

        second_epoch("%s, %s" % (mx.__name__, case), epoch)


def measure_loader(mx, folder):
    """Gluon's DataLoader."""
    transforms = mx.gluon.data.vision.transforms
    crops = {
        "random resized crop": [transforms.RandomResizedCrop(224)],
        "shorter edge 256, crop": [
            transforms.Resize(256, keep_ratio=True),
            transforms.CenterCrop(224),
        ],
    }
    for case, crop in crops.items():
        after = [
            transforms.RandomFlipLeftRight(),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
        dataset = mx.gluon.data.vision.ImageRecordDataset(str(folder / "a.rec"))
        loader = mx.gluon.data.DataLoader(
            dataset.transform_first(transforms.Compose(crop + after)),
            BATCH,
            num_workers=2,
        )

        def epoch(loader=loader):
            for images, _ in loader:
                images.wait_to_read()
                yield len(images)

        second_epoch("%s DataLoader, %s" % (mx.__name__, case), epoch)


def measure_torch(folder):
    from PIL import Image
    from torch.utils.data import DataLoader
    from torchvision import transforms

    class Files:
        def __init__(self, transform):
            self._paths = sorted(glob.glob(str(folder / "jpg" / "*.jpg")))
            self._transform = transform

        def __len__(self):
            return len(self._paths)

        def __getitem__(self, i):
            return self._transform(Image.open(self._paths[i]).convert("RGB")), 0

    crops = {
        "random resized crop": [transforms.RandomResizedCrop(224)],
        "resize 256, random crop": [transforms.Resize(256), transforms.RandomCrop(224)],
    }
    for case, crop in crops.items():
        after = [
            transforms.RandomHorizontalFlip(),
            transforms.ToTensor(),
            transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
        loader = DataLoader(
            Files(transforms.Compose(crop + after)),
            batch_size=BATCH,
            num_workers=2,
            persistent_workers=True,
        )
        second_epoch(
            "torch, " + case, lambda loader=loader: (len(x) for x, _ in loader)
        )


def main():
    if sys.argv[1] == "--make":
        return make(Path(sys.argv[2]))
    folder = Path(sys.argv[1])
    for name in ("plait", "mxnet"):
        try:
            module = __import__(name)
        except ImportError:
            continue
        measure_records(module, folder)
        if name == "plait":
            measure_loader(module, folder)
    try:
        import torchvision  # noqa: F401
    except ImportError:
        return
    measure_torch(folder)


if __name__ == "__main__":
    main()
