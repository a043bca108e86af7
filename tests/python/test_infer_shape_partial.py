"""Inference that runs backwards, and shapes of which only a part is known."""

import json

import pytest

import plait as mx


def inferred(symbol, **shapes):
    return dict(zip(symbol.list_arguments(), symbol.infer_shape(**shapes)[0]))


@pytest.mark.parametrize(
    "shape, options, piece, expected",
    [
        ((0, 10), {"num_outputs": 10, "squeeze_axis": True}, (5,), (5, 10)),
        ((0, 0), {"num_outputs": 10, "squeeze_axis": True}, (5,), (5, 10)),
        ((0, 15, 0), {"num_outputs": 3}, (3, 5, 2), (3, 15, 2)),
        ((0, 0, 0), {"num_outputs": 3}, (3, 5, 2), (3, 15, 2)),
        (None, {"num_outputs": 3, "axis": 0}, (2, 5), (6, 5)),
        (None, {"num_outputs": 3, "axis": 0, "squeeze_axis": True}, (2, 5), (3, 2, 5)),
    ],
)
def test_pieces_tell_what_is_cut(shape, options, piece, expected):
    a, c = mx.sym.Variable("a", shape=shape), mx.sym.Variable("c", shape=piece)
    parts = mx.sym.SliceChannel(a, **options)
    assert inferred(parts[1] + c)["a"] == expected


def test_what_is_cut_tells_pieces_before_all_of_it_is_known():
    parts = mx.sym.SliceChannel(mx.sym.Variable("a"), num_outputs=2, axis=-1)
    _, outputs, _ = parts.infer_shape_partial(a=(0, 3, 8))
    assert outputs == [(0, 3, 4)] * 2
    with pytest.raises(mx.MXNetError, match="cannot be cut into 2 equal pieces"):
        parts.infer_shape_partial(a=(0, 3, 7))


def test_a_convolution_of_step_one_tells_its_input():
    x = mx.sym.Variable("x", shape=(0, 10, 0, 0))
    y = mx.sym.Convolution(x, num_filter=21, kernel=(3, 3), pad=(1, 1), dilate=(2, 1))
    arguments = inferred(y + mx.sym.Variable("c", shape=(5, 21, 30, 32)))
    assert arguments["x"] == (5, 10, 32, 32)
    y = mx.sym.Convolution(x, num_filter=21, kernel=(3, 3), stride=(2, 1))
    _, outputs, _ = (y + mx.sym.Variable("c")).infer_shape_partial(c=(5, 21, 30, 32))
    arguments, _, _ = (y + mx.sym.Variable("c")).infer_shape_partial(c=(5, 21, 30, 32))
    assert arguments[0] == (5, 10, 0, 34) and outputs == [(5, 21, 30, 32)]


def test_numpy_shapes_say_unknown_in_other_words():
    y = mx.sym.transpose(mx.sym.Variable("x"), axes=(1, 0, 2))
    assert y.infer_shape_partial(x=(0, 3, 4))[1] == [(3, 0, 4)]
    sine = mx.sym.sin(mx.sym.Variable("x"))
    assert sine.infer_shape_partial()[1] == [()]
    with mx.util.np_shape():
        assert y.infer_shape_partial(x=(-1, 3, 4))[1] == [(3, -1, 4)]
        assert sine.infer_shape_partial()[1] == [None]
        assert sine.infer_shape(x=(0, 3))[1] == [(0, 3)]
        assert sine.infer_shape(x=())[1] == [()]
        with pytest.warns(UserWarning, match="x: None"):
            assert sine.infer_shape() == (None, None, None)


def test_graph_files_say_that_shapes_are_numpys():
    x = mx.sym.sin(mx.sym.Variable("x"))
    assert "is_np_shape" not in x.tojson()
    with mx.util.np_shape():
        text = x.tojson()
    attributes = json.loads(text)["attrs"]
    assert attributes["is_np_shape"] == ["int", 1]
    assert list(attributes) == ["is_np_shape", "mxnet_version"]
    assert mx.sym.load_json(text).tojson() == x.tojson()


def test_shapes_of_created_arrays_may_follow_from_their_readers():
    ones, part = mx.sym.ones(shape=(2, 3)), mx.sym.ones(shape=(-1, 2))
    sum_of = ones + mx.sym.transpose(part)
    assert sum_of.infer_shape()[1] == [(2, 3)]
    assert sum_of.bind(mx.cpu(), args={}).forward()[0].shape == (2, 3)
    with pytest.raises(ValueError, match="do not follow"):
        mx.sym.ones(shape=(-1, 2)).bind(mx.cpu(), args={}).forward()
    with pytest.raises(ValueError, match=r"shape \(\?, 2\) has a negative or unknown"):
        mx.nd.ones((-1, 2))
