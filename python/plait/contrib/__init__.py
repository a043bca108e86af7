"""plait.contrib: word vectors, mixed precision, and others of MXNet's contrib."""

import importlib

_ALIASES = {"nd": "ndarray", "sym": "symbol"}
_MODULES = (
    "amp",
    "autograd",
    "io",
    "ndarray",
    "onnx",
    "quantization",
    "svrg_optimization",
    "symbol",
    "tensorboard",
    "tensorrt",
    "text",
)


def __getattr__(name):
    module = _ALIASES.get(name, name)
    if module not in _MODULES:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    return importlib.import_module("%s.%s" % (__name__, module))
