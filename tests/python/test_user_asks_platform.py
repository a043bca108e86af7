"""What users of MXNet suffered from around NumPy, Python and files.

Each test names the row of the list of requirements that it stands for (P1, S3, ...).
"""

import gc
import io
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import time
import weakref

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


NESTED = """
import multiprocessing
import numpy as np
import plait as mx

class Numbers:
    def __len__(self): return 32
    def __getitem__(self, i): return np.full((3,), i, "float32")

def work(queue):
    loader = mx.gluon.data.DataLoader(
        Numbers(), batch_size=8, num_workers=2, thread_pool=False)
    queue.put([float(b[0, 0].asscalar()) for b in loader])

if __name__ == "__main__":
    mx.nd.ones(3).wait_to_read()
    for method in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        child = context.Process(target=work, args=(queue,))
        child.start()
        print(method, queue.get(timeout=60))
        child.join(60)
        assert child.exitcode == 0
"""


def test_data_workers_inside_another_process(tmp_path):  # P7
    script = tmp_path / "nested.py"
    script.write_text(NESTED)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=240,
        env=dict(os.environ, PYTHONPATH=os.path.dirname(PACKAGE)),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "%s [0.0, 8.0, 16.0, 24.0]" % m for m in multiprocessing.get_all_start_methods()
    ]


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


class Sink:
    """A file that only writes."""

    def __init__(self):
        self.content = b""

    def write(self, data):
        self.content += data


@pytest.mark.parametrize("format", [None, "params", "npz", "safetensors"])
def test_arrays_go_through_file_objects(format):  # S9
    arrays = {"w": nd.array([[1, 2]]), "n": nd.array([2**40], dtype="int64")}
    sink = Sink()
    nd.save(sink, arrays, format=format)
    for loaded in (nd.load(io.BytesIO(sink.content)), nd.load_frombuffer(sink.content)):
        assert sorted(loaded) == ["n", "w"]
        for name, x in arrays.items():
            assert loaded[name].dtype == x.dtype
            np.testing.assert_array_equal(loaded[name].asnumpy(), x.asnumpy())
    with pytest.raises(mx.MXNetError):
        nd.load(io.BytesIO(sink.content[:-9]))


def test_what_is_no_format_or_file():  # S9
    with pytest.raises(ValueError, match="format is 'json'; one of params, npz"):
        nd.save("x", {}, format="json")
    with pytest.raises(TypeError):
        nd.load(5)
    empty = io.BytesIO()
    nd.save(empty, {})
    assert len(nd.load_frombuffer(empty.getvalue())) == 0


def test_parameters_go_through_file_objects():  # S9
    net, other = nn.Dense(2, in_units=3), nn.Dense(2, in_units=3)
    net.initialize(mx.init.Xavier())
    file = io.BytesIO()
    net.save_parameters(file)
    file.seek(0)
    other.load_parameters(file)
    np.testing.assert_array_equal(
        other.weight.data().asnumpy(), net.weight.data().asnumpy()
    )


def small_net():
    net = nn.HybridSequential(prefix="model_")
    with net.name_scope():
        net.add(nn.Dense(4, in_units=3, activation="relu"), nn.BatchNorm(in_channels=4))
    return net


@pytest.mark.parametrize("saved", ["export", "save_parameters", "collect_params"])
@pytest.mark.parametrize("loaded", ["load_parameters", "collect_params", "imports"])
def test_files_of_one_way_are_read_by_the_others(saved, loaded, tmp_path):  # S2
    net, x = small_net(), nd.array([[1, -2, 3], [0, 1, 2]])
    net.initialize(mx.init.Xavier())
    net.hybridize()
    expected = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    path = str(tmp_path / "net-0000.params")
    if saved == "save_parameters":
        net.save_parameters(path)
    elif saved == "collect_params":
        net.collect_params().save(path)
    if loaded == "imports" and saved == "save_parameters":
        # A graph has no structure that such names could mean.
        with pytest.raises(mx.MXNetError, match="model_dense0_weight.*'0.weight'"):
            gluon.SymbolBlock.imports(str(tmp_path / "net-symbol.json"), ["data"], path)
        return
    if loaded == "imports":
        other = gluon.SymbolBlock.imports(
            str(tmp_path / "net-symbol.json"), ["data"], path
        )
    else:
        other = small_net()
        if loaded == "load_parameters":
            other.load_parameters(path)
        else:
            other.collect_params().load(path)
    np.testing.assert_array_equal(other(x).asnumpy(), expected)


def test_parameters_stand_alone():
    """They can be sent without the network that they are of, and do not hold it."""
    net = small_net()
    net.add(nn.HybridLambda(lambda F, x: x * 2))
    net.initialize()
    params = net.collect_params()
    sent = pickle.loads(pickle.dumps(params))
    assert list(sent) == list(params)
    held = weakref.ref(net)
    del net
    gc.collect()
    assert held() is None


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
    other.initialize()
    other.load_parameters(path, allow_missing=True)
    other.save_parameters(path)
    with pytest.raises(ValueError, match=r"1\.weight.*not present.*nearest.*0\.weight"):
        net.load_parameters(path)
    net.load_parameters(path, ignore_extra=True)
    # Full names: what is there, what was asked for, and which may have been meant.
    one, two = nn.Dense(2, in_units=3, prefix="a_"), nn.Dense(2, prefix="ab_")
    one.initialize()
    one.collect_params().save(path)
    with pytest.raises(mx.MXNetError) as missing:
        two.collect_params().load(path)
    for part in (
        "'ab_weight' is missing",
        "'a_weight', 'a_bias'",
        "name is 'a_weight'",
    ):
        assert part in str(missing.value)
    with pytest.raises(mx.MXNetError) as extra:
        two.collect_params().load(path, allow_missing=True)
    for part in ("'a_weight' loaded", "'ab_weight', 'ab_bias'", "name is 'ab_weight'"):
        assert part in str(extra.value)


def test_the_extension_belongs_to_its_platform():  # P5
    from importlib.machinery import EXTENSION_SUFFIXES

    from plait import _plait

    name = os.path.basename(_plait.__file__)
    assert name == "_plait" + EXTENSION_SUFFIXES[0], "a wheel of it is not for any"


def test_one_switch_turns_to_the_dtypes_of_numpy():  # P4
    a, two = nd.array([1, 2], dtype="int64"), np.ones(2)

    def found():
        made = [a / a, a / 2, 1 / a, nd.divide(a, a), nd.array(two), nd.array([1.5])]
        made += [nd.zeros(2), nd.ones(2), nd.full((2,), 3), nd.arange(3), nd.eye(2)]
        made += [nd.linspace(0, 1, 3), nd.empty((2,)), nd.random.uniform(shape=2)]
        return [np.dtype(x.dtype).name for x in made]

    legacy = ["int64"] * 4 + ["float32"] * 10
    assert not mx.util.is_np_default_dtype() and found() == legacy
    with mx.util.np_default_dtype():
        assert mx.util.is_np_default_dtype() and found() == ["float64"] * 14
        assert (a / a).asnumpy().tolist() == [1, 1]
        assert (a / 4).asnumpy().tolist() == [0.25, 0.5]
        # What has a dtype keeps it; a float type wins over whole numbers.
        assert nd.array(np.arange(3)).dtype == np.int64
        assert nd.array(two.astype("float16")).dtype == np.float16
        assert (nd.ones(2, dtype="float32") / a).dtype == np.float32
        assert nd.zeros(2, dtype="float32").dtype == np.float32
        with mx.util.np_default_dtype(False):
            assert found() == legacy
    assert found() == legacy
    assert mx.util.set_np_default_dtype(True) is False
    assert mx.util.set_np_default_dtype(False) is True
    assert mx.util.use_np_default_dtype(found)() == ["float64"] * 14


def test_cells_and_augmenters_keep_float32():  # P4
    cell = gluon.rnn.LSTMCell(5)
    cell.initialize()
    steps = mx.image.CreateAugmenter((3, 8, 8), brightness=0.1, contrast=0.1,
                                     saturation=0.1, hue=0.1, pca_noise=0.1,
                                     rand_gray=1, mean=True, std=True)  # fmt: skip
    with mx.util.np_default_dtype():
        inputs = nd.ones((2, 3, 4), dtype="float32")
        outputs, _ = cell.unroll(3, inputs, layout="NTC", merge_outputs=True)
        image = nd.ones((8, 8, 3), dtype="uint8")
        for step in steps:
            image = step(image)
    assert outputs.dtype == image.dtype == np.float32


def test_quotients_of_whole_numbers_have_gradients():  # P4
    a, x = nd.array([1, 2], dtype="int32"), nd.array([2, 4], dtype="float64")
    x.attach_grad()
    with mx.util.np_default_dtype(), autograd.record():
        y = (a / a) * x / a
    y.backward()
    assert y.dtype == np.float64 and x.grad.asnumpy().tolist() == [1, 0.5]


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
