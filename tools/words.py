#!/usr/bin/env python3
"""Checks words: first lines that say what a file is, getenv, notes to come back to.

usage: tools/words.py. Prints every finding as file:line; exit status 1 if any.
"""

import pathlib
import re
import subprocess
import sys

# A file's kind, and how its first line (after a #! line) must begin.
CPP = {".h", ".cc", ".cu", ".c"}
HASH = {".sh", ".cmake", ".toml"}
FIRST_LINE = {
    **dict.fromkeys(CPP, re.compile(r"(//|/\*) ?\S+ .*\S")),
    **dict.fromkeys(HASH, re.compile(r"# \S+ .*\S")),
    ".py": re.compile(r'(r?"""\S|# \S+ ).*\S'),
}

# Words that may not stand in a file of a kind, what to do instead, and the paths (or
# their beginnings) where they may.
WORDS = [
    (
        CPP,
        re.compile(r"\b(secure_)?getenv\s*\("),
        "getenv: the table in base/options.cc is the only place that reads it",
        ("src/base/options.cc",),
    ),
    (
        CPP | HASH | {".py"},
        re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))"),
        "a note to come back to needs a number: TODO(#12)",
        ("tools/words.py",),
    ),
    (
        CPP,
        re.compile(r"\b(ctx|xpu|dev_mask)\b"),
        "the word is `device`",
        ("src/ops/",),  # parameters of operators keep MXNet's names
    ),
    (
        CPP,
        re.compile(r"^\s*(//|\*)\s*(\\brief|@author|Copyright|Author:)"),
        "no authors, notices or markup in comments",
        (),
    ),
]


def check_first_line(path, lines):
    first = lines[1] if lines[0].startswith("#!") and len(lines) > 1 else lines[0]
    if not FIRST_LINE[path.suffix].match(first):
        yield 1, "the first line must say in a sentence what the file is"


def check_words(path, lines):
    for suffixes, pattern, remedy, exceptions in WORDS:
        if path.suffix not in suffixes or path.as_posix().startswith(exceptions):
            continue
        for number, line in enumerate(lines, 1):
            # What a string says to users of another library is not an identifier.
            if pattern.search(re.sub(r'"(\\.|[^"\\])*"', '""', line)):
                yield number, remedy


def main():
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    wrong = checked = 0
    for path in map(pathlib.Path, sorted(files)):
        if path.suffix not in FIRST_LINE or not path.is_file():
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        if not lines:
            continue
        checked += 1
        findings = [*check_first_line(path, lines), *check_words(path, lines)]
        for number, text in findings:
            print(f"{path}:{number}: {text}")
        wrong += len(findings)
    print(f"words: {checked} files, {wrong} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
