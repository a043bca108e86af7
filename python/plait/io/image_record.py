"""ImageRecordIter: batches of images from record files, made by threads in C++."""

import logging
import os

import numpy as np

from .. import _plait
from .. import ndarray as nd
from ..base import mx_real_t
from ..error import MXNetValueError
from .base import DataBatch, DataDesc, DataIter, flag, required, shape_of


def _numbers(value):
    """Whole numbers from a sequence, or from a text such as "0, 90"."""
    if isinstance(value, str):
        value = [part for part in value.strip("()[] ").split(",") if part.strip()]
    return [int(v) for v in value]


def _path(value):
    return os.fspath(value) if value else ""


# How a value, or the text of one, becomes what C++ takes.
_KINDS = {
    str: "path_imgrec path_imgidx path_imglist",
    flag: "round_batch shuffle random_resized_crop rand_crop mirror rand_mirror orient "
    "exact skip_broken",
    int: "num_parts part_index batch_size label_width seed seed_aug preprocess_threads "
    "prefetch_buffer prefetch_bytes resize pad fill_value max_crop_size min_crop_size "
    "inter_method",
    float: "max_rotate_angle max_shear_ratio rotate max_random_scale min_random_scale "
    "max_aspect_ratio min_aspect_ratio max_img_size min_img_size max_random_area "
    "min_random_area brightness contrast saturation random_h random_s random_l "
    "pca_noise mean_r mean_g mean_b mean_a std_r std_g std_b std_a scale "
    "max_random_contrast max_random_illumination",
}
_CONVERT = {name: kind for kind, names in _KINDS.items() for name in names.split()}
_CONVERT.update(
    path_imgrec=_path,
    path_imgidx=_path,
    path_imglist=_path,
    rotate_list=_numbers,
    detection=dict,
    data_shape=shape_of,
)
# Of MXNet's parameters those that change nothing here.
_IGNORED = frozenset(
    (
        "aug_seq",
        "verbose",
        "device_id",
        "shuffle_chunk_size",
        "ctx",
        "data_name",
        "label_name",
    )
)


def _converted(arguments, who="ImageRecordIter"):
    """Arguments for C++; those that nobody knows are named in the log and left out."""
    known, unknown = {}, []
    for name, value in arguments.items():
        if name in _CONVERT:
            if value is not None:
                try:
                    known[name] = _CONVERT[name](value)
                except (TypeError, ValueError):
                    raise MXNetValueError(
                        "%s: %s is %r, which is of the wrong kind" % (who, name, value)
                    ) from None
        elif name not in _IGNORED:
            unknown.append(name)
    if unknown:
        logging.warning(
            "%s: unknown arguments are ignored: %s", who, ", ".join(unknown)
        )
    return known


class ImageRecordIter(DataIter):
    """Batches (batch, channels, height, width) of images of a record file, made by
    threads in C++, which read, decode, augment and normalise.

    Takes MXNet's parameters by name (docs/design/data.md lists them); texts are
    understood. Beside them: on_error ('raise', or 'skip' to leave out records without a
    sound image; how many is in `skipped`), orient (turn images by their EXIF data),
    exact (never decode a JPEG at a smaller size before `resize`), prefetch_bytes (a
    limit beside prefetch_buffer).

    The same seed and seed_aug give the same batches, whatever the number of threads.
    seed_aug is seed, if it is not given. Each pass over the data is augmented anew.
    """

    def __init__(
        self,
        path_imgrec=None,
        data_shape=None,
        batch_size=None,
        dtype=None,
        mean_img="",
        on_error="raise",
        data_name="data",
        label_name="softmax_label",
        **kwargs,
    ):
        who = type(self).__name__
        required(
            who,
            path_imgrec=path_imgrec,
            data_shape=data_shape,
            batch_size=batch_size,
        )
        if on_error not in ("raise", "skip"):
            raise MXNetValueError(
                "%s: on_error is %r; 'raise' or 'skip' was expected" % (who, on_error)
            )
        kwargs.update(
            path_imgrec=path_imgrec, data_shape=data_shape, batch_size=batch_size
        )
        options = _converted(kwargs, who)
        seed = (
            options.get("seed", 0) + int(kwargs.pop("shuffle_chunk_seed", 0))
        ) % 2**64
        options["seed"] = seed
        options["seed_aug"] = options.get("seed_aug", seed) % 2**64
        options["skip_broken"] = on_error == "skip"
        dtype = mx_real_t if dtype in (None, "None") else dtype
        super().__init__(options["batch_size"])
        if mean_img:
            options["mean_image"] = self._mean_image(os.fspath(mean_img), options)
        self._loader = _plait.ImageLoader(dtype=dtype, **options)
        self._current = None
        self._said = 0
        shape = (self.batch_size, *options["data_shape"])
        width = self._loader.label_width()
        flat = width == 1 and "detection" not in options
        labels = (self.batch_size,) if flat else (self.batch_size, width)
        self.provide_data = [DataDesc(data_name, shape, np.dtype(dtype))]
        self.provide_label = [DataDesc(label_name, labels)]

    @staticmethod
    def _mean_image(path, options):
        """The mean image of a file; where there is none it is computed and saved."""
        if os.path.exists(path):
            found = nd.load(path)
            arrays = list(found.values()) if isinstance(found, dict) else found
            if len(arrays) != 1:
                raise MXNetValueError(
                    "ImageRecordIter: mean_img %s holds %d arrays; one was expected"
                    % (path, len(arrays))
                )
            return arrays[0]
        plain = {k: v for k, v in options.items() if k[:5] not in ("mean_", "std_r")}
        plain.update(round_batch=False, shuffle=False)
        loader = _plait.ImageLoader(dtype="float32", **plain)
        total, count = 0, 0
        while (batch := loader.next()) is not None:
            rows = options["batch_size"] - batch[2]
            total = total + batch[0].asnumpy()[:rows].sum(0, dtype="float64")
            count += rows
        loader.close()
        mean = nd.array((total / count).astype("float32"))
        nd.save(path, {"mean_img": mean})
        return mean

    @property
    def skipped(self):
        """How many records were left out so far."""
        return self._loader.skipped()

    def __len__(self):
        """How many records there are."""
        return len(self._loader)

    def close(self):
        """Ends the threads; the iterator is of no more use."""
        self._loader.close()

    def reset(self):
        self._loader.reset()

    def state_dict(self):
        """Where the next batch begins; for load_state_dict() of an iterator with the
        same arguments, which then gives the same batches.
        """
        record = self._loader.position()
        return dict(zip(("pass", "record", "ended"), record))

    def load_state_dict(self, state):
        """Goes to a place that state_dict() told."""
        self._loader.seek(state["pass"], state["record"], state["ended"])

    def next(self):
        if not self.iter_next():
            raise StopIteration
        data, label, pad, index = self._current
        return DataBatch([data], [label], pad, np.array(index, "uint64"))

    def iter_next(self):
        self._current = self._loader.next()
        if self._current is not None:
            return True
        skipped = self._loader.skipped()
        if skipped > self._said:
            logging.warning(
                "%s: %d records without a sound image were left out",
                type(self).__name__,
                skipped - self._said,
            )
            self._said = skipped
        return False

    def getdata(self):
        return self._current[0]

    def getlabel(self):
        return self._current[1]

    def getpad(self):
        return self._current[2]

    def getindex(self):
        return np.array(self._current[3], "uint64")


class ImageRecordUInt8Iter(ImageRecordIter):
    """ImageRecordIter of bytes as they are, without normalisation."""

    def __init__(self, *args, **kwargs):
        kwargs["dtype"] = "uint8"
        super().__init__(*args, **kwargs)


class ImageRecordInt8Iter(ImageRecordIter):
    """ImageRecordIter of bytes less the rounded mean."""

    def __init__(self, *args, **kwargs):
        kwargs["dtype"] = "int8"
        super().__init__(*args, **kwargs)


# MXNet's older implementation of the same.
ImageRecordIter_v1 = ImageRecordIter
ImageRecordUInt8Iter_v1 = ImageRecordUInt8Iter
