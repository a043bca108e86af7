"""What memory a symbol would need if it were bound, without any array."""

from .. import _plait
from ..error import MXNetValueError


def memory_plan(symbol, is_train, grad_req, type_dict, shapes):
    """Symbol.memory_plan."""
    from .symbol import _dtype_number

    names = symbol.list_inputs()
    arguments = symbol.list_arguments()
    unknown = set(grad_req) - set(arguments) if isinstance(grad_req, dict) else set()
    if unknown or not isinstance(grad_req, (str, dict)):
        raise MXNetValueError(
            "memory_plan: grad_req is %r; 'write', 'null' or a dict of them by the "
            "names of arguments was expected" % (sorted(unknown) or grad_req,)
        )
    requests = (
        grad_req if isinstance(grad_req, dict) else dict.fromkeys(arguments, grad_req)
    )
    for name, request in requests.items():
        if request not in ("write", "add", "null"):
            raise MXNetValueError(
                "memory_plan: grad_req of %s is %r; 'write', 'add' or 'null' was "
                "expected" % (name, request)
            )
    arg_shapes, _, aux_shapes = symbol.infer_shape(**shapes)
    if arg_shapes is None:
        raise MXNetValueError(
            "memory_plan: shapes do not follow from %s; more of them were expected"
            % (shapes,)
        )
    arg_types, _, aux_types = symbol.infer_type(**(type_dict or {}))
    known = dict(zip(arguments, zip(arg_shapes, arg_types)))
    known.update(zip(symbol.list_auxiliary_states(), zip(aux_shapes, aux_types)))
    return _plait.plan_sizes(
        symbol.handle,
        [tuple(known[name][0]) for name in names],
        [_dtype_number(known[name][1]) for name in names],
        [requests.get(name, "null") != "null" for name in names],
        bool(is_train),
    )
