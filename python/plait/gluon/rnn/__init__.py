"""Recurrent cells, one step at a time, and recurrent layers over whole sequences."""

from . import rnn_cell, rnn_layer
from .rnn_cell import *  # noqa: F403
from .rnn_cell import __all__ as _cells
from .rnn_layer import GRU, LSTM, RNN

__all__ = ["rnn_cell", "rnn_layer", "RNN", "LSTM", "GRU"] + _cells
