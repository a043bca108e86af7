"""Layouts, and numbers given once for all axes."""

from ...base import numeric_types

_LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


def _tuple(value, dims, name):
    """`value` as a tuple of `dims` numbers; one number stands for all."""
    if isinstance(value, numeric_types):
        return (value,) * dims
    assert len(value) == dims, "%s must be a number or a list of %d ints, got %s" % (
        name,
        dims,
        value,
    )
    return tuple(value)


def _check_layout(layout, dims):
    allowed = _LAYOUTS[dims]
    assert layout in allowed, "Only supports %s layout for %dD, got %r" % (
        " and ".join(allowed),
        dims,
        layout,
    )
