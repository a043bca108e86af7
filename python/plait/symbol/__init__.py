"""plait.sym: declarative graphs, and every operator as a function of symbols.

Names map as in MXNet: _contrib_X is sym.contrib.X, _linalg_X is sym.linalg.X.
"""

from . import _internal, contrib, image, linalg, op, random, sparse  # noqa: F401
from ._op import install as _install
from .symbol import *  # noqa: F401, F403
from .symbol import Symbol  # noqa: F401

_install({"": globals()})

from .functions import *  # noqa: E402, F401, F403
