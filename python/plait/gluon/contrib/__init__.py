"""Parts of Gluon outside the common set."""

import importlib

__all__ = ["cnn", "data", "estimator", "nn", "rnn"]


def __getattr__(name):
    if name in __all__:
        return importlib.import_module("%s.%s" % (__name__, name))
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
