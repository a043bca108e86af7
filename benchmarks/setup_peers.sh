#!/usr/bin/env bash
# Makes the environments of the peers that `make bench` compares with.
#
# usage: benchmarks/setup_peers.sh [torch|mxnet|photos]...
# They lie in $PEERS (default ~/.cache/plait-peers): tv holds PyTorch, ONNX Runtime and
# OpenVINO, mx MXNet 1.9.1 with the OpenCV that its im2rec.py needs, photos the two
# photographs that come with scikit-learn.
set -euo pipefail
peers=${PEERS:-$HOME/.cache/plait-peers}
mkdir -p "$peers"
for peer in "${@:-torch}"; do
  if [ "$peer" = photos ]; then
    [ -f "$peers/photos/china.jpg" ] && continue
    some=$(mktemp -d)
    "${PYTHON:-python3}" -m pip install -q --disable-pip-version-check --no-deps \
      --target "$some" scikit-learn
    mkdir -p "$peers/photos"
    mv "$some"/sklearn/datasets/images/*.jpg "$peers/photos"
    rm -r "$some"
    continue
  fi
  case $peer in
    torch) dir=$peers/tv packages="torch torchvision numpy onnx onnxruntime openvino"
      modules="torch, torchvision, onnx, onnxruntime, openvino" ;;
    mxnet) dir=$peers/mx modules="mxnet, cv2"
      packages="mxnet==1.9.1 numpy==1.23.5 opencv-python-headless==4.10.0.84" ;;
    *) echo "setup_peers: '$peer' is not a peer; torch or mxnet was expected" >&2; exit 2 ;;
  esac
  if ! "$dir/bin/python" -c "import $modules" 2>/dev/null; then
    echo "setup_peers: installing $packages into $dir"
    "${PYTHON:-python3}" -m venv "$dir"
    "$dir/bin/python" -m pip install -q --disable-pip-version-check $packages
  fi
done
