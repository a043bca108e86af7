"""AlexNet."""

from ... import nn
from .common import FeaturesAndOutput, add_all, with_weights

__all__ = ["AlexNet", "alexnet"]


class AlexNet(FeaturesAndOutput):
    """The network of "One weird trick for parallelizing convolutional
    neural networks".
    """

    def __init__(self, classes=1000, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                add_all(self.features, self._layers())
            self.output = nn.Dense(classes)

    @staticmethod
    def _layers():
        yield nn.Conv2D(64, 11, strides=4, padding=2, activation="relu")
        yield nn.MaxPool2D(3, strides=2)
        yield nn.Conv2D(192, 5, padding=2, activation="relu")
        yield nn.MaxPool2D(3, strides=2)
        yield nn.Conv2D(384, 3, padding=1, activation="relu")
        yield nn.Conv2D(256, 3, padding=1, activation="relu")
        yield nn.Conv2D(256, 3, padding=1, activation="relu")
        yield nn.MaxPool2D(3, strides=2)
        yield nn.Flatten()
        for _ in range(2):
            yield nn.Dense(4096, activation="relu")
            yield nn.Dropout(0.5)


def alexnet(pretrained=False, ctx=None, root=None, **kwargs):
    """AlexNet."""
    return with_weights(AlexNet(**kwargs), "alexnet", pretrained, ctx, root)
