"""More recurrent cells."""

from .conv_rnn_cell import *  # noqa: F403
from .conv_rnn_cell import __all__ as _conv
from .rnn_cell import LSTMPCell, VariationalDropoutCell, dynamic_unroll

__all__ = ["LSTMPCell", "VariationalDropoutCell", "dynamic_unroll"] + _conv
