"""Plait: imperative arrays and symbolic graphs on one asynchronous engine.

The module tree is MXNet 1.9.1's: plait.nd, plait.autograd, plait.gluon, ... Submodules
are imported when they are first used, so that ``import plait`` is quick.
"""

import importlib
import os

# GNU OpenMP's threads would otherwise spin for milliseconds after each parallel region,
# burning the cores that the engine's other threads need. About 20 us are enough to wait
# for the next layer of a network. It must be set before the runtime is loaded.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

from . import _later  # noqa: E402, F401
from .context import Context, cpu, cpu_pinned, current_context, gpu  # noqa: E402
from .error import MXNetError  # noqa: E402
from .libinfo import __version__  # noqa: E402

# Public name -> module, where the two differ.
_ALIASES = {
    "nd": "ndarray",
    "sym": "symbol",
    "np": "numpy",
    "npx": "numpy_extension",
    "mod": "module",
    "init": "initializer",
    "rnd": "random",
    "viz": "visualization",
    "mon": "monitor",
    "img": "image",
    "kv": "kvstore",
    "th": "torch",
}
_MODULES = frozenset(
    (
        "attribute",
        "autograd",
        "base",
        "callback",
        "context",
        "contrib",
        "distributed",
        "engine",
        "error",
        "executor",
        "executor_manager",
        "gluon",
        "image",
        "initializer",
        "io",
        "kvstore",
        "libinfo",
        "library",
        "log",
        "lr_scheduler",
        "metric",
        "model",
        "module",
        "monitor",
        "name",
        "ndarray",
        "numpy",
        "numpy_extension",
        "operator",
        "optimizer",
        "profiler",
        "random",
        "recordio",
        "registry",
        "rnn",
        "rtc",
        "runtime",
        "symbol",
        "test_utils",
        "torch",
        "util",
        "visualization",
    )
)
# Public name -> (module, attribute) of what is neither a module nor needed at once.
_NAMES = {
    "AttrScope": ("attribute", "AttrScope"),
    "is_np_shape": ("util", "is_np_shape"),
    "set_np_shape": ("util", "set_np_shape"),
    "np_shape": ("util", "np_shape"),
    "use_np_shape": ("util", "use_np_shape"),
    "is_np_array": ("util", "is_np_array"),
    "np_array": ("util", "np_array"),
    "use_np_array": ("util", "use_np_array"),
    "use_np": ("util", "use_np"),
    "Function": ("autograd", "Function"),
}


def import_module(name):
    """Imports plait.<name>; MXNet's short names (nd, sym, ...) are understood."""
    head, dot, rest = name.partition(".")
    return importlib.import_module(
        "%s.%s%s%s" % (__name__, _ALIASES.get(head, head), dot, rest)
    )


def __getattr__(name):
    if name in _MODULES or name in _ALIASES:
        value = import_module(name)
    elif name in _NAMES:
        module, attribute = _NAMES[name]
        value = getattr(import_module(module), attribute)
    else:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    globals()[name] = value
    return value


def __dir__():
    return sorted(set(globals()) | _MODULES | set(_ALIASES) | set(_NAMES))


if os.environ.get("PLAIT_PROFILE") or os.environ.get(
    "MXNET_PROFILER_AUTOSTART", "0"
) not in ("", "0"):
    import_module("profiler")
