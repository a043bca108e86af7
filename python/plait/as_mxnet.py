"""Runs MXNet programs on Plait: ``python -m plait.as_mxnet script.py args`` or
install().

After install() every ``import mxnet...`` gives Plait's own module: mxnet.gluon.nn is
plait.gluon.nn. Only the package `mxnet` itself is a thin module of its own, as it
reports MXNet's version.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import multiprocessing.pool  # noqa: F401  (programs rely on MXNet's importing it)
import sys

import plait
from plait.libinfo import __mxnet_version__


class _Loader(importlib.abc.Loader):
    """Hands out an already imported module and leaves its own __spec__ as it was."""

    def __init__(self, module):
        self._module = module
        self._spec = getattr(module, "__spec__", None)

    def create_module(self, spec):
        return self._module

    def exec_module(self, module):
        module.__spec__ = self._spec


class _Finder(importlib.abc.MetaPathFinder):
    """Resolves mxnet.X.Y by importing plait.X.Y, short names (mxnet.nd) included."""

    def find_spec(self, fullname, path=None, target=None):
        if not fullname.startswith("mxnet."):
            return None
        try:
            module = plait.import_module(fullname[len("mxnet.") :])
        except ModuleNotFoundError as e:
            if e.name and e.name.startswith("plait."):
                return None  # Python then reports fullname as missing
            raise
        spec = importlib.machinery.ModuleSpec(fullname, _Loader(module))
        if hasattr(module, "__path__"):
            spec.submodule_search_locations = module.__path__
        return spec


def fill(module):
    """Makes `module` the package mxnet: Plait's names, MXNet's version."""
    module.__version__ = __mxnet_version__
    module.__getattr__ = lambda name: getattr(plait, name)
    module.__dir__ = lambda: dir(plait)
    module.__path__ = []
    module._is_plait = True
    for name in (
        "Context",
        "MXNetError",
        "cpu",
        "cpu_pinned",
        "current_context",
        "gpu",
    ):
        setattr(module, name, getattr(plait, name))
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def install():
    """Makes every later ``import mxnet`` in this process resolve to Plait."""
    present = sys.modules.get("mxnet")
    if present is not None:
        if not hasattr(present, "_is_plait"):
            raise ImportError(
                "plait.as_mxnet: another mxnet is already imported from %s"
                % getattr(present, "__file__", None)
            )
        return present
    import types

    module = types.ModuleType("mxnet", plait.__doc__)
    module.__spec__ = importlib.machinery.ModuleSpec("mxnet", None, is_package=True)
    fill(module)
    sys.modules["mxnet"] = module
    return module


def main(arguments):
    """Runs a script (or -m module, or -c command) with mxnet resolving to Plait."""
    import os
    import runpy

    if not arguments:
        sys.exit(
            "usage: python -m plait.as_mxnet (script.py | -m module | -c command) ..."
        )
    install()
    if arguments[0] == "-m" and len(arguments) > 1:
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c" and len(arguments) > 1:
        sys.argv = ["-c"] + arguments[2:]
        sys.path.insert(0, "")
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
