"""The rows in Plait. They also run on MXNet 1.9.1: MODULE=mxnet."""

import importlib
import os

from common import (
    HEAD,
    LENET,
    MLP,
    classes,
    layers,
    main,
    numbers,
    resnet50_shapes,
    row,
)

mx = importlib.import_module(os.environ.get("MODULE", "plait"))
nd, nn = mx.nd, mx.gluon.nn


@row("x = x + b, 4x4")
def add():
    b, state = nd.array(numbers(4, 4, scale=1e-3)), [nd.ones((4, 4))]

    def run(n):
        x = state[0]
        for _ in range(n):
            x = x + b
        state[0] = x
        x.wait_to_read()

    def check():
        run(100)
        return state[0].asnumpy()

    return check, run


@row("x += b, 4x4")
def add_in_place():
    b, x = nd.array(numbers(4, 4, scale=1e-3)), nd.ones((4, 4))

    def run(n):
        y = x
        for _ in range(n):
            y += b
        y.wait_to_read()

    def check():
        run(100)
        return x.asnumpy()

    return check, run


@row("x.sum(), 4x4")
def total():
    x = nd.array(numbers(4, 4))
    kept = [None] * 1000

    def run(n):
        for i in range(n):
            kept[i % 1000] = x.sum()
        nd.waitall()

    return lambda: x.sum().asnumpy(), run


@row("dot(x, y), 4x4")
def dot():
    x, y = nd.array(numbers(4, 4)), nd.array(numbers(4, 4, seed=1))
    kept = [None] * 1000

    def run(n):
        for i in range(n):
            kept[i % 1000] = nd.dot(x, y)
        nd.waitall()

    return lambda: nd.dot(x, y).asnumpy(), run


@row("(w*b).sum() and backward, 4x4")
def backward():
    w, b = nd.array(numbers(4, 4)), nd.array(numbers(4, 4, seed=1))
    w.attach_grad("add")

    def run(n):
        for _ in range(n):
            with mx.autograd.record():
                y = (w * b).sum()
            y.backward()
        w.grad.wait_to_read()

    def check():
        w.grad[:] = 0
        run(3)
        return w.grad.asnumpy()

    return check, run


def update(size):
    def prepare():
        w, g = [nd.array(numbers(size))], nd.array(numbers(size, seed=1))

        def run(n):
            for _ in range(n):
                w[0] -= 0.1 * (g + 1e-4 * w[0])
                w[0].wait_to_read()

        def check():
            run(3)
            return w[0][:1000].asnumpy()

        return check, run

    return prepare


for size, text in ((10**4, "1e4"), (10**6, "1e6"), (25 * 10**6, "25e6")):
    row(f"w -= lr*(g + wd*w), {text}")(update(size))


@row("(w*b).sum(), 25e6")
def large_total():
    w, b = nd.array(numbers(25 * 10**6)), nd.array(numbers(25 * 10**6, seed=1))

    def run(n):
        for _ in range(n):
            (w * b).sum().wait_to_read()

    return lambda: (w * b).mean().asnumpy(), run


@row("mean of (w-b)**2, backward, 25e6")
def large_backward():
    w, b = nd.array(numbers(25 * 10**6)), nd.array(numbers(25 * 10**6, seed=1))
    w.attach_grad()

    def run(n):
        for _ in range(n):
            with mx.autograd.record():
                y = ((w - b) ** 2).mean()
            y.backward()
            w.grad.wait_to_read()

    def check():
        run(1)
        return 1e6 * w.grad[:1000].asnumpy()

    return check, run


def training(net, shapes, x, labels, hybridize=False):
    """Steps of SGD with momentum on one batch; checked by the first three losses."""
    batch = len(labels)
    x, labels = nd.array(x), nd.array(labels)
    net.initialize()
    net(x)
    weighted = [layer for layer in net if hasattr(layer, "weight")]
    for layer, (weight, bias) in zip(weighted, layers(*shapes)):
        layer.weight.set_data(nd.array(weight))
        layer.bias.set_data(nd.array(bias))
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    if hybridize:
        net.hybridize(static_alloc=True, static_shape=True)
        loss_of.hybridize()
    trainer = mx.gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": 0.01, "momentum": 0.9}
    )

    def step():
        with mx.autograd.record():
            loss = loss_of(net(x), labels)
        loss.backward()
        trainer.step(batch)
        return loss

    def run(n):
        for _ in range(n):
            step()
        nd.waitall()

    return lambda: [step().mean().asscalar() for _ in range(3)], run


def mlp(batch, hybridize):
    def prepare():
        net = nn.HybridSequential()
        net.add(nn.Dense(128, "relu"), nn.Dense(64, "relu"), nn.Dense(10))
        return training(net, MLP, numbers(batch, 784), classes(batch), hybridize)

    return prepare


for batch in (1, 32):
    row(f"MLP step, batch {batch}")(mlp(batch, False))
    row(f"MLP step, batch {batch}, hybridized")(mlp(batch, True))


def lenet(hybridize):
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(2, 2),
        nn.Conv2D(50, 5, activation="relu"), nn.MaxPool2D(2, 2),
        nn.Flatten(), nn.Dense(500, "relu"), nn.Dense(10),
    )  # fmt: skip
    return training(net, LENET, numbers(128, 1, 28, 28), classes(128), hybridize)


row("LeNet training, batch 128", "img/s", 128)(lambda: lenet(False))
row("LeNet training, hybridized", "img/s", 128)(lambda: lenet(True))


def pass_over(batches):
    """run and check of an epoch of batches (data, label)."""

    def run(n):
        for _ in range(n):
            for data, _ in batches():
                data.wait_to_read()

    def check():
        return [label.asnumpy().sum() for _, label in batches()][:3]

    return check, run


@row("arrays in batches, DataLoader", "img/s", 12800)
def array_loader():
    data, label = nd.array(numbers(12800, 1, 28, 28)), classes(12800)
    dataset = mx.gluon.data.ArrayDataset(data, label)
    loader = mx.gluon.data.DataLoader(dataset, 128)
    return pass_over(lambda: loader)


@row("arrays in batches, NDArrayIter", "img/s", 12800)
def array_iterator():
    iterator = mx.io.NDArrayIter(numbers(12800, 1, 28, 28), classes(12800), 128)

    def batches():
        iterator.reset()
        return ((batch.data[0], batch.label[0]) for batch in iterator)

    return pass_over(batches)


def optimizer(make):
    def prepare():
        shapes = resnet50_shapes()
        weights = [nd.array(numbers(*s, seed=i)) for i, s in enumerate(shapes)]
        grads = [
            nd.array(numbers(*s, seed=1000 + i, scale=0.01))
            for i, s in enumerate(shapes)
        ]
        update_all = mx.optimizer.get_updater(make())
        indices = list(range(len(shapes)))

        def run(n):
            for _ in range(n):
                update_all(indices, grads, weights)
            nd.waitall()

        def check():
            run(2)
            return [w.reshape(-1)[-1].asscalar() for w in weights]

        return check, run

    return prepare


row("SGD momentum, ResNet-50")(
    optimizer(lambda: mx.optimizer.SGD(learning_rate=0.01, momentum=0.9, wd=1e-4))
)
row("Adam, ResNet-50")(optimizer(lambda: mx.optimizer.Adam(learning_rate=0.001)))


def written_out(q, k, v):
    """Attention where there is no operator for it."""
    q, k, v = (x.reshape((-3, 0, 0)) for x in (q, k, v))
    scores = nd.batch_dot(q, k, transpose_b=True) / HEAD**0.5
    y = nd.batch_dot(nd.softmax(scores), v)
    return y.reshape((-4, 1, -1, 0, 0))


def attention(length, backward):
    def prepare():
        shape = (1, 12, length, HEAD)
        q, k, v, dy = (nd.array(numbers(*shape, seed=i)) for i in range(4))
        fused = getattr(nd.contrib, "dot_product_attention", written_out)
        for x in (q, k, v):
            x.attach_grad()

        def run(n):
            for _ in range(n):
                if backward:
                    with mx.autograd.record():
                        y = fused(q, k, v)
                    y.backward(dy)
                else:
                    y = fused(q, k, v)
                nd.waitall()
            return y

        def check():
            y = run(1)
            some = [y, q.grad, k.grad, v.grad] if backward else [y]
            return [x[0, 3, length // 2].asnumpy() for x in some]

        return check, run

    return prepare


for length in (512, 1024, 4096):
    row(f"attention, T {length}")(attention(length, False))
    row(f"attention and gradients, T {length}")(attention(length, True))

if __name__ == "__main__":
    main()
