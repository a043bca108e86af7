"""All optimizers under one module, where MXNet's pickled states look for them."""

from ..ndarray import abs as NDabs
from .adam import FTML, LAMB, Adam, Adamax, Nadam
from .adaptive import AdaDelta, AdaGrad, Ftrl, RMSProp, Test
from .base import Optimizer, create, register
from .contrib import AdamW, GroupAdaGrad  # noqa: F401
from .large_batch import LARS, LBSGD
from .sgd import DCASGD, NAG, SGD, SGLD, Signum, ccSGD
from .updater import Updater, get_updater

__all__ = [
    "AdaDelta",
    "AdaGrad",
    "Adam",
    "Adamax",
    "DCASGD",
    "FTML",
    "Ftrl",
    "LARS",
    "LBSGD",
    "NAG",
    "NDabs",
    "Nadam",
    "Optimizer",
    "RMSProp",
    "SGD",
    "SGLD",
    "Signum",
    "LAMB",
    "Test",
    "Updater",
    "ccSGD",
    "create",
    "get_updater",
    "register",
]
