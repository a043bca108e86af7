#!/usr/bin/env python3
"""Counts the lines of each room, and fails on files that are too long.

usage: tools/size.py [--since REVISION]

A file should have at most 400 lines and must have at most 600, unless LONG_FILES gives
a reason. With --since also prints by how many lines each room grew since then.
"""

import collections
import pathlib
import subprocess
import sys

SOFT, HARD = 400, 600
SUFFIXES = {".h", ".cc", ".cu", ".c", ".py", ".sh", ".cmake"}

# Files over HARD, each with the reason why it is better whole.
LONG_FILES = {}


def git(*args):
    return subprocess.run(
        ["git", *args], check=True, capture_output=True, text=True
    ).stdout


def room_of(path):
    """src/ROOM for the library, with its tests apart; else the top folder."""
    parts = pathlib.PurePath(path).parts
    if parts[0] != "src" or len(parts) < 3:
        return parts[0] if len(parts) > 1 else "."
    stem = pathlib.PurePath(path).stem
    tests = " (tests)" if stem.endswith(("_test", "_bench")) else ""
    return f"src/{parts[1]}{tests}"


def lines_of(path):
    return pathlib.Path(path).read_bytes().count(b"\n")


def print_growth(revision):
    growth = collections.Counter()
    for row in git("diff", "--numstat", "--no-renames", revision).splitlines():
        added, removed, path = row.split("\t")
        if pathlib.PurePath(path).suffix in SUFFIXES and added != "-":
            growth[room_of(path)] += int(added) - int(removed)
    print(f"since {revision}:")
    for room, lines in sorted(growth.items()):
        print(f"{lines:+7d}  {room}")


def print_rooms(sizes):
    rooms = collections.defaultdict(list)
    for path, lines in sizes.items():
        rooms[room_of(path)].append(lines)
    print("  lines  files  median  longest")
    for room, lines in sorted(rooms.items()):
        middle = sorted(lines)[len(lines) // 2]
        print(f"{sum(lines):7d} {len(lines):6d} {middle:7d} {max(lines):8d}  {room}")
    print(f"{sum(sizes.values()):7d} {len(sizes):6d}                   all")


def main():
    files = git("ls-files", "--cached", "--others", "--exclude-standard").splitlines()
    sizes = {
        path: lines_of(path)
        for path in files
        if pathlib.PurePath(path).suffix in SUFFIXES and pathlib.Path(path).is_file()
    }
    print_rooms(sizes)
    if "--since" in sys.argv:
        print_growth(sys.argv[sys.argv.index("--since") + 1])
    wrong = 0
    for path, lines in sorted(sizes.items(), key=lambda item: -item[1]):
        if lines > HARD and path not in LONG_FILES:
            print(f"{path}: {lines} lines; at most {HARD} are allowed, split it")
            wrong += 1
        elif lines > SOFT:
            print(f"{path}: {lines} lines; {LONG_FILES.get(path, f'over {SOFT}')}")
    for path in sorted(LONG_FILES):
        if sizes.get(path, 0) <= HARD:
            print(f"{path}: is not over {HARD} lines; take it out of tools/size.py")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
