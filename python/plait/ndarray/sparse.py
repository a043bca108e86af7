"""plait.nd.sparse: sparse arrays come with a later release."""

from ..error import NotYetError
from ._core import NDArray


class BaseSparseNDArray(NDArray):
    """Base of the sparse classes, so that isinstance tests can be written now."""

    __slots__ = ()

    def __new__(cls, *args, **kwargs):
        raise NotYetError(
            "sparse: %s comes with a later release; use dense arrays" % cls.__name__
        )


class CSRNDArray(BaseSparseNDArray):
    """Compressed rows."""

    __slots__ = ()


class RowSparseNDArray(BaseSparseNDArray):
    """Some rows of an array that is zero elsewhere."""

    __slots__ = ()


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotYetError(
        "plait.nd.sparse.%s comes with a later release; use dense arrays" % name
    )
