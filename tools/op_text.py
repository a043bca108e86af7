"""What the registry knows of the operators, as text: types, defaults, examples."""

import ast
import struct

from plait import _plait
from plait.ndarray._namespaces import place_of

# Operators that only gradients call; their names and meanings may change.
PRIVATE = {
    "_attention_mix",
    "_attention_scores",
    "_channel_window_sum",
    "_deformable_grid",
    "_diag_backward",
    "_gather_along",
    "_linalg_inverse_or_zeros",
    "_linalg_triangle",
    "_pad_backward",
    "_pooling_take",
    "_reshape_to",
    "_roi_pooling_take",
    "_scatter_along",
    "_slice_backward",
    "_sum_to",
}

ANNOTATIONS = {
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "dtype": "DType",
    "tuple of int": "int | Sequence[int]",
    "tuple of float": "float | Sequence[float]",
    "tuple of int or None": "int | Sequence[int | None]",
}


def is_private(name):
    return name in PRIVATE or name.startswith("_backward")


def public_operators():
    """Canonical names of the operators that are documented, sorted."""
    names = {_plait.op_info(name)["name"] for name in _plait.op_names()}
    return sorted((n for n in names if not is_private(n)), key=str.lower)


def choices(type_name):
    """The values of an enumeration's type name "{a|b}"; () for other types."""
    return tuple(type_name[1:-1].split("|")) if type_name.startswith("{") else ()


def number(x):
    """A float in as few digits as its type needs: a float32 has about seven."""
    short = "%.7g" % x
    if x in (float("inf"), float("-inf")) or x != x:
        return 'float("%s")' % short
    if abs(x) < 3e38 and struct.unpack("f", struct.pack("f", float(short)))[0] == x:
        return repr(float(short))
    return repr(x)


def literal(value, type_name):
    """A parameter's value, as Python source."""
    if value is None or (value == "None" and type_name != "str"):
        return "None"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, tuple):
        inner = [literal(v, "") for v in value]
        return "(%s%s)" % (", ".join(inner), "," if len(inner) == 1 else "")
    return repr(value)


def parsed(text, type_name):
    """The Python value of a sample's parameter, which is MXNet's text."""
    if type_name in ("str", "dtype") or choices(type_name):
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return float(text)  # inf and nan are no literals


def annotation(type_name, default, required):
    """A parameter's type, as Python source."""
    values = choices(type_name)
    if values:
        known = ", ".join(repr(v) for v in values if v != "None")
        text = "Literal[%s]" % known
        return text + " | None" if "None" in values else text
    text = ANNOTATIONS[type_name]
    if not required and default is None and type_name != "dtype":
        text += " | None"
    return text


def python_name(name):
    """Where an operator's function is: nd.softmax, nd.contrib.fft, ..."""
    module, function = place_of(name)
    return ".".join(["nd"] + ([module] if module else []) + [function])


def input_names(info, sample):
    """Names of the sample's inputs; a, b, ... where an operator takes any number."""
    count = len(sample["inputs"])
    if info["variable_inputs"]:
        return [chr(ord("a") + i) for i in range(count)]
    return [name for name, _ in info["inputs"]][:count]


def example(info):
    """A call and the shapes of its inputs, from the operator's first sample."""
    samples = _plait.op_samples(info["name"])
    if not samples:
        return None
    types = {name: type_name for name, type_name, *_ in info["params"]}
    sample, arguments, shapes = samples[0], [], []
    for name, x in zip(input_names(info, sample), sample["inputs"]):
        arguments.append(name)
        dtype = "" if x["dtype"] == "float32" else " " + x["dtype"]
        shapes.append("%s is %s%s" % (name, x["shape"], dtype))
    for name, text in sample["params"].items():
        value = parsed(text, types[name])
        arguments.append("%s=%s" % (name, literal(value, types[name])))
    call = "%s(%s)" % (python_name(info["name"]), ", ".join(arguments))
    return call, shapes
