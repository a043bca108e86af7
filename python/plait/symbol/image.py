"""plait.sym.image: operators as functions of symbols."""

from ._op import install as _install

_install({"image": globals()})
