"""plait.nd._internal: operators whose names begin with an underscore."""

from ._namespaces import install as _install

_install({"_internal": globals()})
