"""plait.nd.contrib: operators of MXNet's contrib namespace."""

from ._namespaces import install as _install

_install({"contrib": globals()})
