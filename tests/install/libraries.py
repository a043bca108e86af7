"""An installed Plait uses the libraries beside it, and else only the system's run time.

Uses every library once, and looks at which files the process has mapped then.
"""

import os
import re
import subprocess
import zlib  # noqa: F401 - Python's own libz comes first, and is the one of the process

import numpy as np


def mapped():
    """Shared libraries of this process."""
    with open("/proc/self/maps") as file:
        paths = {line.split(None, 5)[5].strip() for line in file if "/" in line}
    return {os.path.realpath(p) for p in paths if ".so" in os.path.basename(p)}


before = mapped()

import plait as mx  # noqa: E402
from plait import _plait, recordio  # noqa: E402

PACKAGE = os.path.dirname(os.path.realpath(mx.__file__))
RUN_TIME = re.compile(r"ld-linux|lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s)[.-]")
# Of an MPI, which is there when its launcher starts a program.
PLUGINS = re.compile(r"libplait_(openmpi|mpich)\.so")


def needed(path):
    """Names of the libraries that a file asks the loader for."""
    text = subprocess.run(
        ["readelf", "-d", path], capture_output=True, text=True, check=True
    ).stdout
    return re.findall(r"NEEDED.*\[(.*)\]", text)


x = mx.nd.array(np.random.rand(2, 8, 16, 16))
y = mx.nd.Convolution(x, mx.nd.ones((8, 8, 3, 3)), no_bias=True, kernel=(3, 3),
                      num_filter=8)  # fmt: skip
assert np.isfinite(y.asnumpy()).all()
if _plait.features()["OPENCV"]:
    picture = np.full((20, 30, 3), 90, "uint8")
    for kind in (".jpg", ".png"):
        record = recordio.pack_img((0, 1.0, 2, 0), picture, img_fmt=kind)
        assert abs(recordio.unpack_img(record)[1].astype(int) - 90).max() < 3

files = sorted(name for name in os.listdir(PACKAGE) if ".so" in name)
for name in files:
    if PLUGINS.match(name):
        continue
    for other in needed(os.path.join(PACKAGE, name)):
        assert other in files or RUN_TIME.match(other), f"{name} needs {other}"
bundled = [n for n in files if not re.match(r"_plait|libplait", n)]
for name in bundled:
    licence = os.path.join(PACKAGE, "licenses", name + ".txt")
    assert os.path.getsize(licence) > 200, licence
for name in bundled:
    stem = name.split(".so")[0] + ".so"
    used = {p for p in mapped() if os.path.basename(p).startswith(stem)}
    own = {p for p in used if p.startswith(PACKAGE + os.sep)}
    assert own or used & before, f"{name} is not used"
    assert used - before == own, f"{name}: {sorted(used)}"
print(f"plait in {PACKAGE} brings {', '.join(bundled)}")
