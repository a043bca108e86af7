"""Checkpoints of symbols, what stores do with parameters, and FeedForward."""

import logging
import os
from collections import namedtuple

import numpy as np

from . import kvstore as kvs
from . import ndarray as nd
from . import symbol as sym
from .context import cpu
from .error import MXNetTypeError, MXNetValueError

__all__ = [
    "BatchEndParam",
    "FeedForward",
    "load_checkpoint",
    "load_params",
    "save_checkpoint",
]

# What callbacks of a batch's end are given.
BatchEndParam = namedtuple(
    "BatchEndParams", ["epoch", "nbatch", "eval_metric", "locals"]
)

# Checkpoints.


def tagged_params(arg_params, aux_params):
    """One dict with the names of a .params file: arg:NAME and aux:NAME."""
    tagged = {}
    for tag, params in (("arg", arg_params), ("aux", aux_params)):
        for name, value in (params or {}).items():
            tagged["%s:%s" % (tag, name)] = value.as_in_context(cpu())
    return tagged


def split_params(tagged, fname, strict=False):
    """(arg_params, aux_params) of the arrays of a file.

    Names without arg: or aux: are left out, or with strict=True an error.
    """
    if not isinstance(tagged, dict):
        if tagged:
            raise MXNetValueError(
                "load_params: %s holds %d arrays without names; expected names such as "
                "arg:fc1_weight" % (fname, len(tagged))
            )
        return {}, {}
    found = {"arg": {}, "aux": {}}
    for key, value in tagged.items():
        tag, colon, name = key.partition(":")
        if colon and tag in found:
            found[tag][name] = value
        elif strict or not colon:
            raise MXNetValueError(
                "load_params: %s holds an array named %r; expected arg:NAME or "
                "aux:NAME" % (fname, key)
            )
    return found["arg"], found["aux"]


def save_checkpoint(
    prefix, epoch, symbol, arg_params, aux_params, remove_amp_cast=True
):
    """Writes PREFIX-symbol.json (unless symbol is None) and PREFIX-EPOCH.params."""
    if symbol is not None:
        symbol.save("%s-symbol.json" % prefix, remove_amp_cast=remove_amp_cast)
    fname = "%s-%04d.params" % (prefix, epoch)
    nd.save(fname, tagged_params(arg_params, aux_params))
    logging.info('Saved checkpoint to "%s"', fname)


def load_params(prefix, epoch):
    """(arg_params, aux_params) of PREFIX-EPOCH.params."""
    fname = "%s-%04d.params" % (prefix, epoch)
    tagged = nd.load(fname)
    if not tagged:
        logging.warning("Params file '%s' is empty", fname)
    return split_params(tagged, fname)


def load_checkpoint(prefix, epoch):
    """(symbol, arg_params, aux_params) of what save_checkpoint() wrote, or MXNet."""
    symbol = sym.load("%s-symbol.json" % prefix)
    return (symbol, *load_params(prefix, epoch))


# Stores.


def _create_kvstore(kvstore, num_device, arg_params):
    """(store or None, whether it updates the weights) for the argument `kvstore`.

    One device needs no store. $MXNET_UPDATE_ON_KVSTORE=0 leaves updates to the caller.
    """
    on_store = bool(int(os.getenv("MXNET_UPDATE_ON_KVSTORE", "1")))
    if kvstore is None:
        return None, False
    if isinstance(kvstore, kvs.KVStoreBase):
        store = kvstore
    elif not isinstance(kvstore, str):
        raise MXNetTypeError(
            "kvstore: got %s; expected a KVStore, a name or None"
            % type(kvstore).__name__
        )
    elif num_device == 1 and "dist" not in kvstore:
        return None, False
    else:
        store = kvs.create(kvstore)
        sizes = [np.prod(param.shape) for param in arg_params.values()]
        if kvstore == "local" and max(sizes, default=0) > 16 * 1024 * 1024:
            on_store = False
    on_store = on_store or (isinstance(store, kvs.KVStore) and "async" in store.type)
    return store, on_store and store.is_capable(kvs.KVStoreBase.OPTIMIZER)


def _initialize_kvstore(
    kvstore, param_arrays, arg_params, param_names, update_on_kvstore
):
    """Gives a store the initial weights, and with update_on_kvstore the devices its
    copies of them.
    """
    for name, arrays in zip(param_names, param_arrays):
        value = arg_params[name]
        # All ranks begin with equal weights.
        distributed = isinstance(kvstore, kvs.KVStore) and "dist" in kvstore.type
        if (update_on_kvstore or distributed) and value.stype == "default":
            kvstore.broadcast(name, value, out=arrays)
        else:
            kvstore.init(name, value)


def _dense(arrays):
    return arrays[0].stype == "default"


def _update_params_on_kvstore(param_arrays, grad_arrays, kvstore, param_names):
    """Pushes gradients to a store that updates, and pulls the new weights."""
    together = {}
    for index, (weights, grads) in enumerate(zip(param_arrays, grad_arrays)):
        if grads[0] is None:
            continue
        name = param_names[index]
        if _dense(weights) and _dense(grads):
            if isinstance(kvstore, kvs.KVStore):
                together[name] = (grads, weights)
                continue
            kvstore.pushpull(name, grads, out=weights, priority=-index)
        else:
            kvstore.push(name, grads, priority=-index)
            kvstore.pull(name, out=weights, priority=-index)
    _together(kvstore, together)


def _together(kvstore, arrays):
    """One call for {name: (gradients, results)}: the first is the most urgent."""
    if arrays:
        grads, outs = zip(*arrays.values())
        kvstore.pushpull(list(arrays), list(grads), out=list(outs))


def _sum_gradients(param_arrays, grad_arrays, kvstore, param_names):
    """Replaces each device's gradients by their sum over devices."""
    together = {}
    for index, (weights, grads) in enumerate(zip(param_arrays, grad_arrays)):
        if grads[0] is None:
            continue
        name = param_names[index]
        if _dense(weights) and _dense(grads):
            if isinstance(kvstore, kvs.KVStore):
                together[name] = (grads, grads)
                continue
            kvstore.pushpull(name, grads, priority=-index)
        else:
            kvstore.push(name, grads, priority=-index)
            kvstore.pull(name, out=grads, priority=-index)
    _together(kvstore, together)


def _updates(param_arrays, grad_arrays, num_device):
    """For each device (indices, gradients, weights) of what its updater is to do."""
    updates = []
    for device in range(num_device):
        chosen = [
            (i * num_device + device, grads[device], weights[device])
            for i, (weights, grads) in enumerate(zip(param_arrays, grad_arrays))
            if grads[0] is not None
        ]
        if chosen:
            updates.append(tuple(map(list, zip(*chosen))))
    return updates


def _update_params(
    param_arrays, grad_arrays, updater, num_device, kvstore=None, param_names=None
):
    """Updates weights here, after a store has summed the gradients."""
    if kvstore:
        _sum_gradients(param_arrays, grad_arrays, kvstore, param_names)
    for indices, grads, weights in _updates(param_arrays, grad_arrays, num_device):
        updater(indices, grads, weights)


from .feed_forward import FeedForward  # noqa: E402  (it needs the above)
