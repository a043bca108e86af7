"""plait.nd.image: image operators."""

from ._namespaces import install as _install

_install({"image": globals()})
