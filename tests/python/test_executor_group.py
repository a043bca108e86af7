"""DataParallelExecutorGroup as old programs drive it by hand."""

import numpy as np
import pytest

import plait as mx
from plait import nd
from plait.executor_manager import DataParallelExecutorGroup, _split_input_slice


def network(hidden=3):
    x = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=hidden, name="fc")
    x = mx.sym.BatchNorm(x, name="bn")
    return mx.sym.SoftmaxOutput(x, name="softmax")


def group_of(sym, data, devices, shared=None):
    names = sym.list_arguments()
    params = [n for n in names if n not in ("data", "softmax_label")]
    slices = _split_input_slice(data.batch_size, [1] * len(devices))
    return DataParallelExecutorGroup(
        sym, names, params, devices, slices, data, shared_group=shared
    )


def batches(size=8):
    random = np.random.RandomState(0)
    x = random.uniform(-1, 1, (size, 4)).astype("float32")
    return mx.io.NDArrayIter(x, np.arange(size) % 3, batch_size=size)


def test_devices_take_their_slices_and_share_the_work():
    sym, data = network(), batches()
    groups = [group_of(sym, data, [mx.cpu(i) for i in range(n)]) for n in (1, 2)]
    assert groups[1].param_names == ["fc_weight", "fc_bias", "bn_gamma", "bn_beta"]
    weights = [
        nd.random.uniform(-1, 1, shape=p[0].shape) for p in groups[0].param_arrays
    ]
    batch, metric = data.next(), mx.metric.Accuracy()
    for group in groups:
        for weight, places in zip(weights, group.param_arrays):
            for place in places:
                weight.copyto(place)
        group.load_data_batch(batch)
        group.forward(is_train=False)
        group.update_metric(metric, batch.label)
    whole = groups[0].train_execs[0].outputs[0].asnumpy()
    parts = [e.outputs[0].asnumpy() for e in groups[1].train_execs]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-5)
    assert metric.num_inst == 16
    labels = [[label[part] for label in batch.label] for part in groups[1].slices]
    groups[1].update_metric(metric, labels, pre_sliced=True)
    assert metric.num_inst == 24


def test_gradients_lead_to_the_labels():
    sym, data = network(), batches()
    mx.random.seed(1)
    group = group_of(sym, data, [mx.cpu(0), mx.cpu(1)])
    for places in group.param_arrays:
        start = nd.random.uniform(-0.5, 0.5, shape=places[0].shape)
        for place in places:
            start.copyto(place)
    batch = data.next()
    group.load_data_batch(batch)
    accuracy = mx.metric.Accuracy()
    for _ in range(200):
        group.forward(is_train=True)
        group.backward()
        for places, grads in zip(group.param_arrays, group.grad_arrays):
            total = grads[0] + grads[1].as_in_context(mx.cpu(0))
            for place in places:
                place -= 0.1 * total.as_in_context(place.context)
    group.update_metric(accuracy, batch.label)
    assert accuracy.get()[1] == 1
    assert [len(a) for a in group.aux_arrays] == [2, 2]


def test_groups_share_parameters():
    sym, data = network(), batches()
    first = group_of(sym, data, [mx.cpu()])
    second = group_of(sym, batches(4), [mx.cpu()], shared=first)
    first.param_arrays[0][0][:] = 7
    assert (second.param_arrays[0][0].asnumpy() == 7).all()
    assert second.train_execs[0].arg_dict["data"].shape == (4, 4)


def test_names_must_differ():
    x = mx.sym.var("data") + mx.sym.FullyConnected(
        mx.sym.var("data"), mx.sym.var("w"), no_bias=True, num_hidden=4
    )
    with pytest.raises(ValueError, match="two arguments named 'data'"):
        DataParallelExecutorGroup(x, ["data"], [], [mx.cpu()], [slice(0, 8)], batches())
