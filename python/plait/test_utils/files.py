"""Data sets for tests, from local files."""

import bz2
import gzip
import os
import shutil
import zipfile

import numpy as np

__all__ = [
    "download",
    "download_model",
    "get_mnist",
    "get_mnist_pkl",
    "get_mnist_ubyte",
    "get_cifar10",
    "get_mnist_iterator",
    "get_zip_data",
    "get_bz2_data",
]


def download(url, fname=None, dirname=None, overwrite=False, retries=5):
    """Fetches the file behind `url` unless it is there already; returns its path."""
    from ..gluon.utils import download as fetch

    path = fname or url.split("/")[-1]
    path = path if dirname is None else os.path.join(dirname, path)
    return fetch(url, path, overwrite, retries=retries)


def download_model(model_name, dst_dir="./", meta_info=None):
    """The checkpoint prefix of a model in dst_dir."""
    prefix = os.path.join(dst_dir, model_name)
    for ending in ("-symbol.json", "-0000.params"):
        if not os.path.exists(prefix + ending):
            raise FileNotFoundError(
                "download_model: %s is not there, and Plait downloads "
                "nothing" % (prefix + ending)
            )
    return prefix, 0


def _find_mnist(path):
    """(images, labels) of both parts in a folder. What is not there is taken from
    $MXNET_HOME/datasets/mnist, unpacked: scripts open it in the folder afterwards.
    """
    from ..base import data_dir
    from ..io.mnist import find_mnist

    found, home = [], os.path.join(data_dir(), "datasets", "mnist")
    for part in ("train", "t10k"):
        try:
            found.append(find_mnist(path, part))
            continue
        except FileNotFoundError:
            try:
                sources = find_mnist(home, part)
            except FileNotFoundError:
                sources = ()
            if not sources:
                raise
        os.makedirs(path, exist_ok=True)
        for source in sources:
            name = os.path.basename(source).removesuffix(".gz").replace(".idx", "-idx")
            opener = gzip.open if source.endswith(".gz") else open
            with opener(source, "rb") as src:
                with open(os.path.join(path, name), "wb") as dst:
                    shutil.copyfileobj(src, dst)
        found.append(find_mnist(path, part))
    return found


def get_mnist(path="data"):
    """MNIST as a dict of arrays: train_data, train_label, test_data, test_label."""
    from ..io.mnist import read_idx

    result = {}
    for key, (images, labels) in zip(("train", "test"), _find_mnist(path)):
        result[key + "_data"] = read_idx(images)[:, None].astype(np.float32) / 255
        result[key + "_label"] = read_idx(labels).astype(np.int32)
    return result


def get_mnist_pkl(path="data"):
    """Checks that mnist.pkl.gz is in the data folder."""
    _expect(os.path.join(path, "mnist.pkl.gz"))


def get_mnist_ubyte(path="data"):
    """Sees to it that the four MNIST files are in the data folder."""
    _find_mnist(path)


def get_cifar10(path="data"):
    """Checks that CIFAR-10's record files are in the data folder."""
    for name in ("train.rec", "test.rec"):
        _expect(os.path.join(path, "cifar", name))


def _expect(path):
    if not os.path.exists(path):
        raise FileNotFoundError(
            "%s is not there, and Plait downloads nothing" % os.path.abspath(path)
        )


def get_mnist_iterator(batch_size, input_shape, num_parts=1, part_index=0, path="data"):
    """(training, validation) MNISTIter."""
    from ..io import MNISTIter

    flat = len(input_shape) != 3
    iterators = []
    for part, (images, labels) in zip(("train", "t10k"), _find_mnist(path)):
        options = dict(num_parts=num_parts, part_index=part_index)
        if part == "train":
            options.update(shuffle=True)
        else:
            options.update(shuffle=False)
        iterators.append(
            MNISTIter(
                image=images,
                label=labels,
                input_shape=input_shape,
                batch_size=batch_size,
                flat=flat,
                **options,
            )
        )
    return tuple(iterators)


def get_zip_data(data_dir, url, data_origin_name):
    """Unpacks a zip file that is in data_dir."""
    with zipfile.ZipFile(download(url, data_origin_name, data_dir)) as archive:
        archive.extractall(data_dir)


def get_bz2_data(data_dir, data_name, url, data_origin_name):
    """Unpacks a bz2 file that is in data_dir, unless it was before."""
    target = os.path.join(data_dir, data_name)
    if not os.path.exists(target):
        with (
            bz2.BZ2File(download(url, data_origin_name, data_dir)) as packed,
            open(target, "wb") as out,
        ):
            out.write(packed.read())
