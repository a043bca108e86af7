"""Optimizers, schedules and metrics against the real MXNet 1.9.1.

tests/golden/mxnet-1.9.1-training.npz is made by tools/golden_training.py.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import plait

ROOT = Path(__file__).parent.parent
GOLDEN = np.load(ROOT / "golden" / "mxnet-1.9.1-training.npz")
spec = importlib.util.spec_from_file_location(
    "golden_training", ROOT.parent / "tools" / "golden_training.py"
)
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)


@pytest.fixture(scope="module")
def rows():
    return tool.rows(plait)


def test_all_rows_are_there(rows):
    assert sorted(rows) == sorted(GOLDEN.files) and len(rows) > 80


@pytest.mark.parametrize("name", sorted(GOLDEN.files))
def test_values_are_those_of_mxnet(rows, name):
    half = name.startswith("optimizer") and name.endswith("/2")  # float16 weights
    exact = name.startswith("schedule")
    np.testing.assert_allclose(
        rows[name],
        GOLDEN[name],
        rtol=1e-14 if exact else 2e-3 if half else 1e-5,
        atol=0 if exact else 2e-3 if half else 1e-5,
    )
