"""plait.nd.sparse: sparse arrays, and every operator by its name, as all take them."""

from .. import _plait
from . import functions as _functions
from ._namespaces import install as _install
from ._sparse_arrays import (  # noqa: F401
    BaseSparseNDArray,
    CSRNDArray,
    RowSparseNDArray,
)
from ._sparse_create import (  # noqa: F401
    array,
    csr_matrix,
    empty,
    row_sparse_array,
    zeros,
)

add, subtract = _functions.add, _functions.subtract
multiply, divide = _functions.multiply, _functions.divide

_install({"sparse": globals()})
for _name in _plait.op_names():
    if not _name.startswith("_"):
        globals().setdefault(_name, _plait.op_function(_name, _name))
