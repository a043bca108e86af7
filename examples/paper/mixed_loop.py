"""A declarative network and imperative arrays in one training loop.

net.forward_backward() runs a planned graph; the update of the weights is a line of
array arithmetic, which becomes one pass over memory. Both only hand their work to the
engine. It knows what each of them reads and writes: so the update waits for the
gradients, and the next pass for the update.
"""

from net import Net, spirals

import plait as mx

points, labels = spirals(400, seed=1)
net = Net(points, labels)
net.initialize(seed=1)
eta = 0.5

for step in range(1, 1501):
    net.forward_backward()
    net.w -= eta * net.g
    if step % 500 == 0:
        print(f"step {step}: accuracy {net.accuracy():.1f}")

mx.nd.waitall()
print("parameters in one array:", net.w.shape)
