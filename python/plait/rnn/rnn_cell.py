"""All cells under one module, where MXNet's programs look for them."""

from .base_cell import BaseRNNCell, RNNParams
from .cells import GRUCell, LSTMCell, RNNCell
from .combined_cells import BidirectionalCell, SequentialRNNCell
from .conv_cells import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from .fused_cell import FusedRNNCell
from .modifier_cells import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell

__all__ = [
    "RNNParams",
    "BaseRNNCell",
    "RNNCell",
    "LSTMCell",
    "GRUCell",
    "FusedRNNCell",
    "SequentialRNNCell",
    "DropoutCell",
    "ModifierCell",
    "ZoneoutCell",
    "ResidualCell",
    "BidirectionalCell",
    "BaseConvRNNCell",
    "ConvRNNCell",
    "ConvLSTMCell",
    "ConvGRUCell",
]
