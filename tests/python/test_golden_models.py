"""Models of the real MXNet 1.9.1: its files load, give its outputs, and are written
again byte for byte.

tests/golden/mxnet-1.9.1-models.npz is made by tools/golden_models.py.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import plait as mx

ROOT = Path(__file__).parent.parent.parent
GOLDEN = dict(np.load(ROOT / "tests" / "golden" / "mxnet-1.9.1-models.npz"))
OPERATORS = json.loads(GOLDEN["operators"].tobytes())
OLD = ROOT / "tests" / "golden" / "old-symbols.json"
# Their outputs' shapes depend on values: here they are functions of arrays only.
ARRAYS_ONLY = ("_contrib_boolean_mask",)
CASES = sorted(name.split("/")[0] for name in GOLDEN if name.endswith("/symbol.json"))


@pytest.fixture(scope="module")
def models():
    """tools/golden_models.py, with Plait as its mxnet."""
    before = set(sys.modules)
    places = [str(ROOT / "python" / "alias"), str(ROOT / "tools")]
    sys.path[:0] = places
    try:
        import golden_models

        yield golden_models
    finally:
        for place in places:
            sys.path.remove(place)
        for name in set(sys.modules) - before:
            if name.split(".")[0] in ("mxnet", "golden_models"):
                del sys.modules[name]


def source(case):
    return GOLDEN[case + "/symbol.json"].tobytes().decode()


@pytest.mark.parametrize("case", CASES)
def test_a_model_of_mxnet_gives_what_it_gave_there(models, case):
    outputs = models.outputs_of(case, GOLDEN)
    assert len(outputs) == sum(name.startswith(case + "/out_") for name in GOLDEN)
    for i, found in enumerate(outputs):
        expected = GOLDEN["%s/out_%d" % (case, i)]
        assert found.dtype == expected.dtype
        scale = float(np.abs(expected).max())
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * scale)


@pytest.mark.parametrize("case", CASES)
def test_a_symbol_is_written_as_mxnet_wrote_it(case):
    text = source(case)
    assert mx.sym.load_json(text).tojson() == text


@pytest.mark.parametrize("case", CASES)
def test_a_network_built_here_is_the_one_built_there(models, case):
    with mx.name.NameManager():
        if case in models.ZOO:
            symbol = models.ZOO[case]()[0]
        elif case in models.BLOCKS:
            return  # below: names of its layers count from where the process stands
        else:
            symbol = models.attributes()
    assert symbol.tojson() == source(case)


def test_exported_blocks_are_those_that_mxnet_exports(models, tmp_path):
    for case, (build, inputs) in models.BLOCKS.items():
        with mx.name.NameManager():
            net = build()
            net.initialize()
            net.hybridize()
            net(*[mx.nd.array(a) for a in inputs])
            net.export(str(tmp_path / case))
        text = (tmp_path / (case + "-symbol.json")).read_text()
        assert text == source(case)
        written = mx.nd.load(str(tmp_path / (case + "-0000.params")))
        (tmp_path / "golden").write_bytes(GOLDEN[case + "/0003.params"].tobytes())
        golden = mx.nd.load(str(tmp_path / "golden"))
        assert {n: a.shape for n, a in written.items()} == {
            n: a.shape for n, a in golden.items()
        }


def test_every_operator_is_written_as_mxnet_wrote_it():
    checked = 0
    for op, _, _, text in OPERATORS:
        if text is None or op in ARRAYS_ONLY:
            continue
        symbol = mx.sym.load_json(text)
        # Casts of mixed precision are kept here, as they are what the file is about.
        assert symbol.tojson(remove_amp_cast=False) == text
        checked += 1
    assert checked > 550


def test_every_operator_made_here_is_written_as_mxnet_wrote_it(models):
    for op, params, count, text in OPERATORS:
        if text is None or op in ARRAYS_ONLY:
            continue
        if params.get("act_type") == "rrelu":  # shows its mask there
            continue
        assert models.sample_json(op, params, count) == text, (op, params)


@pytest.mark.parametrize("name", json.loads(OLD.read_text()))
def test_a_file_of_an_old_version_becomes_what_mxnet_makes_of_it(models, name):
    found = models.upgraded(json.loads(OLD.read_text())[name])
    expected = json.loads(GOLDEN["old"].tobytes())[name]
    assert found[1:] == expected[1:]  # names and attributes
    graphs = [json.loads(text) for text in (found[0], expected[0])]
    for graph in graphs:
        for node in graph["nodes"]:  # the third is the version of a state, without use
            node["inputs"] = [entry[:2] for entry in node["inputs"]]
    assert graphs[0] == graphs[1]


def test_files_of_old_versions_bind():
    old = json.loads(OLD.read_text())
    shapes = {"data": (2, 3, 4, 4), "a": (2, 3), "b": (2, 3)}
    for name, graph in old.items():
        symbol = mx.sym.load_json(json.dumps(graph))
        given = {n: shapes[n] for n in symbol.list_arguments() if n in shapes}
        if name == "0.9.3 initializers and argmax":
            given = {}  # the file has its shape
        executor = symbol.simple_bind(mx.cpu(), grad_req="null", **given)
        assert all(np.isfinite(y.asnumpy()).all() for y in executor.forward())


@pytest.mark.parametrize("version, allowed", [(10900, True), (10901, False)])
def test_words_without_underscores_are_of_old_files_only(version, allowed):
    graph = {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            {"op": "relu", "name": "y", "attrs": {"wd_mult": "2"}, "inputs": [[0, 0]]},
        ],
        "arg_nodes": [0],
        "heads": [[1, 0]],
        "attrs": {"mxnet_version": ["int", version]},
    }
    if allowed:
        symbol = mx.sym.load_json(json.dumps(graph))
        assert symbol.attr_dict()["y"]["__wd_mult__"] == "2"
    graph["nodes"][1]["attrs"] = {"colour": "2"}
    with pytest.raises(mx.MXNetError, match="colour"):
        mx.sym.load_json(json.dumps(graph))


def test_what_is_written_stays_within_what_mxnet_reads():
    known = {"op", "name", "attrs", "inputs", "subgraphs"}
    x = mx.sym.var("x", lr_mult=2, shape=(2, 3), dtype="float16", init=mx.init.One())
    y = mx.sym.Convolution_v1(x, kernel=(1, 1), num_filter=2, no_bias=True)
    y = mx.sym.concat(mx.sym.flatten(y), mx.sym.reshape(x, shape=(0, -1)) + 1, dim=1)
    y = mx.sym.broadcast_plus(mx.sym.max_axis(y, axis=1, keepdims=1), x)
    graph = json.loads(y.tojson())
    canonical = {mx._plait.op_info(n)["name"] for n in mx._plait.op_names()}
    assert list(graph) == ["nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"]
    assert graph["attrs"] == {"mxnet_version": ["int", 10901]}
    for i, node in enumerate(graph["nodes"]):
        assert set(node) <= known
        assert node["op"] == "null" or node["op"] in canonical
        assert all(type(v) is str for v in node.get("attrs", {}).values())
        assert all(len(e) == 3 and e[0] < i for e in node["inputs"])
    ops = [n["op"] for n in graph["nodes"] if n["op"] != "null"]
    assert ops == [
        "Convolution", "Flatten", "Reshape", "_plus_scalar", "Concat", "max",
        "broadcast_add",
    ]  # fmt: skip
    attrs = graph["nodes"][0]["attrs"]
    assert attrs["__dtype__"] == "2" and attrs["__shape__"] == "(2, 3)"
    assert attrs["__lr_mult__"] == "2" and json.loads(attrs["__init__"]) == ["one", {}]


def test_casts_of_mixed_precision_are_left_out():
    x, w = mx.sym.var("x"), mx.sym.var("w")
    cast = mx.sym.amp_multicast(mx.sym.amp_cast(x, dtype="float16"), w, num_outputs=2)
    y = mx.sym.dot(cast[0], cast[1], name="y")
    kept = mx.sym.load_json(y.tojson(remove_amp_cast=False))
    assert "amp_cast" in kept.tojson(remove_amp_cast=False)
    slim = y.tojson()
    assert "amp_" not in slim
    assert slim == mx.sym.dot(x, w, name="y").tojson()
    head = mx.sym.amp_cast(y, dtype="float32", name="head")
    assert [n["op"] for n in json.loads(head.tojson())["nodes"]][-1] == "amp_cast"
