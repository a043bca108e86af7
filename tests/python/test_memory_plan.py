"""Memory plans without arrays: the six networks, bounds, and bad input."""

import sys
from pathlib import Path

import numpy as np
import pytest

import plait as mx

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from networks import NETWORKS, shapes  # noqa: E402

# Parameters as the papers' networks are known to have.
PARAMETERS = {
    "AlexNet": 60965224,
    "GoogLeNet": 6998552,
    "VGG-16": 138357544,
    "Inception-v3": 23834568,
    "ResNet-50": 25557032,
    "LSTM, 35 steps": 19780400,
}


def parameters(symbol, known):
    arg_shapes, _, _ = symbol.infer_shape(**known)
    named = zip(symbol.list_arguments(), arg_shapes)
    return {name: shape for name, shape in named if name not in known}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_have_the_parameters_of_their_papers(name):
    symbol, known = NETWORKS[name][0](), shapes(name, 2)
    sizes = parameters(symbol, known).values()
    assert sum(int(np.prod(s)) for s in sizes) == PARAMETERS[name]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("training, least", [(True, 2), (False, 4)])
def test_plans_save_what_the_paper_says_and_are_near_the_bound(name, training, least):
    symbol, known = NETWORKS[name][0](), shapes(name, 64)
    requests = dict.fromkeys(parameters(symbol, known), "write")
    plan = symbol.memory_plan(is_train=training, grad_req=requests, **known)
    assert plan["both"] * least <= plan["unfused"]
    assert plan["lower_bound"] <= plan["both"] <= 1.1 * plan["lower_bound"]
    assert plan["both"] <= plan["co_share"] <= plan["none"] <= plan["unfused"]
    assert plan["both"] <= plan["inplace"] <= plan["none"]


def chain(count):
    x = mx.sym.var("x")
    for i in range(count):
        x = mx.sym.FullyConnected(x, num_hidden=64, name=f"fc{i}")
    return x


def test_a_chain_needs_two_values_whatever_its_length():
    value = 16 * 64 * 4
    plan = chain(10).memory_plan(is_train=False, x=(16, 64))
    assert plan["none"] == 9 * value  # the last one is the user's
    assert plan["both"] == plan["lower_bound"] == 2 * value


def test_a_plan_without_arrays_is_that_of_the_executor():
    symbol = chain(5)
    executor = symbol.simple_bind(mx.cpu(), x=(16, 64))
    for training in (True, False):
        plan = symbol.memory_plan(is_train=training, x=(16, 64))
        bound = executor.memory_plan(training)
        assert bound.items() <= plan.items()


def test_gradients_that_are_not_wanted_need_no_memory():
    symbol = chain(5)
    known = {"x": (16, 64)}
    assert (
        symbol.memory_plan(grad_req="null", **known)["none"]
        < (symbol.memory_plan(grad_req="write", **known)["none"])
    )


@pytest.mark.parametrize(
    "arguments, text",
    [
        ({"grad_req": "often", "x": (2, 3)}, "grad_req of x is 'often'"),
        ({"grad_req": {"y": "write"}, "x": (2, 3)}, "grad_req is ['y']"),
        ({"grad_req": 1, "x": (2, 3)}, "grad_req is 1"),
        ({"y": (2, 3)}, "there is no variable 'y'"),
        ({"x": 3}, "a tuple was expected"),
    ],
)
def test_bad_requests_are_refused_by_name(arguments, text):
    with pytest.raises(mx.MXNetError) as error:
        chain(1).memory_plan(**arguments)
    assert text in str(error.value)


def test_shapes_that_do_not_follow_are_refused():
    with pytest.raises(mx.MXNetError) as error, pytest.warns(UserWarning):
        chain(1).memory_plan()
    assert "shapes do not follow" in str(error.value)
