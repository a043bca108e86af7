#!/usr/bin/env python3
"""Checks the order of the rooms: a file in src/ may include only rooms below its own.

usage: tools/rooms.py [SRC]. Prints every wrong-way #include; exit status 1 if any.
"""

import pathlib
import re
import sys

# What each room may include directly; whatever those may include, it may as well.
MAY_INCLUDE = {
    "base": [],
    "memory": ["base"],
    "engine": ["base"],
    "ndarray": ["memory", "engine"],
    "graph": ["ndarray"],
    "cpu": ["graph"],
    "cuda": ["graph"],
    "image": ["memory"],
    "ops": ["cpu", "cuda", "image"],
    "passes": ["graph"],
    "run": ["passes", "cpu"],
    "kvstore": ["run"],
    "data": ["ndarray", "image"],
    "train": ["run", "kvstore"],
    "onnx": ["graph"],
    "capi": ["ops", "run", "kvstore", "data", "train", "onnx"],
}

# Folders and headers of other projects that are included with quotes.
FOREIGN = {"hwy", "dnnl.h", "dnnl.hpp"}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def below(room, path=()):
    """The rooms that `room` may include, all the way down."""
    if room in path:
        raise ValueError("rooms: the table has a cycle: " + " -> ".join((*path, room)))
    rooms = set(MAY_INCLUDE[room])
    for other in MAY_INCLUDE[room]:
        rooms |= below(other, (*path, room))
    return rooms


def problem(src, file, included, allowed):
    """What is wrong with one #include, or None."""
    room = file.relative_to(src).parts[0]
    target = pathlib.PurePath(included).parts[0]
    if target in FOREIGN:
        return None
    if target not in MAY_INCLUDE:
        return "names no room; write it as room/file.h"
    # A test of a room may call it through the rooms above.
    is_test = file.stem.endswith(("_test", "for_test"))
    if target != room and target not in allowed[room] and not is_test:
        return f"{room} may not include {target}"
    if not (src / included).is_file():
        return "no such file"
    return None


def main():
    src = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "src").resolve()
    allowed = {room: below(room) for room in MAY_INCLUDE}
    wrong = edges = 0
    for file in sorted(src.rglob("*")):
        if file.suffix not in (".h", ".cc", ".cu"):
            continue
        if file.relative_to(src).parts[0] not in MAY_INCLUDE:
            print(f"{file}: is in no room of the table in tools/rooms.py")
            wrong += 1
            continue
        text = file.read_text(encoding="utf-8")
        for match in INCLUDE.finditer(text):
            edges += 1
            error = problem(src, file, match[1], allowed)
            if error:
                line = text.count("\n", 0, match.start(1)) + 1
                print(f'{file}:{line}: "{match[1]}": {error}')
                wrong += 1
    print(f"rooms: {edges} includes, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
