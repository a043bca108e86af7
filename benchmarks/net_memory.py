"""Three steps of training a network at batch 16 (SGD with momentum); prints the peak
resident memory of the process in MB. usage: net_memory.py NETWORK; MODULE=plait, mxnet
or torch.
"""

import os
import resource
import sys

import net_rows

BATCH, STEPS = 16, 3


def gluon_step(network):
    import net_gluon

    net = net_gluon.build(network)
    net.initialize(net_gluon.mx.init.Xavier())
    net.hybridize(static_alloc=True, static_shape=True)
    arrays = (net_gluon.nd.array(a) for a in net_rows.batch_of(network, BATCH))
    return net_gluon.trainer_step(net, network, *arrays)


def torch_step(network):
    import net_torch

    net = net_torch.build(network).train()
    arrays = map(net_torch.torch.from_numpy, net_rows.batch_of(network, BATCH))
    return net_torch.trainer_step(net, network, *arrays)


if __name__ == "__main__":
    make = torch_step if os.environ.get("MODULE") == "torch" else gluon_step
    step = make(sys.argv[1])
    for _ in range(STEPS):
        step()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
