"""All iterators under one module, as MXNet has them."""

from .array_iter import NDArrayIter
from .base import DataBatch, DataDesc, DataIter, FileIter, ResizeIter
from .csv_iter import CSVIter
from .image_det_record import ImageDetRecordIter
from .image_record import (
    ImageRecordInt8Iter,
    ImageRecordIter,
    ImageRecordIter_v1,
    ImageRecordUInt8Iter,
    ImageRecordUInt8Iter_v1,
)
from .libsvm_iter import LibSVMIter
from .mnist import MNISTIter
from .prefetch import PrefetchingIter

# Iterators that MXNet has in C++ share this base; isinstance checks go on working.
MXDataIter = FileIter

__all__ = [
    "DataBatch",
    "DataDesc",
    "DataIter",
    "ResizeIter",
    "PrefetchingIter",
    "NDArrayIter",
    "MXDataIter",
    "MNISTIter",
    "CSVIter",
    "LibSVMIter",
    "ImageRecordIter",
    "ImageRecordUInt8Iter",
    "ImageRecordInt8Iter",
    "ImageRecordIter_v1",
    "ImageDetRecordIter",
    "ImageRecordUInt8Iter_v1",
]
