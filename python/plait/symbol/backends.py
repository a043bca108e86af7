"""Names of backends that optimize_for() and hybridize() take."""

import warnings

from ..error import MXNetValueError

# MXNet's own on CPUs: what they do, fusing and folding, is done here for every graph
# when it is bound; docs/design/passes.md describes the passes.
_DONE = frozenset(("MKLDNN", "ONEDNN", "default", "NONE", ""))
_FOREIGN = frozenset(("TensorRT", "MKLDNN_QUANTIZE", "ONEDNN_QUANTIZE", "TVM"))


def check_backend(where, backend):
    """Throws where a backend's name is not known, warns where it has no effect."""
    if backend is None or backend in _DONE:
        return
    if backend in _FOREIGN:
        warnings.warn(
            "%s: the backend %s is not part of Plait; the graph stays as it is"
            % (where, backend),
            stacklevel=3,
        )
        return
    raise MXNetValueError(
        "%s: backend is %r; one of %s was expected. Plait optimizes every graph when "
        "it is bound, without a backend"
        % (where, backend, sorted(name for name in _DONE if name))
    )
