"""Mixed precision while training: operators that cast their inputs, and loss scales."""

import contextlib
import functools
import logging

from ... import _plait
from ... import ndarray as nd
from ... import optimizer as opt
from ... import symbol as sym
from ...error import MXNetTypeError
from ...gluon import trainer as _trainer
from ...ndarray._core import bfloat16  # noqa: F401  (MXNet's place for the dtype)
from . import lists
from .convert import (
    convert_bucketing_module,
    convert_hybrid_block,
    convert_model,
    convert_symbol,
)
from .loss_scaler import LossScaler
from .rules import (
    AmpError,
    list_conditional_fp32_ops,
    list_fp32_ops,
    list_loss_output_functions,
    list_lp16_fp32_ops,
    list_lp16_ops,
    list_lp16_use_fp32_params,
    list_widest_type_cast,
    rules_of,
    target_name,
)

__all__ = [
    "init",
    "init_trainer",
    "scale_loss",
    "unscale",
    "convert_model",
    "convert_hybrid_block",
    "convert_bucketing_module",
    "convert_symbol",
    "list_lp16_ops",
    "list_fp32_ops",
    "list_lp16_fp32_ops",
    "list_conditional_fp32_ops",
    "list_widest_type_cast",
    "list_loss_output_functions",
    "list_lp16_use_fp32_params",
]

# ------------------------------------------------- training

_amp_initialized = False  # libraries look at it, under this name
_target = None  # the name of the dtype, once init() was called
_loss_scaler = None
_first_scaler_taken = False
_wrapped = []  # (namespace, name, original)


def init(
    target_dtype="float16",
    target_precision_ops=None,
    conditional_fp32_ops=None,
    fp32_ops=None,
):
    """Makes operators cast their inputs from here on: calls on arrays and graphs that
    are composed, in all threads. Call it before networks are made.

    The lists replace the default ones (list_lp16_ops and so on). A second call with the
    same target does nothing.
    """
    global _amp_initialized, _target, _loss_scaler, _first_scaler_taken
    name = target_name(target_dtype)
    if _amp_initialized:
        if _target != name:
            raise AmpError(
                "amp.init: it was called for %s before, and now for %s; one dtype for "
                "the process was expected" % (_target, name)
            )
        return
    rules = rules_of(name, target_precision_ops, conditional_fp32_ops, fp32_ops)
    _plait.set_autocast(rules)
    _amp_initialized, _target = True, name
    _loss_scaler = LossScaler()
    _first_scaler_taken = False
    logging.info("Using AMP")
    for namespace, wrap in ((nd, _scaled), (sym, _warning)):
        for function in lists.classes.LOSS_OUTPUTS:
            for module in (namespace, namespace.op):
                original = getattr(module, function)
                _wrapped.append((module, function, original))
                setattr(module, function, wrap(original))


def _off():
    """Takes init() back: for tests, which share a process."""
    global _amp_initialized, _target, _loss_scaler
    _plait.set_autocast(None)
    _amp_initialized = False
    _target = _loss_scaler = None
    while _wrapped:
        module, name, original = _wrapped.pop()
        setattr(module, name, original)


def _scaled(function):
    """A loss that makes its gradient itself, with the loss scale in it."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        scale = kwargs.pop("grad_scale", 1.0) * _loss_scaler.loss_scale
        return function(*args, grad_scale=scale, **kwargs)

    return call


def _warning(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        logging.warning(
            "%s does not support dynamic loss scaling in symbolic and hybridized "
            "execution.",
            function.__name__,
        )
        return function(*args, **kwargs)

    return call


def _trainer_of(thing, what):
    if isinstance(thing, _trainer.Trainer):
        return thing
    if isinstance(thing, opt.Optimizer):
        raise MXNetTypeError("%s: AMP works with a Gluon Trainer only" % what)
    raise MXNetTypeError(
        "%s: got %s; a gluon.Trainer was expected" % (what, type(thing).__name__)
    )


def init_trainer(optimizer_or_trainer):
    """Gives a trainer a loss scale that adapts; steps that overflow are left out."""
    global _first_scaler_taken
    if not _amp_initialized:
        raise AmpError(
            "amp.init_trainer: AMP is not initialized; call amp.init() first"
        )
    trainer = _trainer_of(optimizer_or_trainer, "amp.init_trainer")
    # The first trainer shares its scale with the losses that make gradients themselves.
    trainer._amp_loss_scaler = LossScaler() if _first_scaler_taken else _loss_scaler
    trainer._amp_original_scale = trainer._scale
    _first_scaler_taken = True


@contextlib.contextmanager
def scale_loss(loss, optimizer_or_trainer):
    """with scale_loss(loss, trainer) as scaled: autograd.backward(scaled).

    The loss times the scale; trainer.step() divides the gradients by it again.
    """
    trainer = optimizer_or_trainer
    scaler = getattr(trainer, "_amp_loss_scaler", None)
    if scaler is None:
        raise AmpError(
            "amp.scale_loss: the trainer has no loss scaler; call amp.init_trainer()"
        )
    trainer._scale = trainer._amp_original_scale / scaler.loss_scale
    if isinstance(loss, (list, tuple)):
        yield [part * scaler.loss_scale for part in loss]
    else:
        yield scaler.loss_scale * loss


def unscale(optimizer_or_trainer):
    """Divides the gradients by the loss scale now, before step(): for clipping."""
    trainer = _trainer_of(optimizer_or_trainer, "amp.unscale")
    for param in trainer._params:
        if param.grad_req == "null":
            continue
        for grad in param.list_grad():
            grad *= trainer._scale
    trainer._scale = 1.0
