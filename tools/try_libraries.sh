#!/usr/bin/env bash
# Installs libraries that were written for MXNet 1.9 into an environment of their own,
# with Plait in MXNet's place, and trains a little with each. See docs/libraries.md.
#
#   tools/try_libraries.sh [FOLDER]      after `make build`; FOLDER is build/libraries
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-build/libraries}")
package=${PLAIT_PYTHON:-$PWD/build/release/python}
test -e "$package/plait/__init__.py" || { echo "no $package/plait; make build"; exit 1; }

if ! test -e "$folder/ready"; then
  "${PYTHON:-python3}" -m venv "$folder"
  "$folder/bin/pip" install -q numpy==1.23.5 pandas==1.5.3 scipy==1.10.1 \
    matplotlib==3.7.5 opencv-python-headless==4.8.1.78 pillow==10.4.0 tqdm requests \
    portalocker yacs autocfg pyyaml pydantic==1.10.13 toolz ujson holidays==0.25 \
    typing_extensions
  # Without their dependencies, which name packages that no longer exist.
  "$folder/bin/pip" install -q --no-deps gluoncv==0.10.5.post0 gluonnlp==0.10.0 \
    gluonts==0.11.12 sockeye==2.3.24 sacrebleu==1.5.1
  touch "$folder/ready"
fi
site=$("$folder/bin/python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
printf '%s\n' "$package" "$PWD/python/alias" > "$site/plait.pth"
exec "$folder/bin/python" tools/try_libraries.py
