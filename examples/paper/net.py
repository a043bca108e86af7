"""A small classifier for the loops beside it: weights in one array, gradients in one.

Its parameters are views into the flat array `w`, and their gradients into `g`, so that
`net.w -= eta * net.g` updates all of them.
"""

import numpy as np

import plait as mx


def spirals(count, seed):
    """Points of two spirals (count, 2), and which of them each belongs to."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, count)
    turn = np.sqrt(rng.uniform(size=count)) * 3 * np.pi
    angle = turn + np.pi * label
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], axis=1) / 8
    points += rng.normal(scale=0.02, size=points.shape)
    return points.astype("float32"), label.astype("float32")


def perceptron(hidden=64):
    """Two hidden layers and a softmax over two classes."""
    x = mx.sym.var("data")
    for i in (1, 2):
        x = mx.sym.FullyConnected(x, num_hidden=hidden, name=f"fc{i}")
        x = mx.sym.Activation(x, act_type="tanh", name=f"tanh{i}")
    x = mx.sym.FullyConnected(x, num_hidden=2, name="fc3")
    return mx.sym.SoftmaxOutput(x, normalization="batch", name="softmax")


class Net:
    """perceptron() bound to one batch of data on a device."""

    def __init__(self, points, labels, device=None):
        device = device or mx.cpu()
        symbol = perceptron()
        shapes, _, _ = symbol.infer_shape(data=points.shape)
        arguments = dict(zip(symbol.list_arguments(), shapes))
        self._inputs = {
            "data": mx.nd.array(points, device),
            "softmax_label": mx.nd.array(labels, device),
        }
        names = [name for name in arguments if name not in self._inputs]
        size = sum(int(np.prod(arguments[name])) for name in names)
        self.w = mx.nd.zeros(size, device)
        self.g = mx.nd.zeros(size, device)
        self.parameters, gradients, at = {}, {}, 0
        for name in names:
            end = at + int(np.prod(arguments[name]))
            self.parameters[name] = self.w[at:end].reshape(arguments[name])
            gradients[name] = self.g[at:end].reshape(arguments[name])
            at = end
        self._executor = symbol.bind(
            device, {**self._inputs, **self.parameters}, gradients
        )

    def initialize(self, seed):
        rng = np.random.default_rng(seed)
        for name, array in self.parameters.items():
            scale = array.shape[-1] ** -0.5 if name.endswith("weight") else 0
            array[:] = rng.standard_normal(array.shape) * 1.5 * scale

    def forward_backward(self):
        """Computes the outputs, and the gradients of the loss into g."""
        self._executor.forward(is_train=True)
        self._executor.backward()

    def accuracy(self):
        guesses = self._executor.forward()[0].asnumpy().argmax(axis=1)
        return (guesses == self._inputs["softmax_label"].asnumpy()).mean()
