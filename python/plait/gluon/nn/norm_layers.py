"""Normalisation layers: batch, instance, layer and group."""

import numpy as np

from ..block import HybridBlock


class _Norm(HybridBlock):
    """What the layers share: gamma and beta, and a repr made of the options."""

    def _add_scale_and_shift(
        self, size, scale, center, gamma_initializer, beta_initializer, fixed=False
    ):
        """Makes gamma and beta. fixed: without scale (center), no gradient ever."""
        self.gamma = self.params.get(
            "gamma",
            grad_req="write" if scale else "null",
            shape=(size,),
            init=gamma_initializer,
            allow_deferred_init=True,
            differentiable=scale or not fixed,
        )
        self.beta = self.params.get(
            "beta",
            grad_req="write" if center else "null",
            shape=(size,),
            init=beta_initializer,
            allow_deferred_init=True,
            differentiable=center or not fixed,
        )

    def __repr__(self):
        options = ", ".join("%s=%r" % item for item in self._kwargs.items())
        return "%s(%s, in_channels=%s)" % (
            type(self).__name__,
            options,
            self.gamma.shape[0] or None,
        )


class _BatchNorm(_Norm):
    """Batch normalisation, with ReLU in the same operator where fuse_relu is set."""

    def __init__(
        self,
        axis=1,
        momentum=0.9,
        epsilon=1e-5,
        center=True,
        scale=True,
        use_global_stats=False,
        fuse_relu=False,
        beta_initializer="zeros",
        gamma_initializer="ones",
        running_mean_initializer="zeros",
        running_variance_initializer="ones",
        in_channels=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._kwargs = {
            "axis": axis,
            "eps": epsilon,
            "momentum": momentum,
            "fix_gamma": not scale,
            "use_global_stats": use_global_stats,
        }
        self.fuse_relu = fuse_relu
        if in_channels != 0:
            self.in_channels = in_channels
        self._add_scale_and_shift(
            in_channels, scale, center, gamma_initializer, beta_initializer, fixed=True
        )
        for name, init in (
            ("running_mean", running_mean_initializer),
            ("running_var", running_variance_initializer),
        ):
            setattr(
                self,
                name,
                self.params.get(
                    name,
                    grad_req="null",
                    shape=(in_channels,),
                    init=init,
                    allow_deferred_init=True,
                    differentiable=False,
                ),
            )

    def cast(self, dtype):
        # Statistics of half-precision data stay in single precision.
        super().cast("float32" if np.dtype(dtype).name == "float16" else dtype)

    def hybrid_forward(self, F, x, gamma, beta, running_mean, running_var):
        norm = F.contrib.BatchNormWithReLU if self.fuse_relu else F.BatchNorm
        return norm(
            x, gamma, beta, running_mean, running_var, name="fwd", **self._kwargs
        )


class BatchNorm(_BatchNorm):
    """(x - mean) / sqrt(var + epsilon) * gamma + beta, over all axes but `axis`.

    In training the batch's statistics are used, and running_mean and running_var follow
    them with `momentum`; otherwise, or with use_global_stats, the running ones are
    used. Without scale gamma is 1, without center beta is 0.
    """

    def __init__(
        self,
        axis=1,
        momentum=0.9,
        epsilon=1e-5,
        center=True,
        scale=True,
        use_global_stats=False,
        beta_initializer="zeros",
        gamma_initializer="ones",
        running_mean_initializer="zeros",
        running_variance_initializer="ones",
        in_channels=0,
        **kwargs,
    ):
        super().__init__(
            axis,
            momentum,
            epsilon,
            center,
            scale,
            use_global_stats,
            False,
            beta_initializer,
            gamma_initializer,
            running_mean_initializer,
            running_variance_initializer,
            in_channels,
            **kwargs,
        )


class BatchNormReLU(_BatchNorm):
    """BatchNorm followed by ReLU, in one operator."""

    def __init__(
        self,
        axis=1,
        momentum=0.9,
        epsilon=1e-5,
        center=True,
        scale=True,
        use_global_stats=False,
        beta_initializer="zeros",
        gamma_initializer="ones",
        running_mean_initializer="zeros",
        running_variance_initializer="ones",
        in_channels=0,
        **kwargs,
    ):
        super().__init__(
            axis,
            momentum,
            epsilon,
            center,
            scale,
            use_global_stats,
            True,
            beta_initializer,
            gamma_initializer,
            running_mean_initializer,
            running_variance_initializer,
            in_channels,
            **kwargs,
        )


class InstanceNorm(_Norm):
    """Normalises each sample's channel over its other axes."""

    def __init__(
        self,
        axis=1,
        epsilon=1e-5,
        center=True,
        scale=False,
        beta_initializer="zeros",
        gamma_initializer="ones",
        in_channels=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis = axis
        self._epsilon = epsilon
        self._add_scale_and_shift(
            in_channels, scale, center, gamma_initializer, beta_initializer
        )

    def hybrid_forward(self, F, x, gamma, beta):
        if self._axis == 1:
            return F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        x = F.swapaxes(x, 1, self._axis)
        y = F.InstanceNorm(x, gamma, beta, name="fwd", eps=self._epsilon)
        return F.swapaxes(y, 1, self._axis)


class LayerNorm(_Norm):
    """Normalises over one axis, the last by default."""

    def __init__(
        self,
        axis=-1,
        epsilon=1e-5,
        center=True,
        scale=True,
        beta_initializer="zeros",
        gamma_initializer="ones",
        in_channels=0,
        prefix=None,
        params=None,
    ):
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {"eps": epsilon, "axis": axis, "center": center, "scale": scale}
        self._axis = axis
        self._epsilon = epsilon
        self._center = center
        self._scale = scale
        self._add_scale_and_shift(
            in_channels, scale, center, gamma_initializer, beta_initializer
        )

    def hybrid_forward(self, F, data, gamma, beta):
        return F.LayerNorm(
            data, gamma=gamma, beta=beta, axis=self._axis, eps=self._epsilon
        )


class GroupNorm(_Norm):
    """Normalises groups of channels; gamma and beta have one value for each group."""

    def __init__(
        self,
        num_groups=1,
        epsilon=1e-5,
        center=True,
        scale=True,
        beta_initializer="zeros",
        gamma_initializer="ones",
        prefix=None,
        params=None,
    ):
        super().__init__(prefix=prefix, params=params)
        self._kwargs = {
            "eps": epsilon,
            "num_groups": num_groups,
            "center": center,
            "scale": scale,
        }
        self._num_groups = num_groups
        self._epsilon = epsilon
        self._center = center
        self._scale = scale
        self._add_scale_and_shift(
            num_groups, scale, center, gamma_initializer, beta_initializer
        )

    def hybrid_forward(self, F, data, gamma, beta):
        return F.GroupNorm(
            data, gamma=gamma, beta=beta, num_groups=self._num_groups, eps=self._epsilon
        )

    def __repr__(self):
        return "%s(%s)" % (
            type(self).__name__,
            ", ".join("%s=%r" % item for item in self._kwargs.items()),
        )
