#!/usr/bin/env bash
# Checks what can be seen without building: format, lint, words, rooms, sizes.
#
# usage: tools/check.sh [--changed]    --changed: format only what differs from main
# All checks run, also after one has failed. ruff comes from .venv or the PATH.
set -uo pipefail
cd "$(dirname "$0")/.."

changed=
[ "${1:-}" != --changed ] || changed=yes

# Files of some patterns: those of the tree, or those that differ from main.
files() {
  if [ -n "$changed" ]; then
    { git diff --name-only --diff-filter=d "$(git merge-base main HEAD)" -- "$@"
      git ls-files --others --exclude-standard -- "$@"; } | sort -u
  else
    git ls-files --cached --others --exclude-standard -- "$@"
  fi
}

failed=
run() {  # NAME COMMAND...
  local name=$1
  shift
  "$@" || failed="$failed $name"
}

find_tool() {  # NAMES...: the first that exists
  local name
  for name in "$@"; do
    command -v "$name" && return
  done
  echo "check: $1 was not found; tools/setup.sh installs it" >&2
  return 1
}

format_cpp() {
  local tool
  tool=$(find_tool clang-format-14 clang-format) || return
  files '*.h' '*.cc' '*.cu' | tr '\n' '\0' | xargs -0 -r -n 1 -P 2 sh -c '
    "$1" --dry-run -Werror "$2" 2>/dev/null ||
      { echo "$2: is not formatted; run $1 -i $2"; exit 1; }' - "$tool"
}

lint_python() {
  local tool status=0
  tool=$(find_tool .venv/bin/ruff ruff) || return
  "$tool" check --quiet --output-format concise . || status=1
  "$tool" format --check --quiet . ||
    { echo "Python files are not formatted; run $tool format ."; status=1; }
  return "$status"
}

run format format_cpp
run lint lint_python
run words python3 tools/words.py
run rooms python3 tools/rooms.py
run size python3 tools/size.py

if [ -n "$failed" ]; then
  echo "check: failed:$failed" >&2
  exit 1
fi
echo "check: passed"
