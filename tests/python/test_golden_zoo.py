"""The model zoo against fingerprints of the real MXNet 1.9.1: outputs and gradients.

tests/golden/mxnet-1.9.1-zoo.npz is made by tools/golden_zoo.py. Most cases are marked
slow: pytest -m slow runs them.
"""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent.parent
GOLDEN = dict(np.load(ROOT / "tests" / "golden" / "mxnet-1.9.1-zoo.npz"))
QUICK = (
    "alexnet/fixed",
    "googlenet/fixed",
    "inception_bn/fixed",
    "mobilenet0.25/batch",
    "mobilenet0.25/fixed",
    "mobilenetv2_0.25/batch",
    "mobilenetv2_0.25/fixed",
    "resnet18_v1/batch",
    "resnet18_v1/fixed",
    "resnet18_v2/batch",
    "resnet18_v2/fixed",
    "resnet50_v1/fixed",
    "resnext50_32x4d/fixed",
    "squeezenet1.1/fixed",
    "vgg11/fixed",
    "vgg11_bn/batch",
)
CASES = [
    pytest.param(case, marks=() if case in QUICK else pytest.mark.slow)
    for case in sorted(GOLDEN)
]


@pytest.fixture(scope="module")
def zoo():
    """tools/golden_zoo.py, with Plait as its mxnet."""
    before = set(sys.modules)
    places = [str(ROOT / "python" / "alias"), str(ROOT / "tools")]
    sys.path[:0] = places
    try:
        import golden_zoo

        yield golden_zoo
    finally:
        for place in places:
            sys.path.remove(place)
        for name in set(sys.modules) - before:
            if name.split(".")[0] in ("mxnet", "golden_zoo"):
                del sys.modules[name]


@pytest.mark.parametrize("case", CASES)
def test_networks_give_what_they_gave_in_mxnet(zoo, case):
    name, mode = case.split("/")
    found, expected = zoo.rows_of(name, mode), GOLDEN[case]
    differences = zoo.differences(found, expected, mode)
    if mode == "batch":  # in float64
        assert differences.max() < 1e-6
        return
    # Where rounding moves a number across a relu's kink, gradients feel it.
    assert differences[0] < 1e-5  # the output
    assert differences.max() < 0.03


def test_names_of_parameters_are_those_of_mxnet(zoo):
    """Names with shapes, and paths through the blocks: checksums of MXNet's own."""
    table = ROOT / "tests" / "golden" / "mxnet-1.9.1-zoo-names.tsv"
    rows = [line.split("\t") for line in table.read_text().splitlines()]
    assert len(rows) == 34
    for name, *expected in rows:
        assert zoo.names_of(name) == [int(x) for x in expected], name


def test_all_models_have_fingerprints(zoo):
    from plait.gluon.model_zoo import vision

    assert {"%s/fixed" % name for name in vision._table()} <= set(GOLDEN)
    assert set(GOLDEN) == {"%s/%s" % case for case in zoo.CASES}


def test_fingerprints_see_small_changes(zoo):
    """One weight that differs by a hundredth of its size, or two that are exchanged."""
    weight = zoo.numbers("weight", (64, 64))
    rows = zoo.fingerprint("weight", weight)[None]

    def difference(changed):
        return zoo.differences(zoo.fingerprint("weight", changed)[None], rows, "").max()

    changed = weight.copy()
    changed[3, 5] *= 1.01
    assert 1e-6 < difference(changed) < 1e-3
    swapped = weight.copy()
    swapped[:2] = swapped[1::-1]
    assert difference(swapped) > 1e-2
    assert zoo.differences(rows, np.concatenate([rows, rows]), "").max() == np.inf
