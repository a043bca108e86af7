"""plait.sym._internal: operators as functions of symbols."""

from ._op import install as _install

_install({"_internal": globals()})
