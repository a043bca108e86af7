#!/usr/bin/env bash
# Installs Plait by pip into an empty environment, as a user does, and runs it there; then
# runs the Python tests on the oldest NumPy that is supported.
set -euo pipefail
cd "$(dirname "$0")/.."

env=$(mktemp -d)
trap 'rm -rf "$env"' EXIT
"${PYTHON:-python3}" -m venv "$env"
"$env/bin/python" -m pip install -q --disable-pip-version-check .
tests=$PWD/tests/python
cd "$env"
bin/python -c '
import plait as mx
assert "site-packages" in mx.__file__, mx.__file__
print("plait", mx.__version__, "from a wheel:", (mx.nd.ones((2, 3)) + 1).sum().asscalar())'

# Python 3.12 and later never had this NumPy.
if bin/python -c 'import sys; sys.exit(sys.version_info >= (3, 12))'; then
  bin/python -m pip install -q --disable-pip-version-check numpy==1.23.5 pytest pytest-timeout
  bin/python -m pytest -q -p no:cacheprovider "$tests"
fi
