"""Backends by name: optimize_for, get_backend_symbol, hybridize."""

import numpy as np
import pytest

import plait as mx


def test_backends_are_checked_by_name():
    x = mx.nd.array([[1.0, 2.0]])
    y = mx.sym.exp(mx.sym.var("x"))
    for name in ("MKLDNN", "default"):
        assert y.optimize_for(name).tojson() == y.tojson()
        assert y.get_backend_symbol(name).tojson() == y.tojson()
    with pytest.warns(UserWarning, match="TensorRT is not part of Plait"):
        y.optimize_for("TensorRT")
    for call in (y.optimize_for, y.get_backend_symbol):
        with pytest.raises(ValueError, match="'mine'; one of .*'MKLDNN'.*was expected"):
            call("mine")
    net = mx.gluon.nn.Dense(2)
    net.initialize()
    with pytest.raises(ValueError, match="hybridize: backend is 'mine'"):
        net.hybridize(backend="mine")
    want = net(x).asnumpy()
    net.optimize_for(x, backend="MKLDNN", static_alloc=True)
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-6)


def test_parameters_of_a_symbol_block_move_to_other_devices():
    net = mx.gluon.nn.Dense(2, in_units=3)
    net.initialize()
    x = mx.sym.var("x")
    block = mx.gluon.SymbolBlock(net(x), [x], params=net.collect_params())
    block.reset_ctx([mx.cpu(0), mx.cpu(1)])
    for param in block.collect_params().values():
        assert param.list_ctx() == [mx.cpu(0), mx.cpu(1)]
