#!/usr/bin/env python3
"""Writes docs/examples.md: the paper's programs with their output, and a list of all.

usage: tools/examples_doc.py [FILE], with the built package on PYTHONPATH; without FILE
the page goes to standard output. The programs run while the page is written.
"""

import ast
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHOWN = ("symbol_mlp", "mixed_loop", "kvstore_loop", "net")
HEAD = """# Examples

The programs with which the paper explains the system, and what they print. This page is
made by `tools/examples_doc.py docs/examples.md`, which runs them. The others, listed at
the end, take longer or need data.
"""


def docstring(path):
    """The first sentence of a file's docstring or comment, and the rest."""
    text = path.read_text()
    if path.suffix == ".py":
        doc = ast.get_docstring(ast.parse(text))
    else:
        head = text.split("\n\n")[0].split("\n")
        doc = "\n".join(line.removeprefix("//").removeprefix(" ") for line in head)
    title, _, rest = doc.partition("\n\n")
    return title.replace("\n", " "), rest.strip()


def section(name):
    path = ROOT / "examples" / "paper" / f"{name}.py"
    title, rest = docstring(path)
    text = path.read_text()
    after = ast.parse(text).body[0].end_lineno
    code = "\n".join(text.split("\n")[after:]).strip("\n")
    lines = [f"## {title.rstrip('.')}", ""]
    if rest:
        lines += [rest, ""]
    lines += [f"`examples/paper/{name}.py`:", "", "```python", code, "```", ""]
    done = subprocess.run([sys.executable, path], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{path}: {done.stderr}")
    if done.stdout:
        lines += ["prints", "", "```", done.stdout.rstrip("\n"), "```", ""]
    return "\n".join(lines)


def others():
    lines = ["## Others", "", "| program | what it does |", "|---|---|"]
    for path in sorted((ROOT / "examples").rglob("*")):
        if path.suffix in (".py", ".cc") and path.parent.name != "paper":
            name = path.relative_to(ROOT).as_posix()
            lines.append(f"| [{name}](../{name}) | {docstring(path)[0]} |")
    return "\n".join(lines) + "\n"


def page():
    return "\n".join([HEAD, *map(section, SHOWN), others()])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        pathlib.Path(sys.argv[1]).write_text(page())
    else:
        sys.stdout.write(page())
