"""Checkpoints of a job: each rank writes its part, and all of it counts or nothing.

A checkpoint is a folder STEP-TOKEN of one file for each rank and a manifest. Ranks
write their files first, safely to the disk; when all have, rank 0 writes the manifest
beside them and gives it its name. A folder without a manifest is none. So whatever
happens meanwhile, what was complete before stays so.

The files are those of optimizer states (safetensors, nothing in them can run code). The
manifest has their lengths and checksums, and what any number of ranks needs to read
them.
"""

import json
import os
import secrets
import shutil
import time
import warnings
import zlib
from pathlib import Path

import numpy as np

from . import distributed as dist
from ._state_parts import cut, join
from .error import MXNetOSError, MXNetTypeError, MXNetValueError
from .gluon.block import Block
from .gluon.trainer import Trainer
from .kvstore import KVStore
from .ndarray import NDArray
from .ndarray import array as array_of
from .optimizer import Updater, state_file
from .util import atomic_write

__all__ = ["save", "load", "list_complete"]

_FORMAT = "plait-checkpoint-1"
_MANIFEST = "manifest.json"
_TEXT = 1000  # bytes of what a rank tells the others


# What ranks say to one another.


def _tell_all(value):
    """The values (of JSON, short) of all ranks, in their order. Collective."""
    text = json.dumps(value).encode()[:_TEXT]
    rows = np.zeros((dist.size(), _TEXT), "uint8")
    rows[dist.rank(), : len(text)] = np.frombuffer(text, "uint8")
    rows = dist.allreduce(array_of(rows, dtype="uint8"), name="a checkpoint").asnumpy()
    return [json.loads(bytes(row).rstrip(b"\0") or b"null") for row in rows]


def _agree(what, error):
    """Raises on all ranks what went wrong on one. Collective."""
    texts = _tell_all(error[: _TEXT // 3] if error else "")
    for rank, text in enumerate(texts):
        if text:
            raise MXNetOSError("%s: rank %d: %s" % (what, rank, text))


def _attempt(function, *arguments):
    """(result, "") or (None, what went wrong)."""
    try:
        return function(*arguments), ""
    except Exception as error:
        return None, "%s: %s" % (type(error).__name__, error)


# What is saved.


def _named(params):
    """{name: Parameter or NDArray} of a block, of collect_params(), of a dict."""
    if params is None:
        return {}
    if isinstance(params, Block):
        return params._collect_params_with_prefix()
    if not hasattr(params, "items"):
        raise MXNetTypeError(
            "checkpoint: got %s; expected a block or a dict" % type(params).__name__
        )
    return dict(params.items())


def _arrays(value):
    """The copies of a parameter on all devices."""
    return [value] if isinstance(value, NDArray) else value.list_data()


def _even_range(size):
    return size * dist.rank() // dist.size(), size * (dist.rank() + 1) // dist.size()


class _States:
    """The optimizer states of a Trainer or of a store, as this rank has them."""

    def __init__(self, owner):
        self.owner = owner
        self.trainer = owner if isinstance(owner, Trainer) else None
        if self.trainer is not None:
            owner._prepare()
            self.store = owner._kvstore if owner._update_on_kvstore else None
            self.updaters = owner._updaters
        elif isinstance(owner, KVStore):
            self.store = owner
        else:
            raise MXNetTypeError(
                "checkpoint: got %s; expected a Trainer or a KVStore"
                % type(owner).__name__
            )
        if self.store is not None:
            self.updaters = [self.store._updater]
        if not isinstance(self.updaters[0], Updater):
            raise MXNetValueError("checkpoint: the store has no optimizer")

    def range_of(self, key):
        """(first, last, size) of a key that ranks update in parts; None where each of
        them updates all of it.
        """
        if self.store is None or self.store.num_workers != dist.size():
            return None
        ranges = self.store._store.ranges(key)
        return (*ranges[self.store.rank], ranges[-1][1])

    def settle(self, named):
        """Where ranks drift apart: all get the weights as they are now."""
        if self.store is None or "async" not in self.store.type:
            return
        self.store._barrier()
        if self.trainer is not None:
            for i, param in enumerate(self.trainer._params):
                self.store.pull(i, _arrays(param))
        for value in named.values():
            _arrays(value)[0].wait_to_read()
        self.store._barrier()

    def parts(self):
        """{key: (first, last, size, state)} of what this rank saves."""
        result = {}
        for key, state in self.updaters[0].states.items():
            place = self.range_of(key)
            if place is not None:
                result[key] = (*place, state)
            else:  # every rank has all of it
                size = int(np.prod(self.shape_of(key)))
                first, last = _even_range(size)
                result[key] = (first, last, size, cut(state, size, first, last))
        return result

    def put(self, parts, optimizer):
        """Takes over the parts of all ranks, whatever their number was."""
        states = {}
        for key in {key for rank in parts for key in rank}:
            found = [rank[key] for rank in parts if key in rank]
            size = found[0][2]
            shape = self.shape_of(key)
            if int(np.prod(shape)) != size:
                raise MXNetValueError(
                    "the state of %r is of %d elements; %s were expected"
                    % (key, size, shape)
                )
            whole = join([(f, last, state) for f, last, _, state in found], size, shape)
            place = self.range_of(key)
            if place is None or place[:2] == (0, size):
                states[key] = whole
            elif place[1] > place[0]:
                states[key] = cut(whole, size, *place[:2])
        for updater in self.updaters:
            updater.optimizer = optimizer
            updater.states = dict(states)
            updater.states_synced = dict.fromkeys(states, False)
        if self.store is not None:
            self.store._set_updater(self.updaters[0])
        if self.trainer is not None:
            self.trainer._optimizer = optimizer
            optimizer.param_dict = dict(enumerate(self.trainer._params))

    def shape_of(self, key):
        if self.store is not None:
            return self.store._store.stored(key).shape
        return self.trainer._params[key].shape

    def replace_weights(self):
        """What the store has of the weights is no longer theirs."""
        if self.store is None or self.trainer is None:
            return
        for i, param in enumerate(self.trainer._params):
            if param not in self.trainer._params_to_init:
                _arrays(param)[0].copyto(self.store._store.stored(i))
        self.store._barrier()


def _weights(named):
    """{name: (first, last, shape, dtype, elements)} of what this rank saves."""
    result = {}
    for name, value in named.items():
        array = _arrays(value)[0]
        if array.stype != "default":
            raise MXNetTypeError("checkpoint: %r is %s" % (name, array.stype))
        first, last = _even_range(array.size)
        part = array.reshape((-1,))[first:last].copy() if last > first else None
        result[name] = (first, last, list(array.shape), part)
    return result


# Saving.


def _shard_name(rank, size):
    return "rank-%d-of-%d" % (rank, size)


def _sync_folder(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_shard(path, named, states):
    path.mkdir(parents=True, exist_ok=True)
    content = {"weights": _weights(named), "states": states.parts() if states else {}}
    optimizer = states.updaters[0].optimizer if states else None
    data = state_file.dumps(content, optimizer)
    atomic_write(str(path / _shard_name(dist.rank(), dist.size())), data)
    _sync_folder(path)
    return {"bytes": len(data), "crc32": zlib.crc32(data)}


def _write_manifest(path, step, shards, extra):
    manifest = {
        "format": _FORMAT,
        "step": step,
        "time": time.time(),
        "ranks": dist.size(),
        "shards": shards,
        "extra": extra,
    }
    atomic_write(str(path / _MANIFEST), json.dumps(manifest, indent=1).encode())
    _sync_folder(path)
    _sync_folder(path.parent)


def save(folder, step, params=None, trainer=None, extra=None, keep=2):
    """Saves a checkpoint of step `step` (an int >= 0) in `folder`, which all ranks see.

    params: a block, or a dict of Parameters or arrays; equal on all ranks (after a step
    of dist_sync they are; of dist_async the store's values are taken). trainer: a
    Trainer, or a KVStore with an optimizer, whose states are saved. extra: what JSON
    can say, of rank 0. The newest `keep` checkpoints stay (0: all). Collective; when it
    fails on one rank all raise, older checkpoints are as they were, and training can go
    on. Returns the checkpoint's folder.
    """
    folder, step = Path(folder), int(step)
    what = "save_checkpoint(%s, %d)" % (folder, step)
    extra_text, wrong = _attempt(json.dumps, extra)
    if step < 0:
        wrong = "the step must not be negative"
    told = _tell_all([secrets.token_hex(4), wrong[: _TEXT // 3]])
    path = folder / ("step-%010d-%s" % (max(step, 0), told[0][0]))
    for rank, (_, text) in enumerate(told):
        if text:
            raise MXNetValueError("%s: rank %d: %s" % (what, rank, text))
    named, states = _named(params), _States(trainer) if trainer is not None else None
    if states is not None:
        states.settle(named)
    shard, error = _attempt(_write_shard, path, named, states)
    answers = _tell_all([shard, error[: _TEXT // 3]])
    try:
        for rank, (_, text) in enumerate(answers):
            if text:
                raise MXNetOSError("%s: rank %d: %s" % (what, rank, text))
        shards = [answer[0] for answer in answers]
        if dist.rank() == 0:
            extra = json.loads(extra_text)
            _, error = _attempt(_write_manifest, path, step, shards, extra)
        _agree(what, error)
    except MXNetOSError:
        shutil.rmtree(path, ignore_errors=True)
        raise
    if dist.rank() == 0:
        _remove_old(folder, path, keep)
    return str(path)


def _remove_old(folder, newest, keep):
    """Complete ones beyond `keep`, and what was begun and is of no use to anybody."""
    complete = list_complete(folder)
    kept = {str(newest), *(complete[-keep:] if keep else complete)}
    for path in folder.glob("step-*-*"):
        if str(path) not in kept:
            # Without its manifest first: half of it must not be taken for a whole one.
            (path / _MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(path, ignore_errors=True)


# Loading.


def _read_manifest(path):
    with open(path / _MANIFEST, "rb") as f:
        manifest = json.loads(f.read())
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise MXNetValueError("%s is no manifest of a checkpoint" % (path / _MANIFEST))
    return manifest


def list_complete(folder):
    """The folders of complete checkpoints, the oldest first. Not collective."""
    found = []
    for path in Path(folder).glob("step-*-*"):
        manifest, _ = _attempt(_read_manifest, path)
        if manifest is not None:
            found.append((manifest["step"], manifest["time"], str(path)))
    return [path for _, _, path in sorted(found)]


def _read_shards(path, manifest):
    """[(content, optimizer)] of all ranks' files, their checksums compared."""
    result = []
    for rank, shard in enumerate(manifest["shards"]):
        file = path / _shard_name(rank, manifest["ranks"])
        if not file.exists():
            raise MXNetOSError("%s, the part of rank %d, is missing" % (file, rank))
        data = file.read_bytes()
        if len(data) != shard["bytes"]:
            raise MXNetOSError(
                "%s, the part of rank %d, has %d bytes; %d were expected"
                % (file, rank, len(data), shard["bytes"])
            )
        if zlib.crc32(data) != shard["crc32"]:
            raise MXNetOSError(
                "%s, the part of rank %d, is damaged: its checksum differs"
                % (file, rank)
            )
        result.append(state_file.loads(data))
    return result


def _read(path):
    manifest = _read_manifest(path)
    return manifest, _read_shards(path, manifest)


def _joined_weights(shards):
    """{name: array} of all ranks' parts."""
    result = {}
    for name, (_, _, shape, _) in shards[0][0]["weights"].items():
        parts = [content["weights"][name] for content, _ in shards]
        flat = [(f, last, part) for f, last, _, part in parts if last > f]
        size = int(np.prod(shape))
        if size == 0:
            continue
        result[name] = join(flat, size, tuple(shape))
    return result


def _put_weights(named, weights):
    missing = sorted(set(named) - set(weights))
    if missing:
        raise MXNetValueError(
            "it has no %s; it has %s" % (missing[0], ", ".join(sorted(weights)[:10]))
        )
    for name, value in named.items():
        array = weights[name]
        if isinstance(value, NDArray) or value._data is not None:
            for target in _arrays(value):
                if target.shape != array.shape:
                    raise MXNetValueError(
                        "%s has shape %s; %s was expected"
                        % (name, array.shape, target.shape)
                    )
                array.astype(target.dtype).copyto(target)
        else:
            value._load_init(array, None)


def _joined_optimizer(shards):
    """The optimizer with the counts of all ranks: each has those of what it owns."""
    optimizers = [optimizer for _, optimizer in shards if optimizer is not None]
    if not optimizers:
        return None
    best = max(optimizers, key=lambda o: o.num_update)
    for optimizer in optimizers:
        for device, counts in optimizer._all_index_update_counts.items():
            mine = best._all_index_update_counts.setdefault(device, {})
            for index, count in counts.items():
                mine[index] = max(count, mine.get(index, count))
    return best


def _put(shards, params, trainer):
    _put_weights(_named(params), _joined_weights(shards) if params is not None else {})


def _put_states(shards, trainer):
    states = _States(trainer)
    states.replace_weights()
    optimizer = _joined_optimizer(shards)
    if optimizer is None:
        raise MXNetValueError("it has no optimizer states")
    states.put([content["states"] for content, _ in shards], optimizer)


def _candidates(folder, step):
    """Rank 0's list of complete checkpoints, the newest first; None of that step."""
    paths = list_complete(folder)[::-1] if dist.rank() == 0 else []
    if step is not None:
        paths = [p for p in paths if Path(p).name.startswith("step-%010d-" % step)]
    return [Path(p).name for p in paths]


def load(folder, params=None, trainer=None, step=None):
    """Loads the newest checkpoint in `folder`, or that of `step`, into params and
    trainer (see save). Returns {"step": ..., "extra": ...}; None when there is none.

    Any number of ranks may load what another number has saved. Of a damaged checkpoint
    an older one takes the place, with a warning; when it was asked for by its step, or
    none is whole, all ranks raise. Collective.
    """
    folder = Path(folder)
    what = "load_checkpoint(%s)" % folder
    names, error = _attempt(_candidates, folder, step)
    _agree(what, error)
    count = _tell_all(len(names))[0]
    if count == 0 and step is not None:
        raise MXNetOSError("%s: there is no complete checkpoint %d" % (what, step))
    for k in range(count):
        name = _tell_all(names[k] if dist.rank() == 0 else "")[0]
        content, error = _attempt(_read, folder / name)
        try:
            _agree(what, error)
        except MXNetOSError as problem:
            if step is not None or k + 1 == count or dist.fault():
                raise
            warnings.warn("%s; an older one is loaded" % problem, stacklevel=2)
            continue
        manifest, shards = content
        _, error = _attempt(_put, shards, params, trainer)
        _agree("%s: %s" % (what, name), error)
        if trainer is not None:
            _put_states(shards, trainer)
        return {"step": manifest["step"], "extra": manifest["extra"]}
    return None
