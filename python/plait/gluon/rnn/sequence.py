"""Sequences as one array or as a list of steps: conversion, masking, reversal."""

from ... import ndarray as nd
from ...base import _as_list
from ...error import check


def is_symbol(x):
    """Whether x is a Symbol, whose shape is not known."""
    return hasattr(x, "list_arguments")


def is_array(x):
    """Whether a sequence is one array or symbol rather than a list of steps."""
    return isinstance(x, nd.NDArray) or is_symbol(x)


def module_of(x):
    """plait.sym for a symbol or a list of symbols, plait.nd for arrays."""
    if is_symbol(x) or (isinstance(x, (list, tuple)) and x and is_symbol(x[0])):
        from ... import symbol

        return symbol
    return nd


def format_sequence(length, inputs, layout, merge, in_layout=None):
    """(inputs, time axis, F, batch size): one array (merge True), a list (False), or as
    it is.

    layout places time (T) and batch (N); in_layout is that of the inputs where it
    differs. The batch size of symbols is 0.
    """
    check(
        inputs is not None,
        "unroll(inputs=None) has been deprecated. Please create input "
        "variables outside unroll.",
    )
    axis = layout.find("T")
    in_axis = axis if in_layout is None else in_layout.find("T")
    F = module_of(inputs)
    if is_array(inputs):
        batch_size = 0 if is_symbol(inputs) else inputs.shape[layout.find("N")]
        if merge is False:
            steps = length if is_symbol(inputs) else inputs.shape[in_axis]
            check(
                length is None or length == steps,
                "the sequence has %d steps; expected %s",
                steps,
                length,
            )
            inputs = _steps(F, inputs, steps, in_axis)
    else:
        check(
            length is None or len(inputs) == length,
            "the sequence has %d steps; expected %s",
            len(inputs),
            length,
        )
        batch_size = 0 if is_symbol(inputs[0]) else inputs[0].shape[0]
        if merge is True:
            inputs = F.stack(*inputs, axis=axis)
            in_axis = axis
    if is_array(inputs) and axis != in_axis:
        inputs = F.swapaxes(inputs, dim1=axis, dim2=in_axis)
    return inputs, axis, F, batch_size


def mask_steps(F, data, length, valid_length, time_axis, merge):
    """The sequence with zeros after each sample's valid length."""
    if not is_array(data):
        data = F.stack(*data, axis=time_axis)
    masked = F.SequenceMask(
        data, sequence_length=valid_length, use_sequence_length=True, axis=time_axis
    )
    if merge:
        return masked
    return _steps(F, masked, length, time_axis)


def _steps(F, x, length, axis):
    """A list with one array or symbol for each step."""
    parts = F.split(x, num_outputs=length, axis=axis, squeeze_axis=True)
    return list(parts) if is_symbol(parts) else _as_list(parts)


def reverse_steps(steps, length, valid_length=None):
    """The list of steps backwards, each sample within its valid length."""
    if valid_length is None:
        return list(reversed(steps))
    F = module_of(steps)
    turned = F.SequenceReverse(
        F.stack(*steps, axis=0), sequence_length=valid_length, use_sequence_length=True
    )
    return _steps(F, turned, length, 0)


def first_states(cell, begin_state, inputs, batch_size):
    """begin_state, or the cell's own on the device of the inputs."""
    if begin_state is not None:
        return begin_state
    F = module_of(inputs)
    if F is not nd:
        return cell.begin_state(func=F.zeros, batch_size=batch_size)
    with (inputs if is_array(inputs) else inputs[0]).context:
        return cell.begin_state(func=nd.zeros, batch_size=batch_size)
