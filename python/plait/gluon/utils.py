"""Helpers for training loops: splitting batches, clipping gradients, checking files."""

import collections
import hashlib
import math
import os
import warnings
import weakref

from .. import ndarray as nd
from ..util import is_np_shape
from ._download import download

__all__ = [
    "split_data",
    "split_and_load",
    "clip_global_norm",
    "check_sha1",
    "download",
    "replace_file",
]


_REPOSITORY = "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"


def split_data(data, num_slice, batch_axis=0, even_split=True):
    """Cuts an NDArray into `num_slice` pieces along the batch axis.

    With even_split=False the first ``size % num_slice`` pieces have one row more.
    """
    size = data.shape[batch_axis]
    if even_split and size % num_slice != 0:
        raise ValueError(
            "data with shape %s cannot be evenly split into %d slices along axis "
            "%d. Use a batch size that's multiple of %d or set even_split=False to "
            "allow uneven partitioning of data."
            % (data.shape, num_slice, batch_axis, num_slice)
        )
    each, more = divmod(size, num_slice)
    slices, begin = [], 0
    for i in range(num_slice):
        end = begin + each + (i < more)
        slices.append(
            data[begin:end]
            if batch_axis == 0
            else nd.slice_axis(data, axis=batch_axis, begin=begin, end=end)
        )
        begin = end
    return slices


def split_and_load(data, ctx_list, batch_axis=0, even_split=True):
    """Splits data (NDArray or array-like) and puts one piece on each context."""
    if not isinstance(data, nd.NDArray):
        data = nd.array(data, ctx=ctx_list[0])
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    slices = split_data(data, len(ctx_list), batch_axis, even_split)
    return [piece.as_in_context(ctx) for piece, ctx in zip(slices, ctx_list)]


def _square_sum(array):
    if array.stype != "default":
        return array.norm().square()
    flat = array.reshape((-1,))
    return nd.dot(flat, flat)


def clip_global_norm(arrays, max_norm, check_isfinite=True):
    """Scales arrays in place so that the 2-norm of all together is at most `max_norm`.

    `arrays` are NDArrays, or Parameters whose gradients are meant. Returns the norm
    before: a float, or with check_isfinite=False (no wait) an NDArray of shape (1,).
    """
    assert len(arrays) > 0
    if hasattr(arrays[0], "list_grad"):
        arrays = [grad for parameter in arrays for grad in parameter.list_grad()]
    ctx = arrays[0].context
    norm = nd.sqrt(nd.add_n(*[_square_sum(a).as_in_context(ctx) for a in arrays]))
    if check_isfinite:
        norm = norm.asscalar()
        if not math.isfinite(norm):
            warnings.warn(
                UserWarning(
                    "nan or inf is detected. Clipping results will be undefined."
                ),
                stacklevel=2,
            )
        scale = max_norm / (norm + 1e-8)
        if scale < 1.0 or scale != scale:
            for array in arrays:
                array *= float(scale)
        return norm
    scale = nd.minimum(max_norm / (norm + 1e-8), 1.0)
    for array in arrays:
        array *= scale.as_in_context(array.context)
    return norm


def check_sha1(filename, sha1_hash):
    """Whether the file's SHA-1 is `sha1_hash` (hexadecimal)."""
    sha1 = hashlib.sha1()
    with open(filename, "rb") as f:
        for block in iter(lambda: f.read(1 << 20), b""):
            sha1.update(block)
    return sha1.hexdigest() == sha1_hash


def replace_file(src, dst):
    """Moves src over dst in one step."""
    os.replace(src, dst)


def _get_repo_url():
    """Where MXNet's files were published, or what MXNET_GLUON_REPO says, with a /."""
    url = os.environ.get("MXNET_GLUON_REPO", _REPOSITORY)
    return url if url.endswith("/") else url + "/"


def _get_repo_file_url(namespace, filename):
    """The URL of a published file; libraries pass it to download()."""
    return "%s%s/%s" % (_get_repo_url(), namespace, filename)


def _indent(text, spaces):
    """`text` with every line but the first indented."""
    return ("\n" + " " * spaces).join(text.split("\n"))


def _brief_print_list(names, limit=7):
    """The quoted names, the middle left out when there are more than `limit`."""
    names = list(names)
    if len(names) > limit:
        return (
            _brief_print_list(names[: limit // 2], limit)
            + ", ..., "
            + _brief_print_list(names[-limit // 2 :], limit)
        )
    return ", ".join("'%s'" % name for name in names)


def _nearest(name, names):
    """A sentence with the name that is like `name`, for errors; or nothing."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(names), 1)
    return " The nearest name is '%s'." % close[0] if close else ""


class HookHandle:
    """Detaches a hook; also a `with` block that does so at its end."""

    def __init__(self):
        self._hooks_dict_ref = None
        self._id = None

    def attach(self, hooks_dict, hook):
        """Puts the hook into an OrderedDict of hooks."""
        assert not self._hooks_dict_ref, "The same handle cannot be attached twice."
        self._id = id(hook)
        hooks_dict[self._id] = hook
        self._hooks_dict_ref = weakref.ref(hooks_dict)

    def detach(self):
        """Takes the hook out again; a second call does nothing."""
        hooks = self._hooks_dict_ref()
        if hooks is not None:
            hooks.pop(self._id, None)

    def __getstate__(self):
        return self._hooks_dict_ref(), self._id

    def __setstate__(self, state):
        hooks = state[0] if state[0] is not None else collections.OrderedDict()
        self._hooks_dict_ref = weakref.ref(hooks)
        self._id = state[1]

    def __enter__(self):
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.detach()


def shape_is_known(shape):
    """Whether no dimension is unknown: 0 or -1, under NumPy shape semantics only -1."""
    if shape is None:
        return False
    unknown = -1 if is_np_shape() else 0
    if len(shape) == 0:
        return unknown == -1
    for size in shape:
        if size == unknown or size == -1:
            return False
        assert size > unknown, (
            "shape dimension size cannot be less than %d, while received %s"
            % (unknown, size)
        )
    return True
