"""plait.contrib.svrg_optimization: variance reduced gradients for modules."""

from . import svrg_module, svrg_optimizer
from .svrg_module import SVRGModule
