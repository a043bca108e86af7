"""What users of MXNet asked for, or take for granted since: prediction with any batch,
tracing, profiles by layer, exchange of memory, half types."""

import json
import threading

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd, profiler
from plait.gluon import nn


def test_one_module_predicts_batches_of_any_size():  # B1
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    module = mx.mod.Module(net, label_names=None)
    module.bind([("data", (1, 3))], for_training=False)
    module.init_params(mx.init.One())
    for batch in (1, 7, 3):
        x = np.arange(3 * batch).reshape(batch, 3)
        module.forward(mx.io.DataBatch([nd.array(x)]), is_train=False)
        want = np.repeat(x.sum(axis=1, keepdims=True), 2, axis=1)
        np.testing.assert_array_equal(module.get_outputs()[0].asnumpy(), want)


def test_executors_may_change_threads():  # B2
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, no_bias=True)
    failures = []

    def run(executor):
        try:
            executor.arg_arrays[0][:] = 2
            executor.arg_arrays[1][:] = 3
            y = executor.forward()[0].asnumpy()
            assert (y == 18).all()
        except Exception as error:  # pragma: no cover
            failures.append(error)

    for _ in range(100):
        executor = net.simple_bind(mx.cpu(), grad_req="null", data=(4, 3))
        thread = threading.Thread(target=run, args=(executor,))
        thread.start()
        thread.join(60)
        del executor
    assert not failures


def test_codes_of_reshape_mean_the_same_everywhere():  # B9
    x = nd.ones((2, 3))
    assert x.reshape((-4, 1, 2, -2)).shape == (1, 2, 3)
    symbol = mx.sym.reshape(mx.sym.var("x"), shape=(-4, 1, 2, -2))
    assert symbol.infer_shape(x=(2, 3))[1] == [(1, 2, 3)]


def test_blocks_of_channels_are_never_seen():  # F7
    """A network runs on blocks; its values, by any way out, are in plain order."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(16, 3, in_channels=16, use_bias=False))
    net.initialize()
    net.hybridize()
    x = nd.random.uniform(-1, 1, shape=(1, 16, 8, 8))
    y = net(x)
    w = net[0].weight.data().asnumpy()
    want = np.zeros((1, 16, 6, 6))
    for i in range(3):
        for j in range(3):
            part = x.asnumpy()[:, :, i : i + 6, j : j + 6]
            want += np.einsum("nchw,oc->nohw", part, w[:, :, i, j])
    for seen in (y.asnumpy(), np.from_dlpack(y), y.reshape((-1,)).asnumpy()):
        np.testing.assert_allclose(seen.reshape(want.shape), want, atol=1e-5)


def test_blocks_may_look_at_shapes_and_index():  # R1
    class Block(gluon.HybridBlock):
        def forward(self, x):
            return x[0] * x.shape[1] + x.reshape((-1,))[0]

    block, x = Block(), nd.array([[1, 2], [3, 4]])
    plain = block(x).asnumpy()
    block.hybridize()
    np.testing.assert_array_equal(block(x).asnumpy(), plain)
    np.testing.assert_array_equal(plain, [3, 5])


def test_profiles_name_layers(tmp_path):  # R3
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(4, in_units=3), nn.Dense(2, in_units=4))
    net.initialize()
    net.hybridize()
    x = nd.ones((1, 3))
    net(x).wait_to_read()
    path = tmp_path / "profile.json"
    profiler.set_config(filename=str(path), profile_all=True)
    profiler.set_state("run")
    net(x).wait_to_read()
    profiler.set_state("stop")
    profiler.dump()
    events = json.loads(path.read_text())["traceEvents"]
    layers = {e.get("args", {}).get("layer") for e in events}
    assert {"net_dense0_fwd", "net_dense1_fwd"} <= layers


def test_memory_is_exchanged_without_a_copy():  # R5
    x = nd.array([1, 2, 3])
    view = np.from_dlpack(x)
    x += 1
    nd.waitall()
    np.testing.assert_array_equal(view, [2, 3, 4])
    for other in (nd.array(5.0).reshape(()), nd.zeros((0, 2))):
        again = nd.from_dlpack(other)
        assert again.shape == other.shape
    half = nd.array([1, 2], dtype="bfloat16")
    assert nd.from_dlpack(half).dtype == half.dtype


def test_bfloat16_rounds_to_even():  # R6
    x = nd.array([1.00390625, 1.01171875], dtype="bfloat16").astype("float32")
    np.testing.assert_array_equal(x.asnumpy(), [1, 1.015625])


def test_steps_that_overflow_are_left_out():  # R6
    from plait.contrib.amp.loss_scaler import LossScaler

    scaler = LossScaler()
    before = scaler.loss_scale
    weight = gluon.Parameter("w", shape=(2,))
    weight.initialize()
    with autograd.record():
        y = weight.data() * np.inf
    y.backward()
    assert scaler.has_overflow([weight])
    assert scaler.loss_scale <= before


def test_fft_of_an_impulse_is_flat():  # R8
    y = nd.contrib.fft(nd.array([[1, 0, 0, 0]])).asnumpy()
    np.testing.assert_array_equal(y[0].reshape(4, 2), [[1, 0]] * 4)


@pytest.mark.parametrize("modern", [False, True])
def test_both_old_ways_of_training_learn_exclusive_or(modern):  # B8, R11
    mx.random.seed(3)
    x = nd.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    labels = nd.array([0, 1, 1, 0])
    if modern:
        net = nn.HybridSequential()
        net.add(nn.Dense(8, activation="tanh"), nn.Dense(2))
        net.initialize(mx.init.Xavier())
        net.hybridize()
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.05})
        loss = gluon.loss.SoftmaxCrossEntropyLoss()
        for _ in range(300):
            with autograd.record():
                error = loss(net(x), labels)
            error.backward()
            trainer.step(4)
        found = net(x)
    else:
        h = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8)
        y = mx.sym.FullyConnected(mx.sym.Activation(h, act_type="tanh"), num_hidden=2)
        module = mx.mod.Module(mx.sym.SoftmaxOutput(y, name="softmax"))
        data = mx.io.NDArrayIter(x, labels, batch_size=4)
        adam = {"learning_rate": 0.05}
        module.fit(data, num_epoch=300, optimizer="adam", optimizer_params=adam,
                   initializer=mx.init.Xavier())  # fmt: skip
        found = module.predict(data)
    np.testing.assert_array_equal(found.argmax(axis=1).asnumpy(), labels.asnumpy())
