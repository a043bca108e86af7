"""Shapes of a batch that differ from those that a module is bound to."""

from ..error import MXNetValueError, check
from ..io import DataDesc
from .checks import as_descs


def new_shapes(batch, data_shapes, label_shapes):
    """(data, labels or None) as DataDescs to bind a batch by, or None where the data
    have the shapes already bound.
    """
    shapes = _shapes_of(batch)
    if [desc.shape for desc in data_shapes] == shapes:
        return None
    if len(shapes) != len(data_shapes):
        raise MXNetValueError(
            "Module.forward: the batch has %d data arrays; expected %d: %s"
            % (len(shapes), len(data_shapes), ", ".join(d.name for d in data_shapes))
        )
    data = as_descs(
        getattr(batch, "provide_data", None) or _replaced(data_shapes, shapes)
    )
    labels = getattr(batch, "provide_label", None)
    if not labels and label_shapes:
        arrays = getattr(batch, "label", None) or ()
        shapes = [x.shape for x in arrays] or [
            _resized(label, data[0]) for label in label_shapes
        ]
        labels = _replaced(label_shapes, shapes)
    return data, labels or None


def _shapes_of(batch):
    """The shapes of a batch's data; of a list with one batch for each device, those of
    the whole.
    """
    if not isinstance(batch, list):
        return [x.shape for x in batch.data]
    shapes = [[x.shape for x in part.data] for part in batch]
    check(
        shapes and all(s == shapes[0] for s in shapes),
        "Module.forward: the devices' batches have shapes %s; expected equal ones",
        shapes,
    )
    return [(len(shapes) * shape[0], *shape[1:]) for shape in shapes[0]]


def _replaced(descs, shapes):
    return [
        DataDesc(d.name, shape, d.dtype, d.layout) for d, shape in zip(descs, shapes)
    ]


def _resized(label, data):
    """The shape of a label for the batch size of some data."""
    shape = list(label.shape)
    axes = [DataDesc.get_batch_axis(d.layout) for d in (label, data)]
    if min(axes) >= 0:
        shape[axes[0]] = data.shape[axes[1]]
    return tuple(shape)
