"""Operators by precision, for bfloat16, under MXNet's names of the lists."""

from .classes import BFLOAT16, CONDITIONAL, LOSS_OUTPUTS

BF16_FUNCS = BFLOAT16.low
BF16_FP32_FUNCS = BFLOAT16.any
FP32_FUNCS = BFLOAT16.full
CONDITIONAL_FP32_FUNCS = CONDITIONAL
WIDEST_TYPE_CASTS = BFLOAT16.widest
LOSS_OUTPUT_FUNCTIONS = LOSS_OUTPUTS
# Inputs, by place and by name, that stay float32 beside bfloat16 data.
BF16_USE_FP32_PARAMS = {
    "BatchNorm": ["", "gamma", "beta", "moving_mean", "moving_var"],
    "BatchNormWithReLU": ["", "gamma", "beta", "moving_mean", "moving_var"],
}
