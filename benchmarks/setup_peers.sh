#!/usr/bin/env bash
# Makes the environments of the peers that `make bench` compares with.
#
# usage: benchmarks/setup_peers.sh [torch|mxnet]...
# They lie in $PEERS (default ~/.cache/plait-peers): tv holds PyTorch and ONNX Runtime,
# mx MXNet 1.9.1.
set -euo pipefail
peers=${PEERS:-$HOME/.cache/plait-peers}
mkdir -p "$peers"
for peer in "${@:-torch}"; do
  case $peer in
    torch) dir=$peers/tv packages="torch torchvision numpy onnx onnxruntime"
      modules="torch, torchvision, onnx, onnxruntime" ;;
    mxnet) dir=$peers/mx packages="mxnet==1.9.1 numpy==1.23.5" modules=mxnet ;;
    *) echo "setup_peers: '$peer' is not a peer; torch or mxnet was expected" >&2; exit 2 ;;
  esac
  if ! "$dir/bin/python" -c "import $modules" 2>/dev/null; then
    echo "setup_peers: installing $packages into $dir"
    "${PYTHON:-python3}" -m venv "$dir"
    "$dir/bin/python" -m pip install -q --disable-pip-version-check $packages
  fi
done
