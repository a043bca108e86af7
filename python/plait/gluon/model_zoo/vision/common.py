"""What the networks share: features followed by an output, and loading of weights."""

from ....context import cpu
from ...block import HybridBlock


class FeaturesAndOutput(HybridBlock):
    """self.output(self.features(x))."""

    def hybrid_forward(self, F, x):
        return self.output(self.features(x))


def add_all(container, layers):
    """Adds layers one after the other; returns the container."""
    for layer in layers:
        container.add(layer)
    return container


def with_weights(net, name, pretrained, ctx, root):
    """The network, with the weights of a local file where they are wanted."""
    if pretrained:
        from ..model_store import get_model_file

        net.load_parameters(get_model_file(name, root=root), ctx=ctx or cpu())
    return net
