"""Modules of MXNet's tree that a later release brings: any use of them says so."""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types

from .error import NotYetError

_HINTS = {
    "numpy": "plait.np comes with a later release; use plait.nd",
    "numpy_extension": "plait.npx comes with a later release; use plait.nd",
    "rtc": "run-time compilation of CUDA code comes with a later release",
    "operator": "custom operators come with a later release; use autograd.Function",
    "contrib": "mx.contrib comes with a later release; see gluon.contrib",
    "torch": "the Torch bridge of old MXNet is not offered; exchange arrays by DLPack",
}

# Modules inside of them, which old programs import by name.
_INSIDE = {
    "contrib": (
        "ndarray",
        "onnx",
        "quantization",
        "symbol",
        "tensorrt",
    ),
}
_LATER = frozenset(_HINTS) | {
    "%s.%s" % (package, name) for package, names in _INSIDE.items() for name in names
}


class LaterModule(types.ModuleType):
    """A module that imports, and raises NotYetError as soon as a name of it is used."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _INSIDE.get(self.__name__.partition(".")[2], ()):
            return importlib.import_module("%s.%s" % (self.__name__, name))
        raise NotYetError(
            "%s.%s is not in this release of Plait; %s"
            % (self.__name__, name, _HINTS[self.__name__.split(".")[1]])
        )


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Asked last, so that a stand-in gives way as soon as the real module exists."""

    def find_spec(self, fullname, path=None, target=None):
        package, _, name = fullname.partition(".")
        if package == __package__ and name in _LATER:
            inside = name in _INSIDE
            return importlib.machinery.ModuleSpec(fullname, self, is_package=inside)
        return None

    def create_module(self, spec):
        return LaterModule(spec.name, "Not in this release of Plait.")

    def exec_module(self, module):
        pass


sys.meta_path.append(_Finder())
