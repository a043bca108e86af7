# Plait. `make demo` shows it, `make test` tests it; both install what is missing first.
#
#   make build      the library and its Python package, importable by .venv/bin/python
#   make demo       train on Fashion-MNIST; leaves a model and two pictures in demo/
#   make test       all C++ and Python tests
#   make sanitize   the C++ tests under the address, undefined and thread sanitizers
#   make wheel      `pip install .` in an empty environment, and a run of it
#   make check      format, lint, the order of the rooms, sizes
#   make bench      speed and memory beside PyTorch, ONNX Runtime, OpenVINO and MXNet:
#                   three rounds, an hour and a half; ROWS="AlexNet 'ResNet-50
#                   training'" chooses rows by parts of their names
#   make bench-data the same of records, images and batches alone: about ten minutes
#   make clean      remove what was built (.venv stays)
#
# PYTHON=python3.12 chooses the interpreter that .venv is made with.
export PYTHON ?= python3
PY := .venv/bin/python

build: setup
	@test -f build/release/build.ninja || cmake --preset release
	@cmake --build --preset release

setup:
	@tools/setup.sh

demo: build
	@$(PY) examples/fashion_mnist.py

test: build
	ctest --preset release --parallel 2
	$(PY) -m pytest -q tests

sanitize:
	tools/setup.sh ci
	tools/sanitize.sh

wheel: setup
	tools/try_wheel.sh

check: setup
	tools/check.sh

bench: build
	$(PY) benchmarks/run.py $(ROWS)
	$(PY) benchmarks/memory_plan.py
	$(PY) benchmarks/kvstore.py

bench-data: build
	$(PY) benchmarks/data.py $(ROWS)

clean:
	rm -rf build demo benchmarks/out

.PHONY: build setup demo test sanitize wheel check bench bench-data clean
