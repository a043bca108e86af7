"""Checks that modules share: the order of steps, and the names of inputs."""

import functools
import warnings

from ..error import CheckError, MXNetTypeError, MXNetValueError
from ..io import DataDesc

_STEPS = {
    "binded": "bind()",
    "params_initialized": "init_params()",
    "optimizer_initialized": "init_optimizer()",
}


def require(module, method, *steps):
    """Raises unless the steps have been made."""
    for step in steps:
        if not getattr(module, step):
            raise CheckError(
                "%s.%s: %s was not called; call it first"
                % (type(module).__name__, method, _STEPS[step])
            )


def after(*steps):
    """Decorator of a method that may be called only after some steps."""

    def decorate(method):
        @functools.wraps(method)
        def checked(self, *args, **kwargs):
            for step in steps:
                if not getattr(self, step):
                    require(self, method.__name__, *steps)
            return method(self, *args, **kwargs)

        return checked

    return decorate


_PARAMETER_ENDINGS = ("_weight", "_bias", "_gamma", "_beta")


def check_input_names(symbol, names, kind, throw):
    """Names of inputs must be arguments of the symbol: an error, or a warning."""
    arguments = symbol.list_arguments()
    for name in names:
        if name in arguments:
            continue
        likely = [a for a in arguments if not a.endswith(_PARAMETER_ENDINGS)]
        text = (
            "Module: %s_names=%s, but the symbol has no argument %r; its arguments "
            "that look like inputs are: %s"
            % (kind, list(names), name, ", ".join(likely) or "none")
        )
        if throw:
            raise MXNetValueError(text)
        warnings.warn(text, stacklevel=4)


def as_descs(shapes):
    """A list of DataDescs from DataDescs or (name, shape) pairs."""
    return [_as_desc(shape) for shape in shapes]


def _as_desc(desc):
    if not isinstance(desc, DataDesc):
        desc = DataDesc(*desc)
    if isinstance(desc.shape, tuple):
        return desc
    if isinstance(desc.shape, list):
        return DataDesc(desc.name, tuple(desc.shape), desc.dtype, desc.layout)
    raise MXNetTypeError(
        "Module.bind: the shape of %s is a %s; expected a tuple"
        % (desc.name, type(desc.shape).__name__)
    )


def parse_data_desc(data_names, label_names, data_shapes, label_shapes, training):
    """(data, labels or None) as DataDescs, their names compared with those expected.

    Labels that are missing matter in training only.
    """
    data_shapes = as_descs(data_shapes)
    label_shapes = as_descs(label_shapes or ()) or None
    for kind, expected, given, throw in (
        ("data", data_names, data_shapes, True),
        ("label", label_names, label_shapes or (), False),
    ):
        if sorted(expected) == sorted(d.name for d in given):
            continue
        if not throw and not training and not given:
            continue
        text = "Module.bind: %s_shapes are %s; expected the names %s" % (
            kind,
            [tuple(d) for d in given],
            list(expected),
        )
        if throw:
            raise MXNetValueError(text)
        warnings.warn(text, stacklevel=4)
    return data_shapes, label_shapes


def names_list(names):
    """A list from a sequence of names or None."""
    if isinstance(names, str):
        return [names]
    return list(names) if names is not None else []
