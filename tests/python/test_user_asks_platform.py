"""What users of MXNet suffered from around NumPy, Python and files.

Each test names the row of the list of requirements that it stands for (P1, S3, ...).
"""

import multiprocessing
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd
from plait.gluon import nn

PACKAGE = os.path.dirname(mx.__file__)


def sources():
    for folder, _, names in os.walk(PACKAGE):
        for name in names:
            if name.endswith(".py"):
                yield os.path.join(folder, name)


def test_no_name_that_numpy_removed():  # P1
    removed = re.compile(
        r"\bnp\.(bool|int|float|complex|object|str|float_|complex_|unicode_|NaN|Inf|"
        r"in1d|product|cumproduct|sometrue|alltrue|row_stack|trapz|cast|asfarray)\b"
    )
    for path in sources():
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                assert not removed.search(line), f"{path}:{number}: {line}"


def test_the_extension_needs_no_numpy_interface():  # P2
    from plait import _plait

    with open(_plait.__file__, "rb") as f:
        assert b"_ARRAY_API" not in f.read()


def test_importing_the_core_imports_no_numpy():  # P2
    script = "import sys, plait._plait; assert 'numpy.core' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


SPAWN = """
import multiprocessing, sys
import numpy as np
import plait as mx

class Numbers:
    def __len__(self): return 32
    def __getitem__(self, i): return np.full((3,), i, "float32")

if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    mx.nd.ones(3).wait_to_read()
    loader = mx.gluon.data.DataLoader(Numbers(), batch_size=8, num_workers=2)
    print([float(b[0, 0].asscalar()) for b in loader])
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_data_workers_by_every_start_method(method, tmp_path):  # P7
    script = tmp_path / "load.py"
    script.write_text(SPAWN)
    done = subprocess.run(
        [sys.executable, str(script), method],
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ, PYTHONPATH=os.path.dirname(PACKAGE)),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0.0, 8.0, 16.0, 24.0]\n"


def test_arrays_pass_between_processes():  # P7
    import pickle

    for dtype in ("float32", "float16", "int64", "bool"):
        x = nd.array([[1, 0], [3, 4]], dtype=dtype)
        y = pickle.loads(pickle.dumps(x))
        assert y.dtype == x.dtype and (y.asnumpy() == x.asnumpy()).all()


def test_a_missing_gpu_is_said_at_once():  # P9
    start = time.monotonic()
    with pytest.raises(mx.MXNetError, match="GPU|gpu"):
        nd.ones((2,), ctx=mx.gpu(0)).wait_to_read()
    assert time.monotonic() - start < 5


def test_loading_prints_nothing(tmp_path):  # S3
    nd.save(str(tmp_path / "x.params"), {"x": nd.ones(3)})
    script = "import plait as mx, sys; mx.nd.load(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "x.params")],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    "dtype",
    ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "bool"]
    + ["uint8", "uint16", "uint32", "uint64"],
)
def test_every_dtype_round_trips(dtype, tmp_path):  # S8
    path = str(tmp_path / "x.params")
    x = nd.array([[0, 1], [1, 0]], dtype=dtype)
    nd.save(path, {"x": x})
    y = nd.load(path)["x"]
    assert y.dtype == x.dtype and (y.asnumpy() == x.asnumpy()).all()


def test_parameters_are_cast_when_asked_for(tmp_path):  # S8
    path = str(tmp_path / "net.params")
    half = nn.Dense(2, in_units=3, dtype="float16")
    half.initialize(mx.init.Xavier())
    half.save_parameters(path)
    net = nn.Dense(2, in_units=3)
    net.initialize()
    net.load_parameters(path, cast_dtype=True, dtype_source="current")
    expected = half.weight.data().asnumpy().astype("float32")
    assert (net.weight.data().asnumpy() == expected).all()


def test_arrays_from_bytes_and_an_empty_file(tmp_path):  # S9
    path = str(tmp_path / "x.params")
    nd.save(path, {"x": nd.arange(4)})
    with open(path, "rb") as f:
        content = f.read()
    assert nd.load_frombuffer(content)["x"].asnumpy().tolist() == [0, 1, 2, 3]
    nd.save(path, {})
    assert len(nd.load(path)) == 0
    path = str(tmp_path / "x.npz")
    np.savez(path, x=np.arange(3, dtype="float32"))
    assert nd.load(path)["x"].asnumpy().tolist() == [0, 1, 2]


def test_missing_and_extra_parameters_are_named(tmp_path):  # S2
    path = str(tmp_path / "net.params")
    net = nn.HybridSequential()
    net.add(nn.Dense(2, in_units=3))
    net.initialize()
    net.save_parameters(path)
    other = nn.HybridSequential()
    other.add(nn.Dense(2, in_units=3), nn.Dense(2, in_units=2))
    with pytest.raises(mx.MXNetError, match=r"1\.(weight|bias)"):
        other.load_parameters(path)
    assert isinstance(gluon.nn.Dense(1), gluon.Block)


def test_the_extension_belongs_to_its_platform():  # P5
    from importlib.machinery import EXTENSION_SUFFIXES

    from plait import _plait

    name = os.path.basename(_plait.__file__)
    assert name == "_plait" + EXTENSION_SUFFIXES[0], "a wheel of it is not for any"


def test_an_array_without_axes_is_one_number(tmp_path):  # P3
    s = nd.from_dlpack(np.array(2.0, dtype="float32"))
    assert s.shape == () and s.size == 1 and s.asscalar() == 2
    assert s.asnumpy().shape == ()
    s = s.copy()
    s.attach_grad()
    with autograd.record():
        y = (nd.ones((2, 3)) * s).sum()
    y.backward()
    assert s.grad.shape == () and s.grad.asscalar() == 6
