"""plait.contrib.io: batches of a gluon DataLoader for a Module."""

from .. import ndarray as nd
from ..io import DataDesc, DataIter

__all__ = ["DataLoaderIter"]


class DataLoaderIter(DataIter):
    """Iterates over a gluon DataLoader whose batches are (data, label).

    A last batch that is smaller is filled up; getpad() says by how many rows.
    """

    def __init__(
        self, loader, data_name="data", label_name="softmax_label", dtype="float32"
    ):
        super().__init__()
        self._loader = loader
        self.dtype = dtype
        data, label = next(iter(loader))
        self.batch_size = data.shape[0]
        self.provide_data = [DataDesc(data_name, data.shape, dtype)]
        self.provide_label = [DataDesc(label_name, label.shape, dtype)]
        self._batch = None
        self.reset()

    def reset(self):
        """Begins an epoch of the loader."""
        self._iter = iter(self._loader)

    def iter_next(self):
        """Fetches the next batch; False at the end of the epoch."""
        self._batch = next(self._iter, None)
        return self._batch is not None

    def _filled(self, array):
        array = array.astype(self.dtype, copy=False)
        if not self.getpad():
            return [array]
        full = nd.zeros((self.batch_size,) + array.shape[1:], dtype=self.dtype)
        full[: array.shape[0]] = array
        return [full]

    def getdata(self):
        """The data of the batch, as a list."""
        return self._filled(self._batch[0])

    def getlabel(self):
        """The labels of the batch, as a list."""
        return self._filled(self._batch[1])

    def getpad(self):
        """How many rows at the end of the batch are no data."""
        return self.batch_size - self._batch[0].shape[0]

    def getindex(self):
        """None: a loader does not tell its indices."""
        return None
