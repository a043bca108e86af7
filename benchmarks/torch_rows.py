"""The rows in PyTorch, eager; where it has several variants, the fastest counts."""

import os

import torch
from common import (
    HEAD,
    LENET,
    MLP,
    classes,
    layers,
    main,
    measure,
    numbers,
    resnet50_shapes,
    row,
)
from torch import nn

torch.set_num_threads(len(os.sched_getaffinity(0)))


def tensor(array):
    return torch.from_numpy(array.copy())


def array_loader():
    data = tensor(numbers(12800, 1, 28, 28)), torch.from_numpy(classes(12800))
    dataset = torch.utils.data.TensorDataset(*data)
    loader = torch.utils.data.DataLoader(dataset, 128)

    def run(n):
        for _ in range(n):
            for _ in loader:
                pass

    def check():
        return [label.sum().item() for _, label in loader][:3]

    return check, run


row("arrays in batches, DataLoader", "img/s", 12800)(array_loader)
row("arrays in batches, NDArrayIter", "img/s", 12800)(array_loader)


@row("x = x + b, 4x4")
def add():
    b, state = tensor(numbers(4, 4, scale=1e-3)), [torch.ones(4, 4)]

    def run(n):
        x = state[0]
        for _ in range(n):
            x = x + b
        state[0] = x

    def check():
        run(100)
        return state[0].numpy()

    return check, run


@row("x += b, 4x4")
def add_in_place():
    b, x = tensor(numbers(4, 4, scale=1e-3)), torch.ones(4, 4)

    def run(n):
        y = x
        for _ in range(n):
            y += b

    def check():
        run(100)
        return x.numpy()

    return check, run


@row("x.sum(), 4x4")
def total():
    x = tensor(numbers(4, 4))
    kept = [None] * 1000

    def run(n):
        for i in range(n):
            kept[i % 1000] = x.sum()

    return lambda: x.sum().numpy(), run


@row("dot(x, y), 4x4")
def dot():
    x, y = tensor(numbers(4, 4)), tensor(numbers(4, 4, seed=1))
    kept = [None] * 1000

    def run(n):
        for i in range(n):
            kept[i % 1000] = x @ y

    return lambda: (x @ y).numpy(), run


@row("(w*b).sum() and backward, 4x4")
def backward():
    w, b = tensor(numbers(4, 4)).requires_grad_(), tensor(numbers(4, 4, seed=1))

    def run(n):
        for _ in range(n):
            (w * b).sum().backward()

    def check():
        w.grad = None
        run(3)
        return w.grad.numpy()

    return check, run


def update(size):
    def prepare():
        w, g = [tensor(numbers(size))], tensor(numbers(size, seed=1))

        def run(n):
            for _ in range(n):
                w[0] -= 0.1 * (g + 1e-4 * w[0])

        def check():
            run(3)
            return w[0][:1000].numpy()

        return check, run

    return prepare


for size, text in ((10**4, "1e4"), (10**6, "1e6"), (25 * 10**6, "25e6")):
    row(f"w -= lr*(g + wd*w), {text}")(update(size))


@row("(w*b).sum(), 25e6")
def large_total():
    w, b = tensor(numbers(25 * 10**6)), tensor(numbers(25 * 10**6, seed=1))

    def run(n):
        for _ in range(n):
            (w * b).sum()

    return lambda: (w * b).mean().numpy(), run


@row("mean of (w-b)**2, backward, 25e6")
def large_backward():
    w, b = tensor(numbers(25 * 10**6)), tensor(numbers(25 * 10**6, seed=1))
    w.requires_grad_()

    def run(n):
        for _ in range(n):
            w.grad = None
            ((w - b) ** 2).mean().backward()

    def check():
        run(1)
        return 1e6 * w.grad[:1000].numpy()

    return check, run


def fill(net, shapes):
    linears = [m for m in net if hasattr(m, "weight")]
    for module, (weight, bias) in zip(linears, layers(*shapes)):
        module.weight.data.copy_(tensor(weight))
        module.bias.data.copy_(tensor(bias))


def training(net, shapes, x, labels):
    """Steps of SGD with momentum on one batch; checked by the first three losses."""
    fill(net, shapes)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    x, labels = tensor(x), torch.from_numpy(labels)

    def step():
        optimizer.zero_grad()
        loss = loss_of(net(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    def run(n):
        for _ in range(n):
            step()

    return lambda: [step().item() for _ in range(3)], run


def mlp(batch):
    def prepare():
        net = nn.Sequential(
            nn.Linear(784, 128),
            nn.ReLU(),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )
        return training(net, MLP, numbers(batch, 784), classes(batch))

    return prepare


for batch in (1, 32):
    row(f"MLP step, batch {batch}")(mlp(batch))
    row(f"MLP step, batch {batch}, hybridized")(mlp(batch))


@row("LeNet training, hybridized", "img/s", 128)
@row("LeNet training, batch 128", "img/s", 128)
def lenet():
    net = nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10),
    )  # fmt: skip
    return training(net, LENET, numbers(128, 1, 28, 28), classes(128))


def optimizer(make):
    """The faster of PyTorch's own variants of one optimizer."""

    def prepare():
        best = None
        for variant in ({"foreach": False}, {"foreach": True}, {"fused": True}):
            weights = []
            for i, shape in enumerate(resnet50_shapes()):
                weight = tensor(numbers(*shape, seed=i)).requires_grad_()
                weight.grad = tensor(numbers(*shape, seed=1000 + i, scale=0.01))
                weights.append(weight)
            step = make(weights, **variant).step

            def run(n, step=step):
                for _ in range(n):
                    step()

            def check(weights=weights, run=run):
                run(2)
                return [w.detach().flatten()[-1].item() for w in weights]

            outputs = check()
            seconds = measure(run, times=1)
            if best is None or seconds < best[0]:
                best = seconds, outputs, run
        return lambda: best[1], best[2]

    return prepare


row("SGD momentum, ResNet-50")(
    optimizer(
        lambda w, **v: torch.optim.SGD(w, 0.01, momentum=0.9, weight_decay=1e-4, **v)
    )
)
row("Adam, ResNet-50")(optimizer(lambda w, **v: torch.optim.Adam(w, 0.001, **v)))


def attention(length, backward):
    def prepare():
        shape = (1, 12, length, HEAD)
        q, k, v, dy = (tensor(numbers(*shape, seed=i)) for i in range(4))
        for x in (q, k, v):
            x.requires_grad_(backward)

        def run(n):
            for _ in range(n):
                for x in (q, k, v):
                    x.grad = None
                y = nn.functional.scaled_dot_product_attention(q, k, v)
                if backward:
                    y.backward(dy)
            return y

        def check():
            y = run(1).detach()
            some = [y, q.grad, k.grad, v.grad] if backward else [y]
            return [x[0, 3, length // 2].numpy() for x in some]

        return check, run

    return prepare


for length in (512, 1024, 4096):
    row(f"attention, T {length}")(attention(length, False))
    row(f"attention and gradients, T {length}")(attention(length, True))

if __name__ == "__main__":
    main()
