"""Helpers for tests, as MXNet's own tests and those of its users import them.

There is no __all__: ``from mxnet.test_utils import *`` is expected to bring mx, np and
other modules along.
"""

import errno  # noqa: F401
import gzip  # noqa: F401
import json  # noqa: F401
import logging  # noqa: F401
import os  # noqa: F401
import platform  # noqa: F401
import struct  # noqa: F401
import sys  # noqa: F401
import time  # noqa: F401
import traceback  # noqa: F401
import zipfile  # noqa: F401
from collections import OrderedDict  # noqa: F401
from contextlib import contextmanager  # noqa: F401

import numpy as np  # noqa: F401
import numpy.random as rnd  # noqa: F401
import numpy.testing as npt  # noqa: F401

import plait as mx  # noqa: F401

from ..context import Context, current_context  # noqa: F401
from ..ndarray import array  # noqa: F401
from ..runtime import Features  # noqa: F401
from ..util import getenv, setenv, use_np  # noqa: F401
from .arrays import *  # noqa: F403
from .compare import *  # noqa: F403
from .files import *  # noqa: F403
from .gradients import *  # noqa: F403
from .process import *  # noqa: F403
from .statistics import *  # noqa: F403
from .symbolic import *  # noqa: F403
from .tolerance import *  # noqa: F403

try:
    import scipy.stats as ss  # noqa: F401
except ImportError:
    ss = None
