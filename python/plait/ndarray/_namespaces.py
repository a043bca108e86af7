"""Puts each operator's function into the module where MXNet has it."""

from .. import _plait

# Prefix of the operator's name -> submodule. `_random_X_like` alone goes to random.
_PREFIXES = (
    ("_contrib_", "contrib"),
    ("_linalg_", "linalg"),
    ("_sparse_", "sparse"),
    ("_image_", "image"),
)


def place_of(name):
    """(submodule, function name) of an operator; submodule "" is plait.nd itself."""
    for prefix, module in _PREFIXES:
        if name.startswith(prefix):
            return module, name[len(prefix) :]
    if name.startswith("_random_") and name.endswith("_like"):
        return "random", name[len("_random_") :]
    if name.startswith("_"):
        return "_internal", name
    return "", name


def install(namespaces):
    """Adds the functions of all operators to namespaces[submodule], where given."""
    for name in _plait.op_names():
        module, function = place_of(name)
        namespace = namespaces.get(module)
        if namespace is not None and function not in namespace:
            namespace[function] = _plait.op_function(name, function)
