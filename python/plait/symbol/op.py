"""plait.sym.op: operators as functions of symbols."""

from ._op import install as _install

_install({"": globals()})
