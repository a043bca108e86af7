"""The rows of whole networks in PyTorch: eager, channels last, and compiled."""

import os
import shutil
import sys

import net_rows
import torch
import torchvision
from net_rows import CLASSES, HIDDEN, VOCABULARY, WIDTH
from torch import nn

torch.set_num_threads(len(os.sched_getaffinity(0)))
LAST = torch.channels_last


class Words(nn.Module):
    """A language model of words: two layers of LSTM."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, HIDDEN)
        self.lstm = nn.LSTM(HIDDEN, HIDDEN, 2)
        self.classify = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, x):
        return self.classify(self.lstm(self.embed(x))[0])


def transformer():
    layer = nn.TransformerEncoderLayer(
        WIDTH, 12, 4 * WIDTH, dropout=0.1, activation="gelu", batch_first=True
    )
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)


def resnet50():
    """ResNet-50 as first published: the first 1x1 convolution has the stride."""
    net = torchvision.models.resnet50()
    for stage in (net.layer2, net.layer3, net.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
    return net


def mobilenet_v2():
    """MobileNet-v2 as Gluon has it: its first block also has a convolution that would
    expand, and the classifier no bias.
    """
    net = torchvision.models.mobilenet_v2()
    expand = torchvision.ops.Conv2dNormActivation(
        32, 32, kernel_size=1, activation_layer=nn.ReLU6
    )
    net.features[1].conv.insert(0, expand)
    net.classifier[1] = nn.Linear(1280, CLASSES, bias=False)
    return net


def googlenet():
    return torchvision.models.googlenet(aux_logits=False, init_weights=False)


def build(network):
    """The network with its values."""
    here = {
        "lstm": Words,
        "transformer": transformer,
        "resnet50": resnet50,
        "mobilenet_v2": mobilenet_v2,
        "googlenet": googlenet,
    }
    net = (here.get(network) or getattr(torchvision.models, network))()
    with torch.no_grad():
        for position, (name, p) in enumerate(net.named_parameters()):
            is_bias = name.split(".")[-1].startswith(("bias", "in_proj_bias"))
            values = net_rows.parameter(position, tuple(p.shape), is_bias)
            p.copy_(torch.from_numpy(values))
    return net


def trainer_step(net, network, x, labels):
    momentum = 0.0 if network in ("lstm", "transformer") else 0.9
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-5, momentum=momentum)
    loss_of = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        y = net(x)
        if network == "transformer":
            loss = y.square().mean()
        else:
            loss = loss_of(y.flatten(0, -2), labels.flatten())
        loss.backward()
        optimizer.step()

    return step


def predict_step(net, x):
    def step():
        with torch.inference_mode():
            return net(x)

    return step


def compiled(net, x):
    """[("compile", step)], or nothing where no compiler works."""
    if not (shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")):
        print("torch.compile is left out: there is no compiler", file=sys.stderr)
        return []
    step = predict_step(torch.compile(net), x)
    try:
        step()
    except Exception as error:  # whatever a compiler may do
        reason = str(error).strip().splitlines()[0]
        print(f"torch.compile is left out: {reason}", file=sys.stderr)
        return []
    return [("compile", step)]


def prepare(row):
    x, labels = map(torch.from_numpy, net_rows.batch_of(row.network, row.batch))
    net = build(row.network).eval()
    outputs = net_rows.part(predict_step(net, x)().numpy())
    net.train(row.training)
    make = trainer_step if row.training else None

    def one(net, x):
        return make(net, row.network, x, labels) if make else predict_step(net, x)

    variants = [("eager", one(net, x))]
    if row.network not in ("lstm", "transformer"):
        other = build(row.network).train(row.training).to(memory_format=LAST)
        net, x = other, x.contiguous(memory_format=LAST)
        variants.append(("channels last", one(net, x)))
    if not row.training:
        variants += compiled(net, x)
    return outputs, variants


if __name__ == "__main__":
    net_rows.main(prepare)
