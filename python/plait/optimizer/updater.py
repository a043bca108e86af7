"""Updater: an optimizer with the states of its weights.

It is called as updater(index, grad, weight), for one weight or for lists of them.
"""

from ..error import MXNetValueError
from ..ndarray import NDArray
from . import mxnet_pickle, state_file


class Updater:
    """Makes states when a weight is first seen, and updates weights."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.states = {}
        # False after loading: the state has to follow its weight's device first.
        self.states_synced = {}
        self._grouped = (None, None)  # the last list of weights, and its groups

    @property
    def aggregate_updates(self):
        """Whether the optimizer takes several weights in one call."""
        return self.optimizer.aggregate_num > 0

    def __call__(self, index, grad, weight):
        """Updates one weight, or lists of them on one device.

        Lists of weights are not to be changed between calls.
        """
        if not isinstance(index, (list, tuple)):
            index, grad, weight = (index,), (grad,), (weight,)
        if not index:
            return
        optimizer = self.optimizer
        optimizer._set_current_context(weight[0].context.device_id)
        if isinstance(index[0], bytes):
            index = [i.decode("utf-8") for i in index]
        synced, states = self.states_synced, self.states
        found = [
            states[i] if synced.get(i) else self._make_state(i, w)
            for i, w in zip(index, weight)
        ]
        if len(index) == 1:
            optimizer.update_multi_precision(index[0], weight[0], grad[0], found[0])
            return
        limit = optimizer.aggregate_num or len(index)
        for group in self._groups(weight):
            for k in range(0, len(group), limit):
                part = group[k : k + limit]
                optimizer.update_multi(*_pick(part, index, weight, grad, found))

    def _make_state(self, index, weight):
        if index in self.states:
            state = self.sync_state_context(self.states[index], weight.context)
        else:
            state = self.optimizer.create_state_multi_precision(index, weight)
        self.states[index] = state
        self.states_synced[index] = True
        return state

    def _groups(self, weights):
        """Positions grouped by dtype, as fused operators take one dtype.

        A Trainer passes the same list at every step, so the last answer is kept.
        """
        if self._grouped[0] is not weights:
            groups = {}
            for k, weight in enumerate(weights):
                groups.setdefault(weight.dtype, []).append(k)
            self._grouped = (weights, list(groups.values()))
        return self._grouped[1]

    def sync_state_context(self, state, context):
        """The state with all its arrays on `context`."""
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, (tuple, list)):
            return type(state)(self.sync_state_context(s, context) for s in state)
        return state

    def set_states(self, states):
        """Takes over what get_states() gave, or MXNet's pickled states."""
        loaded, optimizer = state_file.loads(states)
        self.states = loaded
        if optimizer is not None:
            self.optimizer = optimizer
        self.states_synced = dict.fromkeys(loaded, False)

    def get_states(self, dump_optimizer=False, format="plait"):
        """The states as bytes, with the optimizer itself where wanted.

        format: "plait", which cannot run code when it is read, or "mxnet": a pickle
        that MXNet loads too (states only).
        """
        if format == "mxnet":
            return mxnet_pickle.dumps(self.states)
        if format != "plait":
            raise MXNetValueError(
                "optimizer states: unknown format %r; expected 'plait' or 'mxnet'"
                % (format,)
            )
        return state_file.dumps(self.states, self.optimizer if dump_optimizer else None)


def _pick(positions, *lists):
    if len(positions) == len(lists[0]):
        return lists
    return [[values[k] for k in positions] for values in lists]


def get_updater(optimizer):
    """An Updater for the optimizer."""
    return Updater(optimizer)
