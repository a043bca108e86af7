"""What is made from the registry: docs/ops.md is fresh, and the stubs are complete."""

import ast
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import plait
from plait import _plait, nd

ROOT = Path(__file__).parent.parent.parent


def run_tool(name, *arguments):
    path = os.path.dirname(os.path.dirname(plait.__file__))
    env = dict(os.environ, PYTHONPATH=path, PYTHONDONTWRITEBYTECODE="1")
    command = [sys.executable, str(ROOT / "tools" / name), *map(str, arguments)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    """The stub files' syntax trees by their names."""
    folder = tmp_path_factory.mktemp("stubs")
    run_tool("stubs.py", folder)
    files = sorted(folder.rglob("*.pyi"))
    return {
        f.relative_to(folder).with_suffix("").as_posix(): ast.parse(f.read_text())
        for f in files
    }


def functions(tree):
    return {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}


def test_the_page_of_operators_is_what_the_registry_says():
    page = (ROOT / "docs" / "ops.md").read_text()
    assert page == run_tool("ops_doc.py"), "run tools/ops_doc.py docs/ops.md"


def test_every_example_of_the_page_is_a_call_of_a_function_that_exists():
    page = (ROOT / "docs" / "ops.md").read_text()
    examples = [line for line in page.split("\n") if line.startswith("Example: ")]
    assert len(examples) > 300
    for line in examples:
        call = ast.parse(line.split("`")[1], mode="eval").body
        assert isinstance(call, ast.Call)
        function = ast.unparse(call.func)
        if not function.startswith("nd.sparse."):  # of a later release
            assert callable(eval(function, {"nd": nd})), line


@pytest.mark.parametrize("name", ["", "contrib", "linalg", "random", "op"])
def test_stubs_name_every_function(stubs, name):
    module = getattr(nd, name) if name else nd
    found = functions(stubs["ndarray/" + (name or "__init__")])
    for function, value in vars(module).items():
        is_operator = isinstance(value, _plait.OpFunction)
        if function.startswith("_") or not (is_operator or inspect.isfunction(value)):
            continue
        if is_operator and function in ("inverse_or_zeros", "triangle"):
            continue  # for gradients only
        assert function in found, function


def test_stubs_give_types_and_defaults(stubs):
    f = functions(stubs["ndarray/__init__"])["Pooling"]
    arguments = {a.arg: ast.unparse(a.annotation) for a in f.args.args}
    assert arguments["data"] == "NDArray"
    assert arguments["kernel"] == "int | Sequence[int]"
    assert arguments["pool_type"] == "Literal['avg', 'lp', 'max', 'sum']"
    defaults = dict(zip(list(arguments)[-len(f.args.defaults) :], f.args.defaults))
    assert ast.unparse(defaults["pool_type"]) == "'max'"
    assert ast.unparse(f.returns) == "NDArray"
    assert "Parameters" in ast.get_docstring(f)


def test_stubs_have_the_methods_of_arrays(stubs):
    (cls,) = [n for n in stubs["_plait"].body if isinstance(n, ast.ClassDef)]
    found = {n.name for n in cls.body if isinstance(n, ast.FunctionDef)}
    for name, value in vars(nd.NDArray).items():
        is_operator = isinstance(value, _plait.OpFunction)
        if is_operator or inspect.isfunction(value) or isinstance(value, property):
            assert name in found, name
    assert {"__add__", "__rsub__", "__imul__", "__eq__", "shape"} <= found


def test_the_build_has_staged_the_stubs():
    folder = Path(plait.__file__).parent
    if not (folder / "_plait.pyi").exists():
        pytest.skip("built without NumPy")
    assert functions(ast.parse((folder / "ndarray" / "__init__.pyi").read_text()))
