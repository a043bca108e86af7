#!/usr/bin/env bash
# Installs Plait by pip into an empty environment, as a user does, and runs it there:
# with the newest NumPy, and with the oldest that has a wheel for this Python, all tests.
set -euo pipefail
cd "$(dirname "$0")/.."

env=$(mktemp -d)
trap 'rm -rf "$env"' EXIT
"${PYTHON:-python3}" -m venv "$env"
pip() { "$env/bin/python" -m pip "$1" -q --disable-pip-version-check "${@:2}"; }
install=$PWD/tests/install tests=$PWD/tests/python
smoke=$install/smoke.py

pip install .
(cd "$env" && bin/python "$smoke" && bin/python "$install/libraries.py")
oldest=$("$env/bin/python" -c '
import sys
print({10: "1.23.5", 11: "1.23.5", 12: "1.26.4", 13: "2.1.0"}.get(sys.version_info[1], ""))')
if [ -n "$oldest" ]; then
  pip install "numpy==$oldest"
  (cd "$env" && bin/python -W error "$smoke")
  pip install pytest pytest-timeout
  # The test left out imports the extension from the build tree, which is not there.
  (cd "$env" && bin/python -m pytest -q -p no:cacheprovider "$tests" \
    -k "not importing_the_core_imports_no_numpy")
fi
