"""Custom operators that take or give sparse arrays, since their CustomOpProp defines
infer_storage_type.

forward and backward run when they are called, not later: sparse arrays are no memory
that the engine could hold for them.
"""

from . import _plait, autograd
from . import ndarray as nd
from .error import MXNetNotImplementedError, MXNetValueError

_KINDS = ("default", "row_sparse", "csr")


def storages_of(call, stypes):
    """Storages of (arguments, outputs, states) by the prop, for those of arguments.

    None where it does not say, or says that all are dense: the usual way then.
    """
    from .operator import CustomOpProp

    own = type(call.prop).infer_storage_type is not CustomOpProp.infer_storage_type
    if not own:
        return None
    lists = _listed(call, "infer_storage_type", 3, call.prop.infer_storage_type(stypes))
    names = call.arguments, call.outputs, call.states
    lists += [["default"] * len(call.states)] * (3 - len(lists))
    for known, given in zip(names, lists):
        if len(known) != len(given):
            raise MXNetValueError(
                "Custom(%s): infer_storage_type gives %d storages for %s; one for each "
                "was expected" % (call.op_type, len(given), list(known))
            )
    sparse = any(s != "default" for part in (stypes, *lists) for s in part)
    return lists if sparse else None


def _listed(call, method, most, result):
    lists = [list(part) for part in result]
    for stype in (s for part in lists for s in part):
        if stype not in _KINDS and stype != "undefined":
            raise MXNetValueError(
                "Custom(%s): %s gives the storage %r; one of %s was expected"
                % (call.op_type, method, stype, ", ".join(_KINDS))
            )
    if not 2 <= len(lists) <= most:
        raise MXNetValueError(
            "Custom(%s): %s gives %d lists; %d were expected"
            % (call.op_type, method, len(lists), most)
        )
    return [[s if s in _KINDS else "default" for s in part] for part in lists]


def _cast(arrays, stypes):
    return [
        None if x is None else x if x.stype == s else _plait.cast_storage(x, s)
        for x, s in zip(arrays, stypes)
    ]


class _States:
    """Auxiliary states in the storage that the operator wants, written back at last."""

    def __init__(self, arrays, stypes):
        self._given, self.arrays = arrays, _cast(arrays, stypes)

    def close(self):
        for given, own in zip(self._given, self.arrays):
            if own is not given:
                _plait.assign_sparse(own, given)


def run(call, op, storages, data, specs, aux, guard):
    """The outputs of a call, recorded where gradients are wanted."""
    training, recording = _plait.is_training(), _plait.is_recording()
    with autograd.pause(train_mode=training):
        own = _cast(data, storages[0])
        where = data[0].context if data else None
        outputs = [
            nd.zeros(shape, where, dtype, stype=stype)
            for (shape, dtype), stype in zip(specs, storages[1])
        ]
        states = _States(aux, storages[2])
        with guard("custom operator %s, forward" % call.op_type):
            req = ["write"] * len(outputs)
            op.forward(training, req, own, outputs, states.arrays)
        states.close()
    wants = [_plait.is_tracked(x) for x in data]
    if recording and any(wants):
        kept = [x.detach() for x in own], [y.detach() for y in outputs]
        gradient = _gradient(call, op, storages, kept, aux, wants, guard)
        _plait.record_custom(call.op_type, data, outputs, gradient)
    return outputs


def _gradient(call, op, storages, kept, aux, wants, guard):
    data, outputs = kept

    def gradient(heads):
        if _plait.is_recording():
            raise MXNetNotImplementedError(
                "Custom(%s): the gradient of a custom operator with sparse arrays has "
                "no gradient itself" % call.op_type
            )
        heads = [
            nd.zeros(y.shape, y.context, y.dtype) if h is None else h
            for h, y in zip(heads, outputs)
        ]
        stypes = ([h.stype for h in heads], *storages[:2])
        wanted = ["undefined"] * len(data)
        lists = _listed(
            call,
            "infer_storage_type_backward",
            5,
            call.prop.infer_storage_type_backward(*stypes, wanted, storages[2]),
        )
        grads = [
            nd.zeros(x.shape, x.context, x.dtype, stype=s)
            for x, s in zip(data, lists[3])
        ]
        states = _States(aux, lists[4] if len(lists) > 4 else storages[2])
        req = ["write" if want else "null" for want in wants]
        with guard("custom operator %s, backward" % call.op_type):
            op.backward(
                req,
                _cast(heads, lists[0]),
                _cast(data, lists[1]),
                _cast(outputs, lists[2]),
                grads,
                states.arrays,
            )
        states.close()
        return [g if want else None for g, want in zip(grads, wants)]

    return gradient
