#!/usr/bin/env python3
"""Writes .pyi files of plait._plait and plait.nd, for editors and type checkers.

usage: tools/stubs.py DIR, with the built package on PYTHONPATH; DIR is the package's
folder (DIR/_plait.pyi, DIR/ndarray/*.pyi).
"""

import inspect
import keyword
import pathlib
import sys
import textwrap

from op_text import annotation, is_private, literal

import plait
from plait import _plait, nd

HEAD = '''"""%s"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

%s
DType = str | type | np.dtype | None

'''
MODULES = ("contrib", "image", "linalg", "op", "random", "_internal")


def docstring(doc, indent):
    text = inspect.cleandoc(doc or "").replace("\\", "\\\\").replace('"""', "'''")
    if not text:
        return indent + "..."
    text = textwrap.indent(text, indent).lstrip()
    close = '"""' if "\n" not in text and text[-1] != '"' else "\n%s" % indent + '"""'
    return '%s"""%s%s' % (indent, text, close)


def definition(name, arguments, result, doc, indent=""):
    one = "%sdef %s(%s) -> %s:" % (indent, name, ", ".join(arguments), result)
    if len(one) > 88:
        inner = "".join("%s    %s,\n" % (indent, a) for a in arguments)
        one = "%sdef %s(\n%s%s) -> %s:" % (indent, name, inner, indent, result)
    return "%s\n%s\n" % (one, docstring(doc, indent + "    "))


def operator_arguments(info):
    """The arguments of an operator's function, and its result's type."""
    samples = _plait.op_samples(info["name"])
    arguments, seen, optional = [], {"out", "name", "ctx"}, False
    needed = min((len(s["inputs"]) for s in samples), default=0)
    if info["variable_inputs"]:
        arguments.append("*data: NDArray | Sequence[NDArray]")
        seen.add("data")
    else:
        for i, (name, _) in enumerate(info["inputs"]):
            optional = i >= needed
            text = "NDArray | None = None" if optional else "NDArray"
            arguments.append("%s: %s" % (name, text))
            seen.add(name)
    for name, type_name, required, default, _ in info["params"]:
        if name in seen or keyword.iskeyword(name):
            continue
        text = "%s: %s" % (name, annotation(type_name, default, required))
        if not required:
            text += " = " + literal(default, type_name)
        elif optional:
            text += " = ..."
        optional = optional or not required
        arguments.append(text)
    if not info["inputs"]:
        arguments.append("ctx: Context | str | None = None")
    arguments += ["out: Any = None", "name: str | None = None"]
    # Operators over graphs, and in Python, have no samples.
    counts = {s["visible"] for s in samples} or {1, 2}
    results = ["NDArray"] if 1 in counts else []
    return arguments, " | ".join(results + ["list[NDArray]"] * bool(counts - {1}))


def operator(name, function, indent="", method=False):
    info = _plait.op_info(function.__reduce__()[1][0])
    arguments, result = operator_arguments(info)
    if method:
        arguments[0] = "self"
    return definition(name, arguments, result, function.__doc__, indent)


def default_text(value):
    plain = value is None or isinstance(value, (bool, int, float, str))
    return repr(value) if plain or value == () else "..."


def python_arguments(function):
    arguments = []
    for p in inspect.signature(function).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not any(a[0] == "*" for a in arguments):
            arguments.append("*")
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        given = "" if p.default is p.empty else " = " + default_text(p.default)
        typed = "" if p.name == "self" else ": Any"
        arguments.append(stars + p.name + typed + given)
    return arguments


def function_text(name, value, indent="", method=False):
    if isinstance(value, _plait.OpFunction):
        return operator(name, value, indent, method)
    if method:
        results = {"__bool__": "bool", "__int__": "int", "__index__": "int"}
        results.update({"__float__": "float", "__repr__": "str", "__str__": "str"})
        results.update({"asnumpy": "np.ndarray", "backward": "None"})
        results.update({"attach_grad": "None", "__setitem__": "None"})
        arrays = "astype copy reshape flatten expand_dims squeeze broadcast_to detach"
        results.update(dict.fromkeys(arrays.split(), "NDArray"))
        results.update(dict.fromkeys(["transpose", "__getitem__"], "NDArray"))
    else:
        arrays = "array zeros ones full empty arange linspace eye concatenate"
        results = dict.fromkeys(arrays.split(), "NDArray")
    result = results.get(name, "Any")
    return definition(name, python_arguments(value), result, value.__doc__, indent)


def is_hidden(name, value):
    if isinstance(value, _plait.OpFunction):
        return is_private(value.__reduce__()[1][0])
    return name.startswith("_") or inspect.ismodule(value) or inspect.isclass(value)


def module_text(module):
    dots = "." * module.__name__.count(".")
    head = "from .%s_plait import NDArray as NDArray\n" % dots
    head += "from .%scontext import Context\n" % dots
    if module is nd:
        head += "from . import contrib, image, linalg, op, random, sparse\n"
        head += "from ._core import _Null as _Null\n"
    parts = [HEAD % (module.__doc__.strip().split("\n")[0], head)]
    for name, value in sorted(vars(module).items()):
        if callable(value) and not is_hidden(name, value) and name.isidentifier():
            parts.append(function_text(name, value))
    return "\n".join(parts)


# Arithmetic, which is in C: the method, its reverse, and the one in place.
BINARY = "add sub mul truediv mod pow".split()


def ndarray_text():
    lines = ["class NDArray:", docstring(plait.nd.NDArray.__doc__, "    "), ""]
    for name in ["shape", "ndim", "size"]:
        kind = "tuple[int, ...]" if name == "shape" else "int"
        lines.append("    @property\n    def %s(self) -> %s: ..." % (name, kind))
    number = "(self, other: NDArray | float) -> NDArray: ..."
    for name in BINARY:
        for prefix in ("", "r", "i"):
            lines.append("    def __%s%s__%s" % (prefix, name, number))
    for name in ("lt", "le", "gt", "ge"):
        lines.append("    def __%s__%s" % (name, number))
    for name in ("eq", "ne"):
        lines.append("    def __%s__(self, other: Any) -> Any: ..." % name)
    lines.append("    def __neg__(self) -> NDArray: ...")
    lines.append(
        "    def __len__(self) -> int: ...\n    def __hash__(self) -> int: ..."
    )
    kinds = {"context": "Context", "ctx": "Context", "stype": "str", "dtype": "type"}
    kinds.update({"grad": "NDArray | None", "T": "NDArray", "handle": "Any"})
    for name, value in sorted(vars(nd.NDArray).items()):
        if isinstance(value, property):
            kind = kinds.get(name, "Any")
            lines.append("    @property\n    def %s(self) -> %s: ..." % (name, kind))
        elif inspect.isfunction(value) or isinstance(value, _plait.OpFunction):
            lines.append(function_text(name, value, "    ", method=True))
    return "\n".join(lines) + "\n"


def extension_text():
    head = "from .context import Context\n"
    names = [n for n in sorted(vars(_plait)) if n.isidentifier() and n[:2] != "__"]
    rest = ["%s: Any" % n for n in names if n != "NDArray"]
    text = HEAD % ("The extension behind plait: arrays and the registry.", head)
    return text + ndarray_text() + "\n" + "\n".join(rest) + "\n"


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    folder = pathlib.Path(arguments[0])
    files = {"_plait": extension_text(), "ndarray/__init__": module_text(nd)}
    for name in MODULES:
        files["ndarray/" + name] = module_text(getattr(nd, name))
    for name, text in files.items():
        path = folder / (name + ".pyi")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
