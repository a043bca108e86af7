"""plait.sym.contrib: operators as functions of symbols."""

from ._op import install as _install

_install({"contrib": globals()})
