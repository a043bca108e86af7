"""Names of layers in profiles: operators that run inside a block carry its name.

Only while the profiler runs are blocks called by way of this module.
"""

import sys
import threading

from .._plait import set_layer
from .block import Block

_plain_call = Block.__call__
_inside = threading.local()


def _named_call(self, *args):
    outer = getattr(_inside, "name", None)
    _inside.name = self.name
    set_layer(self.name)
    try:
        return _plain_call(self, *args)
    finally:
        _inside.name = outer
        set_layer(outer)


def switch(on):
    """Turns the naming of layers on or off."""
    Block.__call__ = _named_call if on else _plain_call


_profiler = sys.modules.get(__package__.rpartition(".")[0] + ".profiler")
if _profiler is not None and _profiler.is_active():
    switch(True)
