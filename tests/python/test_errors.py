"""Wrong calls: the class and the text of each error, one row of errors.tsv a case.

errors.tsv has an expression (x is a (2, 3) array of ones), the error's class and its
text. Every class derives from MXNetError and from the built-in class that fits.
"""

import builtins
import csv
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import plait as mx
from plait import autograd, error, nd

with open(Path(__file__).parent / "errors.tsv", newline="") as table:
    CASES = [
        tuple(row)
        for row in csv.reader(table, delimiter="\t", quoting=csv.QUOTE_NONE)
        if not row[0].startswith("#")
    ]
BUILTIN = {
    "MXNetValueError": ValueError,
    "MXNetTypeError": TypeError,
    "MXNetIndexError": IndexError,
    "MXNetKeyError": KeyError,
    "MXNetMemoryError": MemoryError,
    "MXNetRuntimeError": RuntimeError,
    "MXNetNotImplementedError": NotImplementedError,
    "MXNetOSError": OSError,
    "MXNetAttributeError": AttributeError,
    "NotYetError": NotImplementedError,
}


def run(expression):
    x = nd.ones((2, 3))
    result = eval(
        expression, {"mx": mx, "nd": nd, "np": np, "autograd": autograd}, {"x": x}
    )
    nd.waitall()
    return result


@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_class_and_text(case):
    expression, name, text = case
    with pytest.raises(mx.MXNetError) as caught:
        run(expression)
    said = re.sub(r" \(called at .*:[0-9]+\)$", "", str(caught.value))
    assert (type(caught.value).__name__, said) == (name, text)
    assert isinstance(caught.value, BUILTIN[name])


def test_values_that_hold_themselves_are_errors():
    x, s, itself = nd.ones((2, 3)), mx.sym.var("s"), []
    itself.append(itself)
    for call in (
        lambda: nd.multiply(x, s),
        lambda: nd.clip(x, "a", s),
        lambda: nd.reshape(x, shape=s),
        lambda: nd.reshape(x, shape=itself),
    ):
        with pytest.raises(TypeError):
            call()


def test_every_class_is_an_mxnet_error_and_a_builtin_one():
    classes = [
        c
        for c in vars(error).values()
        if inspect.isclass(c) and issubclass(c, Exception) and c is not error.MXNetError
    ]
    assert len(classes) > 10
    for cls in classes:
        assert issubclass(cls, error.MXNetError)
        own = [b for b in cls.__mro__ if vars(builtins).get(b.__name__) is b]
        assert set(own) - {BaseException, Exception, object}
    for name, builtin in BUILTIN.items():
        assert issubclass(getattr(error, name), builtin)


def test_errors_of_the_background_come_at_the_wait_and_name_the_call():
    bad = nd.gather_nd(nd.ones((2, 3)), nd.array([[9], [0]]))
    later = bad + 1
    with pytest.raises(IndexError, match="test_errors.py:[0-9]+") as caught:
        later.asnumpy()
    assert "gather_nd: index 9" in str(caught.value)
    assert nd.ones((2,)).asnumpy().tolist() == [1, 1]  # and the rest goes on
    nd.waitall()  # what was raised once is not raised again


def test_an_array_that_failed_can_be_written_again():
    x = nd.ones((2,))
    x[:] = nd.gather_nd(nd.ones((2,)), nd.array([[9, 9]]))
    with pytest.raises(IndexError):
        x.asnumpy()
    x[:] = 3
    assert x.asnumpy().tolist() == [3, 3]
    try:
        nd.waitall()
    except mx.MXNetError:
        pass


def test_a_failed_call_leaves_its_out_array():
    out = nd.ones((2, 3))
    with pytest.raises(ValueError):
        nd.broadcast_add(nd.ones((2, 3)), nd.ones((4,)), out=out)
    assert (out.asnumpy() == 1).all()


def test_recording_survives_a_failed_call():
    x = nd.ones((2,))
    x.attach_grad()
    with autograd.record():
        with pytest.raises(ValueError):
            x + nd.ones((3,))
        y = x * 2
    y.backward()
    assert x.grad.asnumpy().tolist() == [2, 2]
    assert not autograd.is_recording()
