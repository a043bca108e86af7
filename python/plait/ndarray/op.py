"""plait.nd.op: all operator functions that plait.nd has."""

from ._namespaces import install as _install

_install({"": globals()})
