#!/usr/bin/env python3
"""Writes docs/ops.md, one section an operator, from the registry.

usage: tools/ops_doc.py [FILE], with the built package on PYTHONPATH; without FILE the
page goes to standard output.
"""

import pathlib
import sys

from op_text import choices, example, literal, public_operators

from plait import _plait
from plait.ndarray._namespaces import place_of

HEAD = """# Operators

Every operator that can be called, by namespace. Each takes `out=` (arrays that are
overwritten) as well, and can be called with its inputs by position or by name. This
page is made from the registry by `tools/ops_doc.py docs/ops.md`.
"""
TITLES = {
    "": "nd",
    "contrib": "nd.contrib",
    "image": "nd.image",
    "linalg": "nd.linalg",
    "random": "nd.random",
    "sparse": "nd.sparse",
    "_internal": "nd._internal",
}


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def type_text(type_name):
    values = choices(type_name)
    return "one of " + ", ".join("`%s`" % v for v in values) if values else type_name


def section(name):
    info = _plait.op_info(name)
    lines = ["### " + name, "", info["doc"], ""]
    if info["aliases"]:
        aliases = ", ".join("`%s`" % a for a in sorted(info["aliases"]))
        lines += ["Also " + aliases + ".", ""]
    rows = [
        "| `%s` | NDArray |  | %s |" % ("*" * info["variable_inputs"] + n, cell(doc))
        for n, doc in info["inputs"]
    ]
    for n, type_name, required, default, doc in info["params"]:
        shown = "required" if required else "`%s`" % literal(default, type_name)
        rows.append(
            "| `%s` | %s | %s | %s |" % (n, type_text(type_name), shown, cell(doc))
        )
    if rows:
        lines += ["| argument | type | default | meaning |", "|---|---|---|---|"]
        lines += rows + [""]
    sample = example(info)  # none of operators over graphs, and in Python
    if sample is not None:
        call, shapes = sample
        given = "" if not shapes else ", where " + ", ".join(shapes)
        lines += ["Example: `%s`%s." % (call, given), ""]
    if not info["differentiable"]:
        lines += ["Has no gradient.", ""]
    return lines


def page():
    places = {}
    for name in public_operators():
        places.setdefault(place_of(name)[0], []).append(name)
    lines = HEAD.split("\n")
    for place in sorted(places, key=list(TITLES).index):
        title = TITLES[place]
        lines += ["## " + title, ""]
        for name in places[place]:
            lines += section(name)
    return "\n".join(lines).rstrip() + "\n"


def main(arguments):
    if len(arguments) > 1:
        sys.exit(__doc__)
    if arguments:
        pathlib.Path(arguments[0]).write_text(page())
    else:
        sys.stdout.write(page())


if __name__ == "__main__":
    main(sys.argv[1:])
