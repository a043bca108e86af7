"""Data sets for tests, from local files: Plait downloads nothing."""

import bz2
import os
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
    """The local file that `url` names; an OSError says where to put it if it is not
    there.
    """
    from ..gluon.utils import download as local

    path = fname or url.split("/")[-1]
    return local(url, path if dirname is None else os.path.join(dirname, path))


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


def get_mnist(path="data"):
    """MNIST as a dict of arrays: train_data, train_label, test_data, test_label."""
    from ..io.mnist import find_mnist, read_idx

    result = {}
    for part, key in (("train", "train"), ("t10k", "test")):
        images, labels = find_mnist(path, part)
        result[key + "_data"] = read_idx(images)[:, None].astype(np.float32) / 255
        result[key + "_label"] = read_idx(labels).astype(np.int32)
    return result


def get_mnist_pkl(path="data"):
    """Checks that mnist.pkl.gz is in the data folder."""
    _expect(os.path.join(path, "mnist.pkl.gz"))


def get_mnist_ubyte(path="data"):
    """Checks that the four MNIST files are in the data folder."""
    from ..io.mnist import find_mnist

    find_mnist(path, "train")
    find_mnist(path, "t10k")


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
    from ..io.mnist import find_mnist

    flat = len(input_shape) != 3
    iterators = []
    for part in ("train", "t10k"):
        images, labels = find_mnist(path, part)
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
