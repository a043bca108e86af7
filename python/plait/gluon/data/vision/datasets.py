"""Image data sets from local files: Plait downloads nothing."""

import os
import tarfile
import warnings

import numpy as np

from .... import base
from .... import ndarray as nd
from ....error import MXNetError, MXNetOSError, MXNetTypeError
from ....io.mnist import find_mnist, read_idx
from .. import dataset

__all__ = [
    "MNIST",
    "FashionMNIST",
    "CIFAR10",
    "CIFAR100",
    "ImageRecordDataset",
    "ImageFolderDataset",
    "ImageListDataset",
]


def _default_root(name):
    return os.path.join(base.data_dir(), "datasets", name)


class MNIST(dataset._DownloadedDataset):
    """Handwritten digits: (28, 28, 1) uint8 images and int32 labels.

    The four idx files, packed by gzip or not, must be in `root`, by default
    $MXNET_HOME/datasets/mnist.
    """

    _folder = "mnist"

    def __init__(self, root=None, train=True, transform=None):
        self._train = train
        super().__init__(root or _default_root(self._folder), transform)

    def _get_data(self):
        images, labels = find_mnist(self._root, "train" if self._train else "t10k")
        images, labels = read_idx(images), read_idx(labels)
        if images.ndim != 3 or len(images) != len(labels):
            raise MXNetOSError(
                "%s: %s holds images of shape %s and %d labels"
                % (type(self).__name__, self._root, images.shape, len(labels))
            )
        self._data = nd.array(images[..., None], dtype=images.dtype)
        self._label = labels.astype(np.int32)


class FashionMNIST(MNIST):
    """Pictures of clothes in MNIST's format, in $MXNET_HOME/datasets/fashion-mnist.

    Debian's package dataset-fashion-mnist has the files in
    /usr/share/datasets/fashion-mnist, where they are found as well.
    """

    _folder = "fashion-mnist"
    _system = "/usr/share/datasets/fashion-mnist"

    def __init__(self, root=None, train=True, transform=None):
        if (
            root is None
            and not os.path.isdir(_default_root(self._folder))
            and os.path.isdir(self._system)
        ):
            root = self._system
        super().__init__(root, train, transform)


class CIFAR10(dataset._DownloadedDataset):
    """Small photographs of 10 classes: (32, 32, 3) uint8 images and int32 labels.

    The binary batch files, or the archive cifar-10-binary.tar.gz, must be in `root`, by
    default $MXNET_HOME/datasets/cifar10.
    """

    _folder = "cifar10"
    _archive = "cifar-10-binary.tar.gz"
    _train_files = ["data_batch_%d.bin" % i for i in range(1, 6)]
    _test_files = ["test_batch.bin"]
    _label_bytes = 1
    _label_at = 0

    def __init__(self, root=None, train=True, transform=None):
        self._train = train
        super().__init__(root or _default_root(self._folder), transform)

    def _find(self, name):
        """The path of a batch file, unpacked from the archive when only
        that is there.
        """
        for folder in (
            self._root,
            os.path.join(
                self._root,
                self._archive.replace("-binary.tar.gz", "-batches-bin").replace(
                    "100-batches-bin", "100-binary"
                ),
            ),
        ):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                return path
        archive = os.path.join(self._root, self._archive)
        if not os.path.exists(archive):
            raise FileNotFoundError(
                "%s: neither %s nor %s is in %s, and Plait downloads "
                "nothing; put the data set there"
                % (
                    type(self).__name__,
                    name,
                    self._archive,
                    os.path.abspath(self._root),
                )
            )
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                if os.path.basename(member.name) == name and member.isfile():
                    path = os.path.join(self._root, name)
                    with (
                        tar.extractfile(member) as source,
                        open(path + ".tmp", "wb") as out,
                    ):
                        out.write(source.read())
                    os.replace(path + ".tmp", path)
                    return path
        raise MXNetOSError("%s: %s has no %s" % (type(self).__name__, archive, name))

    def _read_batch(self, filename):
        """(images, labels) of one file: records of label bytes and 3x32x32 pixels."""
        data = np.fromfile(filename, dtype=np.uint8)
        size = self._label_bytes + 3072
        if not len(data) or len(data) % size:
            raise MXNetOSError(
                "%s: %s has %d bytes, no multiple of %d"
                % (type(self).__name__, filename, len(data), size)
            )
        data = data.reshape(-1, size)
        images = (
            data[:, self._label_bytes :].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        )
        return images, data[:, self._label_at].astype(np.int32)

    def _get_data(self):
        files = self._train_files if self._train else self._test_files
        images, labels = zip(*(self._read_batch(self._find(name)) for name in files))
        self._data = nd.array(np.concatenate(images), dtype=np.uint8)
        self._label = np.concatenate(labels)


class CIFAR100(CIFAR10):
    """Small photographs of 100 classes, or (fine_label=False) of the 20 groups they
    form.
    """

    _folder = "cifar100"
    _archive = "cifar-100-binary.tar.gz"
    _train_files = ["train.bin"]
    _test_files = ["test.bin"]
    _label_bytes = 2

    def __init__(self, root=None, fine_label=False, train=True, transform=None):
        self._label_at = int(fine_label)
        super().__init__(root, train, transform)


class ImageRecordDataset(dataset.RecordFileDataset):
    """Images and labels of a .rec file; flag 0 decodes in grey, 1 in colour."""

    def __init__(self, filename, flag=1, transform=None):
        super().__init__(filename)
        self._flag = flag
        self._transform = transform

    def __getitem__(self, idx):
        from .... import image, recordio

        record = super().__getitem__(idx)
        try:
            header, data = recordio.unpack(record)
            picture = image.imdecode(data, self._flag)
        except MXNetError as error:
            key = self._record.keys[idx]
            raise type(error)(
                "%s: at offset %d, key %r: %s"
                % (self.filename, self._record.idx[key], key, error)
            ) from None
        if self._transform is not None:
            return self._transform(picture, header.label)
        return picture, header.label

    def _source(self):
        if (
            self._transform is not None
            or self._flag not in (0, 1)
            or type(self).__getitem__ is not ImageRecordDataset.__getitem__
        ):
            return None
        from ..sources import RecordSource

        record = self._record
        offsets = [record.idx[key] for key in record.keys]
        return RecordSource(self.filename, offsets, self._flag)


class ImageFolderDataset(dataset.Dataset):
    """Images in one folder for each class: root/<class>/<image>; labels by sorted
    class.
    """

    _ENDINGS = (".jpg", ".jpeg", ".png")

    def __init__(self, root, flag=1, transform=None):
        self._root = os.path.expanduser(root)
        self._flag = flag
        self._transform = transform
        self._exts = list(self._ENDINGS)
        self._list_images(self._root)

    def _list_images(self, root):
        self.synsets, self.items = [], []
        for folder in sorted(os.listdir(root)):
            path = os.path.join(root, folder)
            if not os.path.isdir(path):
                warnings.warn(
                    "Ignoring %s, which is not a directory." % path, stacklevel=3
                )
                continue
            label = len(self.synsets)
            self.synsets.append(folder)
            for name in sorted(os.listdir(path)):
                if name.lower().endswith(self._ENDINGS):
                    self.items.append((os.path.join(path, name), label))
                else:
                    warnings.warn(
                        "Ignoring %s. Only support %s"
                        % (os.path.join(path, name), ", ".join(self._ENDINGS)),
                        stacklevel=2,
                    )

    def __getitem__(self, idx):
        from .... import image

        path, label = self.items[idx]
        picture = image.imread(path, self._flag)
        return (
            (picture, label)
            if self._transform is None
            else self._transform(picture, label)
        )

    def _source(self):
        if (
            self._transform is not None
            or self._flag not in (0, 1)
            or type(self).__getitem__ is not ImageFolderDataset.__getitem__
        ):
            return None
        from ..sources import FileSource

        return FileSource(self.items, self._flag)

    def __len__(self):
        return len(self.items)


class ImageListDataset(dataset.Dataset):
    """Images of a list, as files under `root`, each with an array of its labels.

    imglist: the path under root of a .lst file, or a list of [label, ..., path].
    """

    def __init__(self, root=".", imglist=None, flag=1):
        from ....image.iterator import given_list, read_list

        self._root = os.path.expanduser(root)
        self._flag = flag
        if isinstance(imglist, (str, os.PathLike)):
            found = read_list(os.path.join(self._root, imglist), "float32")
        elif isinstance(imglist, list):
            found = given_list(imglist, "float32")
        else:
            raise MXNetTypeError(
                "ImageListDataset: imglist is %r; the path of a .lst file or a list of "
                "[label, ..., path] was expected" % (imglist,)
            )
        self.items = [
            (os.path.join(self._root, path), label) for label, path in found.values()
        ]

    def __getitem__(self, idx):
        from .... import image

        path, label = self.items[idx]
        return image.imread(path, self._flag), label

    def _source(self):
        if (
            self._flag not in (0, 1)
            or type(self).__getitem__ is not ImageListDataset.__getitem__
        ):
            return None
        from ..sources import FileSource

        return FileSource(self.items, self._flag)

    def __len__(self):
        return len(self.items)
