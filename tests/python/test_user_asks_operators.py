"""What users of MXNet suffered from in operators, gradients and training.

Each test names the row of the list of requirements that it stands for (O2, ...).
"""

import numpy as np
import pytest

import plait as mx
from plait import autograd, gluon, nd
from plait.gluon import nn

nan, inf = float("nan"), float("inf")


def gradient(f, *arrays, head=None):
    """The gradients of f's result with respect to the arrays, as NumPy arrays."""
    for x in arrays:
        x.attach_grad()
    with autograd.record():
        y = f(*arrays)
    y.backward(head)
    return [x.grad.asnumpy() for x in arrays]


def test_topk_counts_nan_as_largest():  # O2
    x = nd.array([nan] * 4 + list(range(2500)))
    found = nd.topk(x, k=6, dtype="int64").asnumpy().tolist()
    assert set(found[:4]) == {0, 1, 2, 3} and found[4:] == [2503, 2502]
    assert set(nd.argsort(x, is_ascend=False).asnumpy()[:4]) == {0, 1, 2, 3}
    assert np.isnan(nd.sort(x, is_ascend=True).asnumpy()[-4:]).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int8"])
def test_reductions_start_from_the_lowest_value(dtype):  # O3
    x = nd.array([-3, -1, -2], dtype=dtype)
    assert nd.argmax(x, axis=0).asscalar() == 1
    assert nd.argmin(-x, axis=0).asscalar() == 1
    assert x.max().asscalar() == -1 and (-x).min().asscalar() == 1


def test_the_lowest_half_is_a_maximum():  # O3
    assert nd.array([-65504], dtype="float16").max().asscalar() == -65504


@pytest.mark.parametrize("n", [1, 7, 8, 15, 16, 17, 64, 127])
def test_nan_counts_from_either_side(n):  # O4
    x, y = nd.full((n,), nan), nd.full((n,), 3.0)
    for f in (nd.maximum, nd.minimum, nd.broadcast_maximum, nd.broadcast_minimum):
        assert np.isnan(f(x, y).asnumpy()).all() and np.isnan(f(y, x).asnumpy()).all()
    assert np.isnan(nd.relu(x).asnumpy()).all()
    assert np.isnan(nd.maximum(x, 3).asnumpy()).all()
    data = np.ones(n + 2, "float32")
    data[n // 2] = nan
    assert np.isnan(nd.array(data).max().asscalar())
    assert np.isnan(nd.array(data).min().asscalar())


def test_gradient_of_relu_passes_nan_on():  # O4
    (dx,) = gradient(nd.relu, nd.array([nan, -1, 0, 2]))
    np.testing.assert_equal(dx, [nan, 0, 0, 1])
    (dx,) = gradient(
        lambda x: nd.Activation(x, act_type="relu"), nd.array([nan, -1, 0, 2])
    )
    np.testing.assert_equal(dx, [nan, 0, 0, 1])


@pytest.mark.parametrize("n", [2, 3, 100, 4097])
def test_sums_of_infinities(n):  # O5
    x = nd.full((n,), inf)
    assert x.sum().asscalar() == inf and x.mean().asscalar() == inf
    assert x.min().asscalar() == inf and (-x).max().asscalar() == -inf
    y = np.zeros(n, "float32")
    y[0], y[-1] = inf, -inf
    assert np.isnan(nd.array(y).sum().asscalar())


def test_argmax_over_an_axis_of_size_one():  # O6
    x = nd.array([[1, 2, 3]])
    assert nd.argmax(x, axis=0).asnumpy().tolist() == [0, 0, 0]
    assert nd.argmin(x, axis=0).asnumpy().tolist() == [0, 0, 0]
    assert nd.argmax(x.reshape((3, 1)), axis=1).asnumpy().tolist() == [0, 0, 0]


def test_mean_of_halves_does_not_overflow():  # O8
    x = nd.full((100,), 1000, dtype="float16")
    assert x.mean().asscalar() == 1000 and x.dtype == np.float16
    assert nd.full((4096,), 0.25, dtype="float16").sum().asscalar() == 1024


def test_dtype_of_sums():  # O10
    values = [10504983, 1, 2, 3, 0.5, 10]
    assert nd.array(values).dtype == np.float32
    assert nd.array(values).sum().asscalar() == 10505000
    assert nd.array(values, dtype="float64").sum().asscalar() == 10504999.5


def test_large_integers_are_exact():  # O11
    a = nd.array([1, 2, 3], dtype="int32")
    a[1] = 16800001
    assert a.asnumpy().tolist() == [1, 16800001, 3]
    big = nd.array([50000001], dtype="int32")
    for f in (nd.floor, nd.ceil, nd.round, nd.rint, nd.trunc, nd.fix):
        assert f(big).asscalar() == 50000001
    wide = nd.array([2**53 + 1], dtype="int64")
    assert (wide + 1).asscalar() == 2**53 + 2


def test_argsort_of_large_batches_are_permutations():  # O12
    x = nd.random.uniform(shape=(64, 2048))
    order = nd.argsort(x, axis=1, dtype="int64").asnumpy()
    assert (np.sort(order, axis=1) == np.arange(2048)).all()
    assert (nd.arange(20000).asnumpy() == np.arange(20000)).all()


def test_indices_past_the_exact_floats():  # O13
    n = 2**24 + 2
    x = nd.zeros((n,))
    x[n - 1] = 1
    assert nd.topk(x, k=1, dtype="int64").asscalar() == n - 1


def test_negative_indices():  # O18
    x = nd.array([[1, 2, 3], [4, 5, 6]])
    assert x[-1, :].asnumpy().tolist() == [4, 5, 6]
    assert x[:, -1].asnumpy().tolist() == [3, 6]
    assert x[-1, -1].asscalar() == 6
    y = nd.arange(16).reshape((4, 4))
    assert y[1:-1].asnumpy().tolist() == [[4, 5, 6, 7], [8, 9, 10, 11]]
    with pytest.raises(IndexError):
        x[2]
    with pytest.raises(IndexError):
        x[0, -4]


def test_slices_backwards():  # O19
    a = nd.arange(4)
    assert nd.slice(a, begin=2, end=None, step=-1).asnumpy().tolist() == [2, 1, 0]
    assert a[::-1].asnumpy().tolist() == [3, 2, 1, 0]
    assert a[3:0:-2].asnumpy().tolist() == [3, 1]


def test_reshape_keeps_the_number_of_elements():  # O20
    for recording in (False, True):
        with autograd.record() if recording else autograd.pause():
            with pytest.raises(ValueError):
                nd.arange(10).reshape((1, 2))
            with pytest.raises(ValueError):
                nd.arange(27).reshape((3, 3, 3)).reshape((3, 3))


def test_wrong_shapes_are_errors():  # O21
    with pytest.raises(ValueError):
        nd.zeros((-1,))
    with pytest.raises(ValueError):
        nd.zeros((2, 3)) + nd.zeros((4,))
    with pytest.raises(ValueError):
        nd.elemwise_add(nd.zeros((2, 3)), nd.zeros((3, 2)))


def test_zero_parameters_are_errors():  # O23
    with pytest.raises(mx.MXNetError):
        nd.GroupNorm(
            nd.ones((1, 4, 2)), nd.ones(4), nd.zeros(4), num_groups=0
        ).asnumpy()
    with pytest.raises(mx.MXNetError):
        nd.split(nd.ones((1, 4)), num_outputs=0)
    with pytest.raises(mx.MXNetError):
        nd.Pooling(nd.ones((1, 1, 4, 4)), kernel=(0, 0), pool_type="max").asnumpy()
    with pytest.raises(mx.MXNetError):
        nd.Convolution(
            nd.ones((1, 1, 4, 4)),
            nd.ones((1, 1, 2, 2)),
            kernel=(2, 2),
            stride=(0, 0),
            num_filter=1,
            no_bias=True,
        ).asnumpy()


def test_assignment_to_a_mixed_index():  # O24
    x = nd.zeros((1, 3, 1))
    x[0, :3, 0] = [1, 2, 3]
    assert x.asnumpy().ravel().tolist() == [1, 2, 3]
    x[0, [0, 2], 0] = nd.array([7, 9])
    assert x.asnumpy().ravel().tolist() == [7, 2, 9]


def test_softmax_does_not_depend_on_the_length():  # O26
    outcomes = set()
    for n in (1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 127, 128, 129, 255, 256, 257):
        y = nd.softmax(nd.full((2, n), -inf)).asnumpy()
        outcomes.add(str(np.unique(np.isnan(y))))
    assert len(outcomes) == 1
    x = nd.random.uniform(shape=(5, 9))
    np.testing.assert_allclose(nd.softmax(x[:, :2]).sum(axis=1).asnumpy(), 1, 1e-6)


def test_fixed_gamma_does_not_pile_up_gradients():  # O30
    norm = nn.BatchNorm(scale=False, in_channels=3)
    norm.initialize()
    for _ in range(3):
        with autograd.record():
            y = norm(nd.ones((1, 3, 1, 1)))
        y.backward()
        assert norm.beta.grad().asnumpy().tolist() == [1, 1, 1]


def test_fixed_gamma_stays_one(tmp_path):  # O32
    norm = nn.BatchNorm(scale=False, in_channels=4)
    norm.initialize()
    trainer = gluon.Trainer(
        norm.collect_params(), "sgd", {"learning_rate": 0.1, "wd": 0.1}
    )
    for _ in range(5):
        with autograd.record():
            y = norm(nd.random.uniform(shape=(2, 4, 3, 3))).sum()
        y.backward()
        trainer.step(2)
    norm.save_parameters(str(tmp_path / "norm.params"))
    saved = nd.load(str(tmp_path / "norm.params"))
    assert saved["gamma"].asnumpy().tolist() == [1] * 4


@pytest.mark.parametrize(
    "f",
    [
        nd.softmax,
        lambda x: nd.swapaxes(x, 0, 1),
        lambda x: nd.take(x, nd.array([0, 0])),
    ],
)
def test_gradients_are_added(f):  # O34
    x = nd.random.uniform(shape=(3, 3))
    x.attach_grad()
    head = nd.random.uniform(shape=f(x).shape)
    with autograd.record():
        y = f(x)
    y.backward(head)
    once = x.grad.asnumpy()
    x.attach_grad(grad_req="add")
    x.grad[:] = 5
    for _ in range(2):
        with autograd.record():
            y = f(x)
        y.backward(head)
    np.testing.assert_allclose(x.grad.asnumpy(), 5 + 2 * once, rtol=1e-5)


def test_sums_into_an_input():  # O34
    a, b = nd.array([1.0]), nd.array([2.0])
    nd.add_n(a, b, out=a)
    assert a.asscalar() == 3
    nd.elemwise_add(a, a, out=a)
    assert a.asscalar() == 6


def test_gradient_of_take_counts_duplicates():  # O35
    (dx,) = gradient(lambda x: nd.take(x, nd.array([0, 0, 2])), nd.ones((3, 2)))
    assert dx.tolist() == [[2, 2], [0, 0], [1, 1]]


@pytest.mark.parametrize("f,at,expected", [(nd.square, 3, 2), (lambda x: x**3, 2, 12)])
def test_second_derivatives(f, at, expected):  # O38
    x = nd.array([at])
    x.attach_grad()
    with autograd.record():
        dx = autograd.grad(f(x), x, create_graph=True)[0]
    dx.backward()
    assert x.grad.asscalar() == expected


def test_gradient_penalty_through_a_convolution():  # O38
    x = nd.random.uniform(-1, 1, shape=(1, 2, 5, 5), dtype="float64")
    w = nd.random.uniform(-1, 1, shape=(3, 2, 3, 3), dtype="float64")

    def penalty(w):
        x.attach_grad()
        with autograd.record():
            y = nd.Convolution(x, w, kernel=(3, 3), num_filter=3, no_bias=True)
            dx = autograd.grad(nd.tanh(y), x, create_graph=True)[0]
            return nd.square(dx).sum()

    w.attach_grad()
    with autograd.record():
        loss = penalty(w)
    loss.backward()
    direction = nd.random.uniform(-1, 1, shape=w.shape, dtype="float64")
    step = 1e-5
    change = (penalty(w + direction * step) - penalty(w - direction * step)) / step / 2
    np.testing.assert_allclose(
        (w.grad * direction).sum().asscalar(), change.asscalar(), rtol=1e-5
    )


def test_indices_out_of_range():  # O42
    x = nd.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    index = nd.array([-1, 1000])
    assert nd.pick(x, index).asnumpy().tolist() == [1, 8]
    assert nd.pick(x, index, mode="wrap").asnumpy().tolist() == [4, 5]
    weight = nd.ones((3, 2))
    nd.Embedding(
        nd.array([-1, 0, 99]), weight, input_dim=3, output_dim=2
    ).wait_to_read()


def test_categorical_samples_are_in_range():  # O43
    p = nd.array([1.2, 9.4, 8.8])
    draws = nd.random.multinomial(p / p.sum(), shape=10000).asnumpy()
    assert set(draws.tolist()) == {0, 1, 2}
    draws = nd.random.multinomial(nd.array([0, 0, 1, 0]), shape=100).asnumpy()
    assert set(draws.tolist()) == {2}


@pytest.mark.parametrize(
    "dtype, most", [("uint8", 256), ("float16", 2049), ("float32", 2**24 + 1)]
)
def test_indices_that_a_dtype_cannot_hold_are_refused(dtype, most):  # O43
    with pytest.raises(ValueError, match=f"at most {most}"):
        nd.random.multinomial(nd.ones(most + 1), dtype=dtype)
    assert 0 <= nd.random.multinomial(nd.ones(most), dtype=dtype).asscalar() < most


def test_dropout_of_nothing_is_the_identity():  # O44
    with autograd.record():
        y = nd.Dropout(nd.ones((1000, 1000)), p=0)
    assert (y.asnumpy() == 1).all()


def test_inference_does_not_move_the_dropout_mask():  # O44
    masks = []
    for calls in (0, 3):
        mx.random.seed(7)
        x = nd.ones((1000,))
        for _ in range(calls):
            nd.Dropout(x, p=0.5)
        with autograd.record():
            masks.append(nd.Dropout(x, p=0.5).asnumpy())
    assert (masks[0] == masks[1]).all()


def test_recurrent_layers_equal_their_cells():  # O45
    layer = gluon.rnn.LSTM(4, input_size=3)
    layer.initialize(mx.init.Uniform(0.5))
    cell = gluon.rnn.LSTMCell(4, input_size=3)
    cell.initialize()
    for name in ("i2h_weight", "h2h_weight", "i2h_bias", "h2h_bias"):
        getattr(cell, name).set_data(getattr(layer, "l0_" + name).data())
    x = nd.random.uniform(shape=(5, 2, 3))
    expected, _ = cell.unroll(5, x, layout="TNC", merge_outputs=True)
    np.testing.assert_allclose(layer(x).asnumpy(), expected.asnumpy(), 1e-5, 1e-6)


def test_softmax_output_with_valid_normalisation():  # O46
    x = nd.array([[1, 6, 4, 2]] * 2)
    (dx,) = gradient(
        lambda x: nd.SoftmaxOutput(
            x,
            nd.array([1, 1]),
            ignore_label=0,
            use_ignore=True,
            normalization="valid",
        ),
        x,
    )
    expected = [0.0029033, -0.0691100, 0.0583146, 0.0078920]
    np.testing.assert_allclose(dx, [expected] * 2, atol=1e-6)


def test_gradients_of_saturating_functions():  # O48
    (dx,) = gradient(
        lambda x: nd.LeakyReLU(x, act_type="elu", slope=1.0), nd.array([100, -1.0])
    )
    np.testing.assert_allclose(dx, [1, 0.3678794], rtol=1e-6)
    (dx,) = gradient(
        lambda x: nd.LeakyReLU(x, act_type="gelu"), nd.array([100, -100.0])
    )
    np.testing.assert_allclose(dx, [1, 0], atol=1e-6)
    (dx,) = gradient(lambda x: nd.where(x > 0, x, nd.exp(x)), nd.array([100.0]))
    assert dx.tolist() == [1]


@pytest.mark.parametrize(
    "name,params,w,g,expected",
    [
        ("adam", {"learning_rate": 0.001}, 1, 0.1, 0.99900000316),
        ("sgd", {"learning_rate": 0.1, "wd": 0.1}, 1, 0, 0.99),
    ],
)
def test_order_of_decay_and_update(name, params, w, g, expected):  # O49
    optimizer = mx.optimizer.create(name, **params)
    weight, grad = nd.array([w]), nd.array([g])
    optimizer.update(0, weight, grad, optimizer.create_state(0, weight))
    np.testing.assert_allclose(weight.asscalar(), expected, rtol=1e-6)


def test_states_resume_to_the_same_bits(tmp_path):  # O50
    def build():
        mx.random.seed(4)
        net = nn.Dense(3, in_units=4)
        net.initialize(mx.init.Xavier())
        return net, gluon.Trainer(net.collect_params(), "adam")

    def steps(net, trainer, n):
        for i in range(n):
            with autograd.record():
                y = net(nd.ones((2, 4)) * (i + 1)).square().sum()
            y.backward()
            trainer.step(2)

    net, trainer = build()
    steps(net, trainer, 3)
    net.save_parameters(str(tmp_path / "net"))
    trainer.save_states(str(tmp_path / "trainer"))
    steps(net, trainer, 3)
    again, resumed = build()
    again.load_parameters(str(tmp_path / "net"))
    resumed.load_states(str(tmp_path / "trainer"))
    steps(again, resumed, 3)
    assert (net.weight.data().asnumpy() == again.weight.data().asnumpy()).all()


def test_f1_of_column_labels():  # O51
    metric = mx.metric.F1()
    classes = nd.array([1, 1, 0, 1])
    predictions = nd.stack(1 - classes, classes, axis=1)
    metric.update([nd.array([[1], [0], [1], [1]])], [predictions])
    assert metric.get()[1] == pytest.approx(2 / 3)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("wrong", [nan, 2.0, inf])
def test_comparison_of_large_arrays_finds_one_element(dtype, wrong):
    a = nd.ones((100, 100), dtype=dtype)
    b = a.copy()
    mx.test_utils.assert_almost_equal(a, b)
    b[50, 50] = wrong
    with pytest.raises(AssertionError):
        mx.test_utils.assert_almost_equal(a, b)
    with pytest.raises(AssertionError):
        mx.test_utils.assert_almost_equal(b, a)


def test_zipfian_draws():
    true = nd.array([0, 3, 19], dtype="int32")
    drawn, of_true, of_drawn = nd.contrib.rand_zipfian(true, 20000, 20)
    share = np.log((np.arange(20) + 2) / (np.arange(20) + 1.0)) / np.log(21)
    counts = np.bincount(drawn.asnumpy(), minlength=20)
    np.testing.assert_allclose(counts, share * 20000, rtol=0.2)
    np.testing.assert_allclose(of_true.asnumpy(), share[[0, 3, 19]] * 20000, 1e-6)
    np.testing.assert_allclose(of_drawn.asnumpy(), share[drawn.asnumpy()] * 20000, 1e-6)


def test_stored_gamma_is_set_to_one_where_it_is_fixed():  # O32
    gamma, rest = nd.array([5, 0.5]), [nd.zeros(2), nd.zeros(2), nd.ones(2)]
    x = nd.random.uniform(shape=(3, 2))
    nd.BatchNorm(x, gamma, *rest, fix_gamma=True)
    assert gamma.asnumpy().tolist() == [5, 0.5]  # a prediction changes nothing
    with autograd.train_mode():
        nd.BatchNorm(x, gamma, *rest, fix_gamma=True)
    assert gamma.asnumpy().tolist() == [1, 1]


def test_dtypes_may_be_mixed():  # O15
    x = nd.ones((2, 2), dtype="int32") * nd.ones((2, 2), dtype="int64")
    assert x.dtype == np.int64 and (x.asnumpy() == 1).all()
    floats, ints = nd.array([0, 1]), nd.array([0, 1], dtype="int32")
    assert (floats == ints).asnumpy().tolist() == [1, 1]
    assert (floats != ints).asnumpy().tolist() == [0, 0]
    wide = nd.array([2.5], dtype="float64") + nd.array([1], dtype="float16")
    assert wide.dtype == np.float64 and wide.asscalar() == 3.5
    ints = nd.ones((2, 2), dtype="int32")
    for f in (
        nd.dot,
        lambda x, y: nd.batch_dot(x.reshape((1, 2, 2)), y.reshape((1, 2, 2))),
    ):
        product = f(ints, nd.ones((2, 2)))
        assert product.dtype == np.float32 and (product.asnumpy() == 2).all()


def test_mixed_dtypes_have_gradients_of_their_own_dtype():  # O15
    x, y = nd.array([1, 2], dtype="float16"), nd.array([3, 4], dtype="float64")
    x.attach_grad()
    y.attach_grad()
    with autograd.record():
        z = x * y * nd.array([2, 2], dtype="int32")
    z.backward()
    assert z.dtype == np.float64
    assert x.grad.dtype == np.float16 and x.grad.asnumpy().tolist() == [6, 8]
    assert y.grad.dtype == np.float64 and y.grad.asnumpy().tolist() == [2, 4]
    with autograd.record():
        z = nd.dot(x, y)
    z.backward()
    assert z.dtype == np.float64 and z.asscalar() == 11
    assert x.grad.dtype == np.float16 and x.grad.asnumpy().tolist() == [3, 4]
    assert y.grad.dtype == np.float64 and y.grad.asnumpy().tolist() == [1, 2]


def free_memory():
    """Bytes that this machine could give a process now."""
    try:
        with open("/proc/meminfo") as f:
            rows = dict(line.split(":") for line in f)
        return int(rows["MemAvailable"].split()[0]) << 10
    except OSError:
        return 0


@pytest.mark.skipif(free_memory() < 7 << 30, reason="needs 7 GB of memory")
def test_more_elements_than_31_bits_count():  # O27
    a = nd.zeros((2, 2**31), dtype="int8")
    a[1, -1] = 1
    assert a[1, -1].asscalar() == 1 and a[0, -1].asscalar() == 0
    assert nd.sum(a, dtype="int64").asscalar() == 1
    assert a.size == 2**32 and a.reshape((-1,))[2**32 - 1].asscalar() == 1
    del a
    b = nd.array(np.arange(4).reshape(4, 1, 1, 1, 1), dtype="int8")
    big = nd.broadcast_to(b, shape=(4, 256, 1, 100, 25600))
    assert big.size == 2621440000
    assert big[3, 255, 0, 99, 25599].asscalar() == 3
    assert big[2, 0, 0, 0, 0].asscalar() == 2
    mx.cpu().empty_cache()


def test_extremes_of_nothing_are_errors():  # O23
    for f in (nd.max, nd.min):
        with pytest.raises(ValueError, match="no elements"):
            f(nd.zeros((5, 0)))
        with pytest.raises(ValueError, match="no elements"):
            f(nd.zeros((5, 0)), axis=1)
        assert f(nd.zeros((5, 0)), axis=0).shape == (0,)


def test_arange_of_integers_follows_numpy():
    for config in ((1.3, 456.6, 1.3), (-5, 5, 2), (5, -5, -2)):
        expected = np.arange(*config, dtype="int32")
        assert (nd.arange(*config, dtype="int32").asnumpy() == expected).all()


def test_slopes_along_the_first_axes():
    x = nd.array(np.random.RandomState(0).normal(size=(2, 3, 2, 2)))
    slopes = nd.array([[0.1, 0.2, 0.3], [1, 2, 3]])
    y = nd.LeakyReLU(x, slopes, act_type="prelu").asnumpy()
    n = x.asnumpy()
    expected = np.where(n > 0, n, n * slopes.asnumpy()[:, :, None, None])
    np.testing.assert_allclose(y, expected, 1e-6)


def test_the_number_of_arrays_need_not_be_given():
    x, y = nd.ones((1, 2, 4, 4)), nd.ones((1, 2, 2, 2))
    assert nd.UpSampling(x, scale=2, sample_type="nearest").shape == (1, 2, 8, 8)
    assert nd.UpSampling(y, y, scale=3, sample_type="nearest").shape == (1, 4, 6, 6)
    assert nd.Crop(x, h_w=(2, 3)).shape == (1, 2, 2, 3)
    assert nd.Crop(x, y).shape == (1, 2, 2, 2)
    assert nd.concat(x, x, dim=1).shape == (1, 4, 4, 4)
    assert nd.stack(y, y).shape == (2, 1, 2, 2, 2)
    assert nd.add_n(x, x, x)[0, 0, 0, 0].asscalar() == 3
    net = gluon.nn.HybridLambda(
        lambda F, x: F.UpSampling(x, scale=2, sample_type="nearest")
    )
    net.hybridize()
    assert net(x).shape == (1, 2, 8, 8)


def test_power_takes_its_arguments_by_name():
    x = nd.array([2.0, 3.0])
    np.testing.assert_array_equal(nd.power(base=x, exp=2).asnumpy(), [4, 9])
    np.testing.assert_array_equal(nd.power(exp=x, base=2).asnumpy(), [4, 8])
    y = mx.sym.pow(base=mx.sym.var("x"), exp=3) + mx.sym.power(2, mx.sym.var("x"))
    (out,) = y.bind(mx.cpu(), {"x": x}).forward()
    np.testing.assert_array_equal(out.asnumpy(), [12, 35])
    assert mx.sym.power(2, 3) == 8 and nd.power(2, 3) == 8


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_the_largest_in_long_rows(name, dtype):  # F2: blocks, tails, NaN
    rng = np.random.RandomState(0)
    for n in (1, 7, 1023, 1024, 1025, 5000):
        x = rng.uniform(0, 100, (4, n)).astype(dtype)
        x[1, n // 2] = x[1].max()
        x[2] = x[2, 0]  # the first of equal ones
        if dtype.startswith("f") and n > 7:
            x[3, n // 2] = x[3, n - 1] = x[0, 0] = np.nan
        found = getattr(nd, name)(nd.array(x, dtype=dtype), axis=1, dtype="int64")
        np.testing.assert_array_equal(found.asnumpy(), getattr(np, name)(x, axis=1))
