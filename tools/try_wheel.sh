#!/usr/bin/env bash
# Installs Plait by pip into an empty environment, as a user does, and runs it there.
set -euo pipefail
cd "$(dirname "$0")/.."

env=$(mktemp -d)
trap 'rm -rf "$env"' EXIT
"${PYTHON:-python3}" -m venv "$env"
"$env/bin/python" -m pip install -q --disable-pip-version-check .
cd "$env"
bin/python -c '
import plait as mx
assert "site-packages" in mx.__file__, mx.__file__
print("plait", mx.__version__, "from a wheel:", (mx.nd.ones((2, 3)) + 1).sum().asscalar())'
