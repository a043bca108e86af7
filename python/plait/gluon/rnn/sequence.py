"""Sequences as one array or as a list of steps: conversion, masking, reversal."""

from ... import ndarray as nd
from ...base import _as_list
from ...error import check


def is_array(x):
    """Whether a sequence is one array rather than a list of steps."""
    return isinstance(x, nd.NDArray)


def format_sequence(length, inputs, layout, merge, in_layout=None):
    """(inputs, time axis, F, batch size): one array (merge True), a list (False), or as
    it is.

    layout places time (T) and batch (N); in_layout is that of the inputs where it
    differs.
    """
    check(
        inputs is not None,
        "unroll(inputs=None) has been deprecated. Please create input "
        "variables outside unroll.",
    )
    axis = layout.find("T")
    in_axis = axis if in_layout is None else in_layout.find("T")
    if is_array(inputs):
        batch_size = inputs.shape[layout.find("N")]
        if merge is False:
            steps = inputs.shape[in_axis]
            check(
                length is None or length == steps,
                "the sequence has %d steps; expected %s",
                steps,
                length,
            )
            inputs = _as_list(
                nd.split(inputs, axis=in_axis, num_outputs=steps, squeeze_axis=1)
            )
    else:
        check(
            length is None or len(inputs) == length,
            "the sequence has %d steps; expected %s",
            len(inputs),
            length,
        )
        batch_size = inputs[0].shape[0]
        if merge is True:
            inputs = nd.stack(*inputs, axis=axis)
            in_axis = axis
    if is_array(inputs) and axis != in_axis:
        inputs = nd.swapaxes(inputs, dim1=axis, dim2=in_axis)
    return inputs, axis, nd, batch_size


def mask_steps(F, data, length, valid_length, time_axis, merge):
    """The sequence with zeros after each sample's valid length."""
    if not is_array(data):
        data = F.stack(*data, axis=time_axis)
    masked = F.SequenceMask(
        data, sequence_length=valid_length, use_sequence_length=True, axis=time_axis
    )
    if merge:
        return masked
    return _as_list(
        F.split(masked, num_outputs=length, axis=time_axis, squeeze_axis=True)
    )


def reverse_steps(steps, length, valid_length=None):
    """The list of steps backwards, each sample within its valid length."""
    if valid_length is None:
        return list(reversed(steps))
    turned = nd.SequenceReverse(
        nd.stack(*steps, axis=0), sequence_length=valid_length, use_sequence_length=True
    )
    if length == 1:
        return [turned[0]]
    return list(nd.split(turned, axis=0, num_outputs=length, squeeze_axis=True))


def first_states(cell, begin_state, inputs, batch_size):
    """begin_state, or the cell's own on the device of the inputs."""
    if begin_state is not None:
        return begin_state
    with (inputs if is_array(inputs) else inputs[0]).context:
        return cell.begin_state(func=nd.zeros, batch_size=batch_size)
