"""Initializers: values, dispatch by name, JSON."""

import json

import numpy as np
import pytest

import plait as mx
from plait import _plait, nd

I = mx.init  # noqa: E741


def filled(init, shape, name="some_weight", attrs=None):
    arr = nd.zeros(shape)
    init(I.InitDesc(name, attrs), arr)
    return arr.asnumpy()


def test_constants():
    assert (filled(I.Zero(), (2,)) == 0).all() and (filled(I.One(), (2,)) == 1).all()
    assert filled(I.Constant([[1.0, 2.0]]), (1, 2)).tolist() == [[1, 2]]
    assert filled(I.Constant(nd.array([3.0])), (1,)).tolist() == [3]


def test_random_distributions():
    uniform = filled(I.Uniform(0.5), (20000,))
    assert abs(uniform).max() <= 0.5 and abs(uniform.std() - 0.5 / 3**0.5) < 0.01
    normal = filled(I.Normal(0.5), (20000,))
    assert abs(normal.std() - 0.5) < 0.02 and abs(normal.mean()) < 0.02


@pytest.mark.parametrize(
    "factor,fan", [("in", 100 * 9), ("out", 50 * 9), ("avg", 75 * 9)]
)
def test_xavier_scales_by_fan(factor, fan):
    shape = (50, 100, 3, 3)
    uniform = filled(I.Xavier(factor_type=factor, magnitude=3), shape)
    assert abs(uniform).max() <= (3 / fan) ** 0.5
    assert uniform.std() == pytest.approx(fan**-0.5, rel=0.03)
    gaussian = filled(I.Xavier("gaussian", factor, 2), shape)
    assert gaussian.std() == pytest.approx((2 / fan) ** 0.5, rel=0.03)


def test_msra_prelu_is_xavier_with_a_slope():
    value = filled(I.MSRAPrelu("in", 0.25), (50, 100))
    assert value.std() == pytest.approx((2 / (1 + 0.0625) / 100) ** 0.5, rel=0.05)


def test_orthogonal_rows():
    for kind in ("uniform", "normal"):
        m = filled(I.Orthogonal(scale=2.0, rand_type=kind), (4, 3, 3)).reshape(4, 9)
        np.testing.assert_allclose(m @ m.T, 4 * np.eye(4), atol=1e-4)


def test_bilinear_weights():
    row = np.array([0.25, 0.75, 0.75, 0.25])
    assert (filled(I.Bilinear(), (2, 1, 4, 4)) == np.outer(row, row)).all()


def test_a_weight_needs_no_name():
    arr = nd.zeros((1, 1, 2, 2))
    I.Bilinear()._init_weight(None, arr)
    assert arr.asnumpy().ravel().tolist() == [1, 0, 0, 0]


def test_lstm_bias():
    assert filled(I.LSTMBias(2.0), (8,)).tolist() == [0, 0, 2, 2, 0, 0, 0, 0]


def test_fused_rnn_fills_every_piece():
    hidden, width, layers = 3, 2, 2
    size = 4 * hidden * (width + hidden + 2) + 4 * hidden * (hidden + hidden + 2)
    init = I.FusedRNN(I.One(), hidden, layers, "lstm", forget_bias=5.0)
    arr = nd.zeros((size,))
    init(I.InitDesc("parameters", {"__init__": init.dumps()}), arr)
    values = arr.asnumpy()
    assert sorted(set(values.tolist())) == [0, 1, 5]
    assert (values == 5).sum() == 2 * 2 * hidden  # forget gates of i2h and h2h


def test_names_decide_the_rule():
    init = I.Constant(7)
    assert (
        filled(init, (1,), "a_bias")[0] == 0 and filled(init, (1,), "a_gamma")[0] == 1
    )
    assert (
        filled(init, (1,), "a_beta")[0] == 0 and filled(init, (1,), "a_weight")[0] == 7
    )
    assert filled(init, (1,), "a_max")[0] == 1 and filled(init, (1,), "a_min")[0] == 0
    own = {"__init__": I.Constant(3).dumps()}
    assert filled(init, (1,), "a_bias", own)[0] == 3
    with pytest.raises(ValueError, match="Unknown initialization pattern for odd"):
        filled(init, (1,), "odd")


def test_plain_names_are_deprecated_but_work():
    arr = nd.zeros((2,))
    with pytest.warns(DeprecationWarning):
        I.One()("bn_moving_var", arr)
    assert arr.asnumpy().tolist() == [1, 1]
    with pytest.raises(TypeError), pytest.warns(DeprecationWarning):
        I.One()(3, arr)


def test_defaults_are_those_of_the_core():
    for name in ("uniform", "normal", "orthogonal", "xavier", "lstmbias"):
        defaults = _plait.kind_defaults("initializer", name)
        made = I.create(name)
        assert defaults and defaults == {n: getattr(made, n) for n in defaults}
    assert json.loads(I.MSRAPrelu().dumps())[1] == _plait.kind_defaults(
        "initializer", "msraprelu"
    )


def test_json_makes_the_same_initializer():
    for init in (
        I.Uniform(0.1),
        I.Xavier("gaussian", "in", 2),
        I.Zero(),
        I.MSRAPrelu(),
    ):
        assert I.create(init.dumps()) == init
    assert json.loads(I.Constant(np.ones(2)).dumps()) == ["constant", {"value": [1, 1]}]
    assert I.create("zeros") == I.Zero() and I.create("ones") == I.One()


def test_mixed_takes_the_first_match():
    init = I.Mixed(["first.*", ".*"], [I.One(), I.Zero()])
    arr = nd.full((1,), 5)
    init(I.InitDesc("first_weight"), arr)
    assert arr.asscalar() == 1
    init(I.InitDesc("other_weight"), arr)
    assert arr.asscalar() == 0
    with pytest.raises(ValueError, match="did not match"):
        I.Mixed(["a"], [I.One()])("b", arr)


def test_load_copies_by_name(tmp_path):
    path = str(tmp_path / "x.params")
    nd.save(path, {"arg:w": nd.array([1.0, 2.0])})
    init = I.Load(path, default_init=I.Zero())
    arr = nd.zeros((2,))
    init("w", arr)
    assert arr.asnumpy().tolist() == [1, 2]
    with pytest.raises(AssertionError, match="Shape mismatch"):
        init("w", nd.zeros((3,)))
    with pytest.raises(AssertionError, match="no default"):
        I.Load({})("w", arr)


def test_wrong_arguments():
    with pytest.raises(ValueError, match="at least 2D"):
        filled(I.Xavier(), (3,))
    with pytest.raises(ValueError, match="factor type"):
        filled(I.Xavier(factor_type="odd"), (3, 3))
    with pytest.raises(ValueError, match="random type"):
        filled(I.Xavier(rnd_type="odd"), (3, 3))


def test_verbosity_logs(caplog):
    init = I.One().set_verbosity(True)
    with caplog.at_level("INFO"):
        filled(init, (4,))
    assert "Initialized some_weight as weight: 1.0" in caplog.text
