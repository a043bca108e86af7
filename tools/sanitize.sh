#!/usr/bin/env bash
# Builds and runs the C++ tests under the sanitizers.
#
# asan: all rooms, g++. tsan: what threads share (base, memory, engine, data, run, kvstore), built by
# clang, which also checks the lock annotations of the whole library.
set -euo pipefail
cd "$(dirname "$0")/.."

run() {  # PRESET COMPILER TARGET...
  local preset=$1 compiler=$2
  shift 2
  [ -f "build/$preset/build.ninja" ] ||
    cmake --preset "$preset" -D CMAKE_CXX_COMPILER="$compiler"
  cmake --build --preset "$preset" --target "$@"
  ctest --preset "$preset" --parallel 2
}

export UBSAN_OPTIONS=print_stacktrace=1
run asan g++ all
run tsan clang++-14 plait base_tests memory_tests engine_tests data_tests run_tests kvstore_tests
