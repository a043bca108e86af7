"""BatchProcessor: what an estimator does with one batch."""

from .... import autograd
from ...utils import split_and_load

__all__ = ["BatchProcessor"]


class BatchProcessor:
    """Runs the network over all devices; subclasses may do otherwise."""

    def _get_data_and_label(self, batch, ctx, batch_axis=0):
        return (
            split_and_load(batch[0], ctx_list=ctx, batch_axis=batch_axis),
            split_and_load(batch[1], ctx_list=ctx, batch_axis=batch_axis),
        )

    def evaluate_batch(self, estimator, val_batch, batch_axis=0):
        """(data, labels, predictions, losses), each a list by device."""
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        loss = [estimator.val_loss(y_hat, y) for y_hat, y in zip(pred, label)]
        return data, label, pred, loss

    def fit_batch(self, estimator, train_batch, batch_axis=0):
        """(data, labels, predictions, losses), after forward and backward."""
        data, label = self._get_data_and_label(
            train_batch, estimator.context, batch_axis
        )
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            loss = [estimator.loss(y_hat, y) for y_hat, y in zip(pred, label)]
        for one in loss:
            one.backward()
        return data, label, pred, loss
