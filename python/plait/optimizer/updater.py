"""Updater: an optimizer with the states of its weights, called as updater(index, grad,
weight).
"""

from ..ndarray import NDArray
from . import state_file


class Updater:
    """Makes states when a weight is first seen, and updates weights one by
    one or many.
    """

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.states = {}
        # False after loading: the state has to follow its weight's device first.
        self.states_synced = {}

    @property
    def aggregate_updates(self):
        """Whether the optimizer takes several weights in one call."""
        return self.optimizer.aggregate_num > 0

    def __call__(self, index, grad, weight):
        """Updates one weight, or lists of them on one device."""
        if not isinstance(index, (list, tuple)):
            index, grad, weight = (index,), (grad,), (weight,)
        if not index:
            return
        optimizer = self.optimizer
        optimizer._set_current_context(weight[0].context.device_id)
        index = [i.decode("utf-8") if isinstance(i, bytes) else i for i in index]
        states = [self._state(i, w) for i, w in zip(index, weight)]
        if len(index) == 1:
            optimizer.update_multi_precision(index[0], weight[0], grad[0], states[0])
            return
        limit = optimizer.aggregate_num or len(index)
        for group in _by_dtype(weight):
            for k in range(0, len(group), limit):
                optimizer.update_multi(
                    *_pick(group[k : k + limit], index, weight, grad, states)
                )

    def _state(self, index, weight):
        state = self.states.get(index)
        if self.states_synced.get(index):
            return state
        if index in self.states:
            state = self.sync_state_context(state, weight.context)
        else:
            state = self.optimizer.create_state_multi_precision(index, weight)
        self.states[index] = state
        self.states_synced[index] = True
        return state

    def sync_state_context(self, state, context):
        """The state with all its arrays on `context`."""
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, (tuple, list)):
            return type(state)(self.sync_state_context(part, context) for part in state)
        return state

    def set_states(self, states):
        """Takes over what get_states() gave, or MXNet's pickled states."""
        loaded, optimizer = state_file.loads(states)
        self.states = loaded
        if optimizer is not None:
            self.optimizer = optimizer
        self.states_synced = dict.fromkeys(loaded, False)

    def get_states(self, dump_optimizer=False):
        """The states as bytes, with the optimizer itself where wanted."""
        return state_file.dumps(self.states, self.optimizer if dump_optimizer else None)


def _by_dtype(weights):
    """Positions grouped by dtype, as fused operators take one dtype."""
    groups = {}
    for k, weight in enumerate(weights):
        groups.setdefault(weight.dtype, []).append(k)
    return groups.values()


def _pick(positions, *lists):
    if len(positions) == len(lists[0]):
        return lists
    return [[values[k] for k in positions] for values in lists]


def get_updater(optimizer):
    """An Updater for the optimizer."""
    return Updater(optimizer)
