"""ImageDetRecordIter: batches of images with boxes."""

import ast

from ..error import MXNetValueError
from .image_record import ImageRecordIter


def _tuple(value):
    """A tuple of numbers from a number, a sequence, or a text such as "(0.1, 0.5)"."""
    if isinstance(value, str):
        value = ast.literal_eval(value.strip())
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


# Parameters of the crop samplers, with their defaults, in the order of the C++ struct.
_SAMPLER = {
    "min_crop_scales": 0.0,
    "max_crop_scales": 1.0,
    "min_crop_aspect_ratios": 1.0,
    "max_crop_aspect_ratios": 1.0,
    "min_crop_overlaps": 0.0,
    "max_crop_overlaps": 1.0,
    "min_crop_sample_coverages": 0.0,
    "max_crop_sample_coverages": 1.0,
    "min_crop_object_coverages": 0.0,
    "max_crop_object_coverages": 1.0,
    "max_crop_trials": 25,
}
_PLAIN = {
    "label_width": int,
    "label_pad_width": int,
    "resize_mode": str,
    "crop_emit_mode": str,
}
_PLAIN.update(
    dict.fromkeys(
        (
            "label_pad_value rand_mirror_prob rand_pad_prob max_pad_scale "
            "rand_crop_prob emit_overlap_thresh random_hue_prob max_random_hue "
            "random_saturation_prob max_random_saturation random_illumination_prob "
            "max_random_illumination random_contrast_prob max_random_contrast"
        ).split(),
        float,
    )
)
_MEANS = ("mean_r", "mean_g", "mean_b", "mean_a")
_DEVIATIONS = ("std_r", "std_g", "std_b", "std_a")
# Augmentations of ImageRecordIter that this iterator does not have.
_ABSENT = frozenset(
    (
        "max_rotate_angle max_shear_ratio rotate rotate_list max_random_scale "
        "min_random_scale max_aspect_ratio min_aspect_ratio max_img_size min_img_size "
        "pad random_resized_crop rand_crop max_random_area min_random_area "
        "max_crop_size min_crop_size brightness contrast saturation random_h random_s "
        "random_l pca_noise mirror rand_mirror detection"
    ).split()
)


def _samplers(kwargs):
    """Tuples of the numbers of each crop sampler."""
    count = int(kwargs.pop("num_crop_sampler", 1))
    columns = []
    for name, default in _SAMPLER.items():
        try:
            values = [float(v) for v in _tuple(kwargs.pop(name, default))]
        except (TypeError, ValueError, SyntaxError):
            raise MXNetValueError(
                "ImageDetRecordIter: %s is no number or tuple of numbers" % name
            ) from None
        if len(values) == 1 and count > 0:
            values *= count
        if len(values) != max(count, 1):
            raise MXNetValueError(
                "ImageDetRecordIter: %s has %d values; num_crop_sampler, %d, were "
                "expected" % (name, len(values), count)
            )
        columns.append(values)
    return list(zip(*columns))[: max(count, 0)]


class ImageDetRecordIter(ImageRecordIter):
    """Batches of images of a record file, with labels of the boxes in them.

    Takes MXNet's parameters by name. A row of labels is [channels, height, width,
    number of labels, labels..., label_pad_value...]; it has room for label_pad_width
    labels, or for those of the image with the most. Boxes follow the image through
    mirroring, padding and cropping. on_error, orient, exact and prefetch_bytes,
    state_dict() and what follows from seed and seed_aug are those of ImageRecordIter.
    """

    def __init__(
        self,
        path_imgrec="./data/imgrec.rec",
        data_shape=None,
        batch_size=None,
        dtype=None,
        mean_img="",
        **kwargs,
    ):
        detection = {"samplers": _samplers(kwargs)}
        for name, kind in _PLAIN.items():
            value = kwargs.pop(name, None)
            if value is not None:
                try:
                    detection[name] = kind(value)
                except (TypeError, ValueError):
                    raise MXNetValueError(
                        "ImageDetRecordIter: %s is %r, which is of the wrong kind"
                        % (name, value)
                    ) from None
        for name in _ABSENT & kwargs.keys():
            kwargs["unknown " + name] = kwargs.pop(name)  # named in the log
        # Means count where one is above 0, and then the mean image does not;
        # deviations where they are.
        means = [float(kwargs.get(name, 0)) for name in _MEANS]
        if any(mean > 0 for mean in means):
            mean_img = ""
        else:
            kwargs.update(dict.fromkeys(_MEANS, 0.0))
        for name in _DEVIATIONS:
            if float(kwargs.get(name, 0)) <= 0:
                kwargs[name] = 1.0
        kwargs.setdefault("fill_value", 127)
        super().__init__(
            path_imgrec,
            data_shape,
            batch_size,
            dtype,
            mean_img,
            detection=detection,
            **kwargs,
        )
