"""More layers: concurrent branches, identity, pixel shuffles, batch norm across
devices.
"""

import warnings

from .... import context
from .... import ndarray as nd
from ...block import Block, HybridBlock
from ...nn import BatchNorm, HybridSequential, Sequential

__all__ = [
    "Concurrent",
    "HybridConcurrent",
    "Identity",
    "SparseEmbedding",
    "SyncBatchNorm",
    "PixelShuffle1D",
    "PixelShuffle2D",
    "PixelShuffle3D",
]


class Concurrent(Sequential):
    """Gives its input to every child and joins the outputs along `axis`."""

    def __init__(self, axis=-1, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def forward(self, x):
        return nd.concat(
            *[block(x) for block in self._children.values()], dim=self.axis
        )


class HybridConcurrent(HybridSequential):
    """Gives its input to every child and joins the outputs along `axis`."""

    def __init__(self, axis=-1, prefix=None, params=None):
        super().__init__(prefix=prefix, params=params)
        self.axis = axis

    def hybrid_forward(self, F, x):
        return F.concat(*[block(x) for block in self._children.values()], dim=self.axis)


class Identity(HybridBlock):
    """x."""

    def hybrid_forward(self, F, x):
        return x


class SparseEmbedding(Block):
    """An embedding whose table and gradient are row_sparse, for training
    over a store.
    """

    def __init__(
        self, input_dim, output_dim, dtype="float32", weight_initializer=None, **kwargs
    ):
        super().__init__(**kwargs)
        self._kwargs = {
            "input_dim": input_dim,
            "output_dim": output_dim,
            "dtype": dtype,
            "sparse_grad": True,
        }
        self.weight = self.params.get(
            "weight",
            shape=(input_dim, output_dim),
            dtype=dtype,
            init=weight_initializer,
            grad_stype="row_sparse",
            stype="row_sparse",
        )

    def forward(self, x):
        return nd.Embedding(
            x, self.weight.row_sparse_data(x), name="fwd", **self._kwargs
        )

    def __repr__(self):
        return "%s(%d -> %d, %s)" % (
            type(self).__name__,
            self._kwargs["input_dim"],
            self._kwargs["output_dim"],
            self._kwargs["dtype"],
        )


class SyncBatchNorm(BatchNorm):
    """BatchNorm with the statistics of the batches of all devices."""

    def __init__(
        self,
        in_channels=0,
        num_devices=None,
        momentum=0.9,
        epsilon=1e-5,
        center=True,
        scale=True,
        use_global_stats=False,
        beta_initializer="zeros",
        gamma_initializer="ones",
        running_mean_initializer="zeros",
        running_variance_initializer="ones",
        **kwargs,
    ):
        super().__init__(
            axis=1,
            momentum=momentum,
            epsilon=epsilon,
            center=center,
            scale=scale,
            use_global_stats=use_global_stats,
            beta_initializer=beta_initializer,
            gamma_initializer=gamma_initializer,
            running_mean_initializer=running_mean_initializer,
            running_variance_initializer=running_variance_initializer,
            in_channels=in_channels,
            **kwargs,
        )
        if num_devices is None:
            warnings.warn(
                "Caution using SyncBatchNorm: if not using all the GPUs, please "
                "mannually set num_devices",
                UserWarning,
                stacklevel=2,
            )
            num_devices = max(1, context.num_gpus())
        self._options = {
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        self._devices = num_devices

    def hybrid_forward(self, F, x, gamma, beta, running_mean, running_var):
        arrays = (x, gamma, beta, running_mean, running_var)
        if self._devices == 1:
            return F.BatchNorm(*arrays, name="fwd", **self._options)
        return F.contrib.SyncBatchNorm(
            *arrays, name="fwd", ndev=self._devices, key=self.prefix, **self._options
        )


def _factors(factor, dims):
    """One factor for each of `dims` axes, from a number or a sequence."""
    try:
        return (int(factor),) * dims
    except TypeError:
        factors = tuple(int(f) for f in factor)
        assert len(factors) == dims, "wrong length %d" % len(factors)
        return factors


class PixelShuffle1D(HybridBlock):
    """(N, f*C, W) to (N, C, W*f)."""

    def __init__(self, factor):
        super().__init__()
        self._factor = int(factor)

    def hybrid_forward(self, F, x):
        x = F.reshape(x, (0, -4, -1, self._factor, 0))  # N, C, f, W
        x = F.transpose(x, (0, 1, 3, 2))  # N, C, W, f
        return F.reshape(x, (0, 0, -3))

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, self._factor)


class PixelShuffle2D(HybridBlock):
    """(N, f1*f2*C, H, W) to (N, C, H*f1, W*f2)."""

    def __init__(self, factor):
        super().__init__()
        self._factors = _factors(factor, 2)

    def hybrid_forward(self, F, x):
        f1, f2 = self._factors
        x = F.reshape(x, (0, -4, -1, f1 * f2, 0, 0))
        x = F.reshape(x, (0, 0, -4, f1, f2, 0, 0))  # N, C, f1, f2, H, W
        x = F.transpose(x, (0, 1, 4, 2, 5, 3))  # N, C, H, f1, W, f2
        return F.reshape(x, (0, 0, -3, -3))

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, self._factors)


class PixelShuffle3D(HybridBlock):
    """(N, f1*f2*f3*C, D, H, W) to (N, C, D*f1, H*f2, W*f3)."""

    def __init__(self, factor):
        super().__init__()
        self._factors = _factors(factor, 3)

    def hybrid_forward(self, F, x):
        # One factor at a time: no step may have more than six axes.
        f1, f2, f3 = self._factors
        x = F.reshape(x, (0, -4, -1, f1 * f2 * f3, 0, 0, 0))
        x = F.swapaxes(x, 2, 3)  # N, C, D, f1*f2*f3, H, W
        x = F.reshape(x, (0, 0, 0, -4, f1, f2 * f3, 0, 0))
        x = F.reshape(x, (0, 0, -3, 0, 0, 0))  # N, C, D*f1, f2*f3, H, W
        x = F.swapaxes(x, 3, 4)
        x = F.reshape(x, (0, 0, 0, 0, -4, f2, f3, 0))
        x = F.reshape(x, (0, 0, 0, -3, 0, 0))  # N, C, D*f1, H*f2, f3, W
        x = F.swapaxes(x, 4, 5)
        return F.reshape(x, (0, 0, 0, 0, -3))

    def __repr__(self):
        return "%s(%s)" % (type(self).__name__, self._factors)
