"""Several threads run one network at once, with shared weights."""

import threading

import numpy as np

import plait as mx
from plait import gluon, nd, sym

THREADS = 8


def network():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3, activation="relu"))
    net.add(gluon.nn.BatchNorm())
    net.add(gluon.nn.MaxPool2D(2))
    net.add(gluon.nn.Dense(16, activation="tanh"))
    net.add(gluon.nn.Dropout(0.5))
    net.add(gluon.nn.Dense(5))
    net.initialize(mx.init.Xavier())
    return net


def run_in_threads(work):
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:  # shown by the main thread
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(THREADS)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not any(t.is_alive() for t in threads)
    if errors:
        raise errors[0]


def test_one_hybridized_block():
    net = network()
    net.hybridize(static_alloc=True, static_shape=True)
    # Several shapes: threads compile at the same time, too.
    inputs = [nd.random.uniform(shape=(1 + i % 3, 3, 8, 8)) for i in range(THREADS)]
    plain = network()
    plain(inputs[0])
    net(inputs[0])
    for p, q in zip(plain.collect_params().values(), net.collect_params().values()):
        p.set_data(q.data())
    expected = [plain(x).asnumpy() for x in inputs]
    net.hybridize()  # forgets what is compiled

    def work(number):
        for step in range(25):
            i = (number + step) % THREADS
            y = net(inputs[i])
            if step % 3 == 0:
                nd.waitall()
            np.testing.assert_allclose(y.asnumpy(), expected[i], rtol=1e-4, atol=1e-5)

    run_in_threads(work)


def test_first_calls_at_the_same_time():
    for _ in range(5):
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(4, in_units=3), gluon.nn.Dense(2, in_units=4))
        net.initialize()
        net.hybridize()
        x = nd.ones((2, 3))
        results = [None] * THREADS
        start = threading.Barrier(THREADS)

        def work(number, net=net, x=x, results=results, start=start):
            start.wait()
            results[number] = net(x).asnumpy()

        run_in_threads(work)
        for result in results:
            np.testing.assert_array_equal(result, results[0])


def test_one_symbol_in_executors_of_their_own():
    x = sym.var("x")
    out = sym.contrib.foreach(
        lambda item, s: (
            sym.broadcast_add(sym.FullyConnected(item, num_hidden=3, name="fc"), s),
            s + 1,
        ),
        x,
        sym.var("s"),
    )
    graph = sym.softmax(out[0])
    weight, bias = nd.random.normal(shape=(3, 4)), nd.zeros((3,))

    def bind(x):
        return graph.bind(
            mx.cpu(),
            {"x": x, "s": nd.zeros((1,)), "fc_weight": weight, "fc_bias": bias},
        )

    inputs = [nd.random.uniform(shape=(5, 2, 4)) for _ in range(THREADS)]
    expected = [bind(x).forward()[0].asnumpy() for x in inputs]

    def work(number):
        exe = bind(inputs[number])
        for _ in range(30):
            np.testing.assert_allclose(
                exe.forward()[0].asnumpy(), expected[number], rtol=1e-5
            )

    run_in_threads(work)


def test_training_threads_share_weights_but_not_tapes():
    net = gluon.nn.Dense(1, in_units=3, use_bias=False)
    net.initialize(mx.init.One())
    net.hybridize()
    inputs = [nd.full((1, 3), i + 1) for i in range(THREADS)]

    def work(number):
        x = inputs[number].copy()
        x.attach_grad()
        for _ in range(20):
            with mx.autograd.record():
                y = net(x) * (number + 1)
            grad = mx.autograd.grad(y, [x])[0]
            assert grad.asnumpy().tolist() == [[number + 1.0] * 3]

    run_in_threads(work)
