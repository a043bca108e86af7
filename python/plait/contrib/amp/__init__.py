"""Automatic mixed precision: networks that compute in float16 or bfloat16 where that is
safe, and in float32 elsewhere.

Training: init(), then make the network, init_trainer(trainer), and scale_loss() around
backward. Prediction: convert_hybrid_block(), convert_model() or convert_symbol().
"""

from . import amp, lists, loss_scaler  # noqa: F401
from .amp import *  # noqa: F403
