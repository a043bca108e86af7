"""Lists of operators by the precision that they compute in."""

from . import classes, symbol_bf16, symbol_fp16  # noqa: F401
