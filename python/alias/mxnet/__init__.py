"""The package `mxnet`, resolved to Plait: ``mxnet.gluon.nn is plait.gluon.nn``."""

import sys

from plait.as_mxnet import fill

fill(sys.modules[__name__])
