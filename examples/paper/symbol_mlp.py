"""A multilayer perceptron, declared as a symbol and bound to arrays.

A symbol says what is to be computed and holds no numbers: shapes follow from those of
the data, and the memory of a run can be told before anything is allocated. Binding
gives every argument an array; forward() and backward() then fill the outputs and
gradients.
"""

import numpy as np

import plait as mx

data = mx.sym.var("data")
net = mx.sym.FullyConnected(data, num_hidden=64, name="fc1")
net = mx.sym.Activation(net, act_type="relu", name="relu1")
net = mx.sym.FullyConnected(net, num_hidden=10, name="fc2")
net = mx.sym.SoftmaxOutput(net, name="softmax")

print("arguments:", net.list_arguments())
argument_shapes, output_shapes, _ = net.infer_shape(data=(32, 784))
for name, shape in zip(net.list_arguments(), argument_shapes):
    print(f"  {name:13} {shape}")
print("output:", output_shapes[0])

plan = net.memory_plan(data=(32, 784))
print(f"planned: {plan['both']} bytes of {plan['none']}")

executor = net.simple_bind(mx.cpu(), data=(32, 784))
rng = np.random.default_rng(0)
for array in executor.arg_dict.values():
    array[:] = rng.standard_normal(array.shape) * 0.1
executor.arg_dict["softmax_label"][:] = np.arange(32) % 10

probabilities = executor.forward(is_train=True)[0].asnumpy()
print("each row sums to one:", np.allclose(probabilities.sum(axis=1), 1))

# The gradient of the loss with respect to fc2's bias: by hand, and by the executor.
executor.backward()
expected = (probabilities - np.eye(10)[np.arange(32) % 10]).sum(axis=0)
gradient = executor.grad_dict["fc2_bias"].asnumpy()
print("gradient as by hand:", np.allclose(gradient, expected, atol=1e-5))
