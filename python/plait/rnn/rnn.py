"""Checkpoints of symbols with cells, whose weights are stored gate by gate."""

import warnings

from ..model import load_checkpoint, save_checkpoint
from .base_cell import BaseRNNCell

__all__ = [
    "rnn_unroll",
    "save_rnn_checkpoint",
    "load_rnn_checkpoint",
    "do_rnn_checkpoint",
]


def _list(cells):
    return [cells] if isinstance(cells, BaseRNNCell) else cells


def rnn_unroll(
    cell, length, inputs=None, begin_state=None, input_prefix="", layout="NTC"
):
    """[deprecated] cell.unroll()."""
    warnings.warn(
        "rnn_unroll is deprecated; call cell.unroll()", DeprecationWarning, stacklevel=2
    )
    return cell.unroll(length, inputs, begin_state, layout)


def save_rnn_checkpoint(cells, prefix, epoch, symbol, arg_params, aux_params):
    """save_checkpoint() with the weights of a cell, or of several, unpacked: they fit
    fused and single cells alike.
    """
    for cell in _list(cells):
        arg_params = cell.unpack_weights(arg_params)
    save_checkpoint(prefix, epoch, symbol, arg_params, aux_params)


def load_rnn_checkpoint(cells, prefix, epoch):
    """(symbol, arg_params, aux_params) with the weights packed for these cells."""
    symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
    for cell in _list(cells):
        arg_params = cell.pack_weights(arg_params)
    return symbol, arg_params, aux_params


def do_rnn_checkpoint(cells, prefix, period=1):
    """An epoch-end callback that calls save_rnn_checkpoint() every `period` epochs."""
    period = max(1, int(period))

    def save(iter_no, sym=None, arg=None, aux=None):
        if (iter_no + 1) % period == 0:
            save_rnn_checkpoint(cells, prefix, iter_no + 1, sym, arg, aux)

    return save
