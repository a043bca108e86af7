"""The factor on the loss that keeps small gradients in the range of float16."""

import logging

from ... import autograd
from ...ndarray import multi_all_finite, ones

_LARGEST = 2.0**24
_PATIENCE = 2000  # steps without overflow before the factor grows
_AT_ONCE = 200  # arrays that one call looks at


class LossScaler:
    """A loss scale that halves when gradients overflow, and doubles after 2000 steps
    without overflow, up to 2^24. A change counts from the next step on."""

    def __init__(self):
        self._loss_scale = self._next_loss_scale = 2.0**16
        self._max_loss_scale = _LARGEST
        self._scale_seq_len = _PATIENCE
        self._unskipped = 0

    @property
    def loss_scale(self):
        """The factor of this step."""
        return self._loss_scale

    def has_overflow(self, params):
        """Whether some gradient of the parameters is infinite or NaN: such a step must
        not be taken. Ends the step: the scale of the next one counts from here on."""
        overflow = not self._all_finite(params)
        self._loss_scale = self._next_loss_scale
        if overflow:
            self._next_loss_scale = self._loss_scale / 2
            self._unskipped = 0
            logging.info("AMP: decreasing loss scale to %f", self._next_loss_scale)
            return True
        self._unskipped += 1
        if self._unskipped == self._scale_seq_len:
            self._unskipped = 0
            self._next_loss_scale = min(self._max_loss_scale, self._loss_scale * 2)
            logging.info("AMP: increasing loss scale to %f", self._next_loss_scale)
        return False

    @staticmethod
    def _all_finite(params):
        grads = [g for p in params if p.grad_req != "null" for g in p.list_grad()]
        if not grads:
            return True
        with autograd.pause():
            finite = ones((1,), ctx=grads[0].context)
            for i in range(0, len(grads), _AT_ONCE):
                part = grads[i : i + _AT_ONCE]
                multi_all_finite(
                    *part, num_arrays=len(part), init_output=False, out=finite
                )
        return bool(finite.asnumpy()[0])
