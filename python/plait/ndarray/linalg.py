"""plait.nd.linalg: linear algebra on the last two axes."""

from ._namespaces import install as _install

_install({"linalg": globals()})
