"""Files of blocks: parameters under structural names, and the names of a
model's parts.
"""

import json

from .. import ndarray as nd
from ..error import CheckError, check
from ..util import atomic_write
from .parameter_dict import strip_kind
from .utils import _brief_print_list, _nearest


def save_parameters(block, filename, deduplicate):
    """Writes block's parameters under structural names."""
    params = block._collect_params_with_prefix()
    if deduplicate:  # of several names the last one stays
        params = {
            name: param
            for param, name in {param: name for name, param in params.items()}.items()
        }
    nd.save(filename, {name: param._reduce() for name, param in params.items()})


def load_parameters(
    block, filename, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source
):
    """Reads block's parameters by structural or by full names, whichever
    the file has.
    """
    params = block._collect_params_with_prefix()
    loaded = nd.load(filename)
    if not loaded and not params:
        return
    check(
        isinstance(loaded, dict),
        "load_parameters: %s holds a list of %d unnamed arrays; expected named ones",
        filename,
        len(loaded),
    )
    if not any("." in name for name in loaded):
        if not any(name in params for name in loaded):
            loaded = _with_structural_names(block, loaded, params)
        if not any(name in params for name in loaded):
            block.collect_params().load_dict(
                nd.load(filename),
                ctx,
                allow_missing,
                ignore_extra,
                block.prefix,
                filename,
                cast_dtype,
                dtype_source,
            )
            return
    if not allow_missing:
        _check_complete(params, loaded, filename)
    for name, array in loaded.items():
        if name in params:
            params[name]._load_init(
                array, ctx, cast_dtype=cast_dtype, dtype_source=dtype_source
            )
        elif not ignore_extra:
            raise ValueError(
                "Parameter '%s' loaded from file '%s' is not present in "
                "ParameterDict, which contains parameters %s.%s Set "
                "ignore_extra=True to ignore."
                % (name, filename, _brief_print_list(params), _nearest(name, params))
            )


def _with_structural_names(block, loaded, params):
    """A file by export() or ParameterDict.save(): full names turned into structural
    ones.
    """
    names = {}
    for structural, param in params.items():
        names[param.name] = structural
        if param.name.startswith(block.prefix):
            names.setdefault(param.name[len(block.prefix) :], structural)
    return {names.get(strip_kind(name), name): array for name, array in loaded.items()}


def _check_complete(params, loaded, filename):
    """Every parameter must be in the file under one of its names."""
    present = {param for name, param in params.items() if name in loaded}
    for name, param in params.items():
        if param not in present:
            raise CheckError(
                "Parameter '%s' is missing in file '%s', which contains parameters: "
                "%s.%s Set allow_missing=True to ignore missing parameters."
                % (name, filename, _brief_print_list(loaded), _nearest(name, loaded))
            )


def _walk(block, structure, index):
    """(block, entry of the JSON structure, key) of every block, depth first."""
    key = "%s%d" % (type(block).__name__.lower(), index[0])
    yield block, structure, key
    for child in list(block._children.values()):
        index[0] += 1
        yield from _walk(child, structure[key], index)


def save_model(block, prefix):
    """Writes <prefix>-model.json and <prefix>-model.params."""
    model = {}
    for part, structure, key in _walk(block, model, [0]):
        entry = structure[key] = {"orig_name": part.name}
        if hasattr(part, "_graph"):
            entry["hybridized"] = False
        entry["children"] = {child.name: name for name, child in part._children.items()}
    atomic_write(prefix + "-model.json", json.dumps(model).encode())
    save_parameters(block, prefix + "-model.params", False)


def load_model(block, prefix):
    """Reads what save_model wrote; children get the names that they were
    saved under.
    """
    with open(prefix + "-model.json") as f:
        model = json.load(f)
    for part, structure, key in _walk(block, model, [0]):
        check(
            key in structure,
            "load: %s-model.json has no %s here, only %s; the block's "
            "structure is not the saved one",
            prefix,
            key,
            [k for k in structure if isinstance(structure[k], dict)],
        )
        names = list(structure[key]["children"].values())
        check(
            len(names) == len(part._children),
            "load: %s has %d children, %s-model.json has %d",
            key,
            len(part._children),
            prefix,
            len(names),
        )
        children = list(part._children.values())
        part._children.clear()
        part._children.update(zip(names, children))
    load_parameters(
        block, prefix + "-model.params", None, False, False, False, "current"
    )
