"""plait.rnn: recurrent cells that build symbols, and data in buckets of equal length.

gluon.rnn has their imperative relatives.
"""

from . import io, rnn, rnn_cell
from .io import *  # noqa: F403
from .io import __all__ as _io
from .rnn import *  # noqa: F403
from .rnn import __all__ as _rnn
from .rnn_cell import *  # noqa: F403
from .rnn_cell import __all__ as _cells

__all__ = ["io", "rnn", "rnn_cell"] + _io + _rnn + _cells
