"""Where the library's files are, and its version."""

import glob
import os

__version__ = "0.1.0"
# The release of MXNet whose Python surface this one offers.
__mxnet_version__ = "1.9.1"


def find_lib_path(prefix="_plait"):
    """Paths of the native extension beside this file."""
    here = os.path.dirname(os.path.abspath(__file__))
    found = sorted(
        glob.glob(os.path.join(here, prefix + "*.so"))
        + glob.glob(os.path.join(here, prefix + "*.pyd"))
    )
    if not found:
        raise RuntimeError("find_lib_path: no %s extension in %s" % (prefix, here))
    return found


def find_include_path():
    """The folder with the C header that belongs to this installation."""
    here = os.path.dirname(os.path.abspath(__file__))
    for path in (
        os.path.join(here, "include"),
        os.path.join(here, "..", "..", "include"),
    ):
        if os.path.isdir(path):
            return os.path.normpath(path)
    raise RuntimeError("find_include_path: no include folder near %s" % here)
