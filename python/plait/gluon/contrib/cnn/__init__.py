"""Convolutions that sample their input at learned places."""

from . import conv_layers
from .conv_layers import DeformableConvolution, ModulatedDeformableConvolution

__all__ = ["conv_layers", "DeformableConvolution", "ModulatedDeformableConvolution"]
