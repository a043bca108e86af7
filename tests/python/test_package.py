"""The package itself: lazy modules, the alias mxnet, contexts, names, switches."""

import importlib
import os
import subprocess
import sys
import threading

import pytest

import plait as mx
from plait import nd

ALIAS = os.path.join(os.path.dirname(__file__), "..", "..", "python", "alias")
PACKAGE = os.path.dirname(os.path.dirname(mx.__file__))


def run(code, *arguments, alias=False):
    """The output of a Python program in a process of its own."""
    path = [PACKAGE] + ([ALIAS] if alias else [])
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(path))
    command = [sys.executable, *arguments, "-c", code]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_brings_nothing_heavy():
    code = (
        "import sys, plait\n"
        "heavy = ('gluon', 'optimizer', 'metric', 'io', 'ndarray', '_plait')\n"
        "print([m for m in heavy if 'plait.' + m in sys.modules])"
    )
    assert run(code) == "[]"


def test_import_keeps_openmp_from_spinning_for_long():
    assert run("import os, plait; print(os.environ['GOMP_SPINCOUNT'])") == "1000"


def test_short_names_are_the_modules():
    assert mx.nd is mx.ndarray and mx.init is mx.initializer and mx.rnd is mx.random
    assert mx.context.cpu is mx.cpu
    assert mx.__version__ == "0.1.0"


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mx.nothing  # noqa: B018
    assert not hasattr(mx, "nothing")


def test_modules_inside_later_packages_can_be_imported():
    from plait.contrib import tensorrt

    assert tensorrt.__name__ == "plait.contrib.tensorrt"
    with pytest.raises(NotImplementedError, match="tensorrt.init_tensorrt_params is"):
        tensorrt.init_tensorrt_params()
    with pytest.raises(ImportError):
        importlib.import_module("plait.contrib.nonsense")


def test_modules_of_later_releases_say_so():
    with pytest.raises(NotImplementedError, match="use plait.nd"):
        mx.np.ones((2,))
    with pytest.raises(ImportError, match="run-time compilation of CUDA code comes"):
        from plait.rtc import CudaModule  # noqa: F401
    with pytest.raises(mx.MXNetError):
        mx.npx.set_np()


def test_alias_modules_are_plaits_own():
    code = (
        "import mxnet as mx, plait\n"
        "import mxnet.ndarray as nd\n"
        "from mxnet.gluon import nn\n"
        "import mxnet.gluon.data.vision\n"
        "import mxnet.optimizer.optimizer as o\n"
        "assert nd is plait.ndarray and nn is plait.gluon.nn and mx.nd is nd\n"
        "assert o.SGD is plait.optimizer.SGD\n"
        "assert plait.gluon.nn.__spec__.name == 'plait.gluon.nn'\n"
        "print(mx.__version__, plait.__version__, mx.__file__.endswith('__init__.py'))"
    )
    assert run(code, alias=True) == "1.9.1 0.1.0 True"


def test_alias_misses_are_reported_under_mxnet_names():
    code = (
        "try:\n    import mxnet.nonsense\n"
        "except ModuleNotFoundError as e:\n    print(e)"
    )
    assert run(code, alias=True) == "No module named 'mxnet.nonsense'"


def test_as_mxnet_runs_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys, mxnet\nprint(mxnet.__version__, sys.argv[1:])")
    done = subprocess.run(
        [sys.executable, "-m", "plait.as_mxnet", str(script), "a", "b"],
        env=dict(os.environ, PYTHONPATH=PACKAGE),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == "1.9.1 ['a', 'b']", done.stderr


def test_contexts_compare_and_nest():
    assert mx.cpu(0) == mx.cpu() and mx.cpu(1) != mx.cpu(0) and mx.gpu(0) != mx.cpu(0)
    assert len({mx.cpu(), mx.cpu(0), mx.cpu(1)}) == 2
    assert str(mx.gpu(3)) == "gpu(3)"
    one = mx.cpu(1)
    with one:
        with mx.cpu(2), one:
            assert mx.current_context() == one
        assert mx.current_context() == one
    assert mx.current_context() == mx.cpu(0)
    with pytest.raises(KeyError, match="unknown device type"):
        mx.Context("tpu")


def test_arrays_are_made_on_the_current_context():
    with mx.cpu(1):
        made = [
            nd.zeros((2,)),
            nd.ones((2,)),
            nd.arange(3),
            nd.array([1]),
            nd.empty((2,)),
            nd.random.uniform(shape=(2,)),
            nd.zeros((2,)) + 1,
        ]
        other = nd.zeros((2,), ctx=mx.cpu(2))
    assert {x.context for x in made} == {mx.cpu(1)}
    assert other.context == mx.cpu(2)
    assert nd.zeros((2,)).context == mx.cpu(0)
    # A call with arrays stays with them.
    with mx.cpu(3):
        assert (made[0] * 2).context == mx.cpu(1)


def test_current_context_belongs_to_a_thread():
    seen = []
    with mx.cpu(1):
        thread = threading.Thread(target=lambda: seen.append(mx.current_context()))
        thread.start()
        thread.join()
    assert seen == [mx.cpu(0)]


def test_default_ctx_is_deprecated_but_works():
    with pytest.warns(DeprecationWarning):
        assert mx.Context.default_ctx == mx.cpu(0)
    with pytest.warns(DeprecationWarning):
        mx.Context.default_ctx = mx.cpu(1)
    assert mx.current_context() == mx.cpu(1)
    mx.test_utils.set_default_context(mx.cpu(0))


def test_names_are_counted_by_hint():
    manager = mx.name.NameManager()
    with manager:
        assert manager.get(None, "conv") == "conv0"
        assert manager.get(None, "conv") == "conv1"
        assert manager.get("own", "conv") == "own"
        with mx.name.Prefix("p_") as prefix:
            assert prefix.get(None, "conv") == "p_conv0"
            assert prefix.get("own", "conv") == "p_own"


def test_an_initializer_as_attribute_is_written_as_text():
    init = mx.init.Xavier(magnitude=2)
    x = mx.sym.Variable("x", attr={"__init__": init})
    y = mx.sym.Convolution(
        x,
        kernel=(1, 1),
        num_filter=2,
        name="c",
        attr={"__init__": init, "__level__": 3},
    )
    assert y.attr_dict()["c"]["__init__"] == init.dumps()
    assert y.attr_dict()["c"]["__level__"] == "3"
    assert x.attr("__init__") == init.dumps()


def test_attribute_scopes_merge_and_take_strings_only():
    with mx.AttrScope(group="4", data="great") as outer:
        assert outer.get({"data": "mine"}) == {"group": "4", "data": "mine"}
        with mx.AttrScope(x="other", group="5") as inner:
            assert inner.get(None) == {"group": "5", "data": "great", "x": "other"}
    with pytest.raises(ValueError, match="need to be string"):
        mx.AttrScope(group=4)


def test_numpy_switches():
    assert not mx.is_np_shape() and not mx.is_np_array()
    with mx.np_shape(True):
        assert mx.is_np_shape()
        with mx.np_shape(False):
            assert not mx.is_np_shape()

    @mx.use_np
    def both():
        return mx.is_np_shape(), mx.is_np_array()

    @mx.use_np
    class Thing:
        value = property(lambda self: mx.is_np_array())

        def method(self):
            return mx.is_np_shape()

    assert both() == (True, True) and Thing().value and Thing().method()
    assert not mx.is_np_shape() and not mx.is_np_array()
    with pytest.raises(ValueError):
        mx.util.set_np(shape=False, array=True)
    with pytest.raises(TypeError, match="can only decorate"):
        mx.use_np_shape(3)


def test_registry_makes_from_names_json_and_instances():
    create = mx.registry.get_create_func(mx.init.Initializer, "initializer")
    assert create("zeros") == mx.init.Zero()
    assert create('["normal", {"sigma": 2}]') == mx.init.Normal(2)
    assert create({"initializer": "one"}) == mx.init.One()
    same = mx.init.Uniform(3)
    assert create(same) is same
    with pytest.raises(AssertionError, match="is not registered"):
        create("nonsense")


def test_error_classes_are_also_the_built_in_ones():
    kinds = {
        "ValueError": ValueError,
        "TypeError": TypeError,
        "IndexError": IndexError,
        "MemoryError": MemoryError,
        "NotImplementedError": NotImplementedError,
        "OSError": OSError,
        "AttributeError": AttributeError,
    }
    for name, built_in in kinds.items():
        klass = mx.error.error_class(name)
        assert issubclass(klass, mx.MXNetError) and issubclass(klass, built_in)
    assert mx.error.error_class("Unheard") is mx.MXNetError


def test_features():
    features = mx.runtime.Features()
    assert features is mx.runtime.Features() and len(features) >= 30
    assert "CUDA" in features and features.is_enabled("int64_tensor_size")
    with pytest.raises(RuntimeError, match="is unknown"):
        features.is_enabled("this girl is on fire")


def test_data_dir_follows_mxnet_home():
    with mx.test_utils.environment("MXNET_HOME", "/somewhere"):
        assert mx.base.data_dir() == "/somewhere"
    with mx.test_utils.environment("MXNET_HOME", None):
        assert mx.base.data_dir() == os.path.join(os.path.expanduser("~"), ".mxnet")


def test_logger_adds_one_handler(tmp_path):
    path = tmp_path / "log.txt"
    logger = mx.log.get_logger("plait-test", str(path), level=mx.log.INFO)
    assert mx.log.get_logger("plait-test") is logger and len(logger.handlers) == 1
    logger.info("hello")
    assert "hello" in path.read_text()


def test_contrib_operators_in_their_older_place():
    assert mx.contrib.nd is mx.contrib.ndarray
    assert mx.contrib.ndarray.box_iou is nd.contrib.box_iou
    assert mx.contrib.sym.box_iou is mx.sym.contrib.box_iou
    from plait.contrib import onnx

    with pytest.raises(mx.MXNetError, match="later release"):
        onnx.import_model("net.onnx")
    with pytest.raises(AttributeError):
        mx.contrib.nothing  # noqa: B018


def test_libraries_of_mxnet_are_refused_with_a_reason(tmp_path):
    with pytest.raises(ValueError, match="is no file"):
        mx.library.load(str(tmp_path / "libop.so"))
    path = tmp_path / "libop.so"
    path.write_bytes(b"\x7fELF")
    with pytest.raises(NotImplementedError, match="lib_api.h.*CustomOp"):
        mx.library.load(str(path))
