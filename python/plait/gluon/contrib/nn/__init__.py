"""More layers: concurrent branches, identity, pixel shuffles, batch norm across
devices.
"""

from . import basic_layers
from .basic_layers import *  # noqa: F403
from .basic_layers import __all__  # noqa: F401
