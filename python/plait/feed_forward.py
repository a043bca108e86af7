"""FeedForward: the oldest training interface, in the manner of scikit-learn.

It is kept for old scripts and stands on Module, which new programs use directly.
"""

import warnings

import numpy as np

from . import io
from . import metric as metrics
from . import ndarray as nd
from .callback import LogValidationMetricsCallback
from .context import Context, cpu
from .error import CheckError, MXNetTypeError, MXNetValueError, check
from .initializer import Uniform

try:
    from sklearn.base import BaseEstimator as BASE_ESTIMATOR
except ImportError:
    BASE_ESTIMATOR = object

_UNIFORM = Uniform(0.01)
_LOG = LogValidationMetricsCallback()


def _labels_of(data, labels):
    """A vector of labels for an array of data."""
    if not isinstance(labels, (np.ndarray, nd.NDArray)):
        raise MXNetTypeError(
            "FeedForward: y is a %s; expected an array, as X is one"
            % type(labels).__name__
        )
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels.reshape((-1,))
    if labels.ndim != 1 or labels.shape[0] != data.shape[0]:
        raise MXNetValueError(
            "FeedForward: y has shape %s; expected (%d,), as X has shape %s"
            % (labels.shape, data.shape[0], data.shape)
        )
    return labels


class FeedForward(BASE_ESTIMATOR):
    """[deprecated] A symbol with parameters that trains and predicts; use Module.

    symbol may be a function from a bucket key to a symbol, for data with buckets.
    Further keyword arguments go to the optimizer.
    """

    def __init__(
        self,
        symbol,
        ctx=None,
        num_epoch=None,
        epoch_size=None,
        optimizer="sgd",
        initializer=_UNIFORM,
        numpy_batch_size=128,
        arg_params=None,
        aux_params=None,
        allow_extra_params=False,
        begin_epoch=0,
        **kwargs,
    ):
        warnings.warn(
            "FeedForward is deprecated; use Module", DeprecationWarning, stacklevel=2
        )
        generates = callable(symbol) and not hasattr(symbol, "list_arguments")
        self.sym_gen = symbol if generates else None
        self.symbol = None if generates else symbol
        self.ctx = [cpu()] if ctx is None else ctx
        if isinstance(self.ctx, Context):
            self.ctx = [self.ctx]
        self.num_epoch = num_epoch
        self.epoch_size = epoch_size
        self.optimizer = optimizer
        self.initializer = initializer
        self.numpy_batch_size = numpy_batch_size
        self.arg_params = arg_params
        self.aux_params = aux_params
        self.allow_extra_params = allow_extra_params
        self.begin_epoch = begin_epoch
        self.kwargs = dict(kwargs)
        self._predictor = None

    def __getstate__(self):
        return {**self.__dict__, "_predictor": None}

    def __setstate__(self, state):
        self.__dict__.update(state)

    # Data.

    def _init_iter(self, X, y, is_train):
        if isinstance(X, (np.ndarray, nd.NDArray)):
            if y is None:
                if is_train:
                    raise MXNetValueError("FeedForward: y is missing, but X is arrays")
                y = np.zeros(X.shape[0])
            return io.NDArrayIter(
                X,
                _labels_of(X, y),
                min(X.shape[0], self.numpy_batch_size),
                shuffle=is_train,
                last_batch_handle="roll_over" if is_train else "pad",
            )
        if not isinstance(X, io.DataIter):
            raise MXNetTypeError(
                "FeedForward: X is a %s; expected an array or a DataIter"
                % type(X).__name__
            )
        return X

    def _init_eval_iter(self, eval_data):
        if eval_data is None or isinstance(eval_data, io.DataIter):
            return eval_data
        if not isinstance(eval_data, (tuple, list)) or len(eval_data) != 2:
            raise MXNetTypeError(
                "FeedForward: eval_data is a %s; expected a DataIter or a pair of "
                "arrays" % type(eval_data).__name__
            )
        data, labels = eval_data
        if labels is None and isinstance(data, io.DataIter):
            return data
        if data is None:
            raise MXNetValueError("FeedForward: the data of eval_data are None")
        data, labels = (
            np.array(x) if isinstance(x, list) else x for x in (data, labels)
        )
        return self._init_iter(data, labels, is_train=True)

    # Training.

    def fit(
        self,
        X,
        y=None,
        eval_data=None,
        eval_metric="acc",
        epoch_end_callback=None,
        batch_end_callback=None,
        kvstore="local",
        logger=None,
        work_load_list=None,
        monitor=None,
        eval_end_callback=_LOG,
        eval_batch_end_callback=None,
    ):
        """Trains for num_epoch epochs on arrays X, y or on a DataIter X."""
        from . import module  # which needs this one's package

        data = self._init_iter(X, y, is_train=True)
        names = [[x[0] for x in d] for d in (data.provide_data, data.provide_label)]
        settings = {"context": self.ctx, "work_load_list": work_load_list}
        if logger is not None:
            settings["logger"] = logger
        if self.sym_gen is None:
            model = module.Module(self.symbol, *names, **settings)
        else:
            key = data.default_bucket_key
            self.symbol = self.sym_gen(key)
            model = module.BucketingModule(
                lambda key: (self.sym_gen(key), *names), key, **settings
            )
        if self.epoch_size is not None:
            data = io.ResizeIter(data, self.epoch_size, reset_internal=False)
        model.fit(
            data,
            self._init_eval_iter(eval_data),
            eval_metric,
            epoch_end_callback=epoch_end_callback,
            batch_end_callback=_counting_from_one(batch_end_callback),
            kvstore=kvstore,
            optimizer=self.optimizer,
            optimizer_params=self.kwargs,
            eval_end_callback=eval_end_callback,
            eval_batch_end_callback=eval_batch_end_callback,
            initializer=self.initializer,
            arg_params=self.arg_params,
            aux_params=self.aux_params,
            allow_missing=True,
            begin_epoch=self.begin_epoch,
            num_epoch=self.num_epoch,
            monitor=monitor,
        )
        self.arg_params, self.aux_params = model.get_params()
        self._predictor = None

    # Prediction.

    def _predict_module(self, data):
        """A module bound to the shapes of `data`; kept for the next call."""
        from . import module

        if self.arg_params is None:
            raise CheckError(
                "FeedForward: there are no parameters; call fit() or give arg_params"
            )
        shapes = [(d[0], d[1]) for d in data.provide_data]
        if self._predictor is None or self._predictor[0] != shapes:
            names = [name for name, _ in shapes]
            arguments = set(self.symbol.list_arguments())
            labels = [
                d[0] for d in data.provide_label or () if d[0] in arguments
            ] or None
            model = module.Module(self.symbol, names, labels, context=self.ctx[:1])
            model.bind(
                data.provide_data,
                data.provide_label if labels else None,
                for_training=False,
            )
            known = arguments | set(self.symbol.list_auxiliary_states())
            extra = sorted(set(self.arg_params) - known)
            check(
                not extra or self.allow_extra_params,
                "FeedForward: the symbol has no argument %s; "
                "allow_extra_params=True ignores it",
                ", ".join(extra),
            )
            given = dict(self.arg_params)
            if labels is None:  # they are variables like others then
                known = self.symbol.infer_shape(**dict(shapes))[0]
                for name, shape in zip(self.symbol.list_arguments(), known):
                    if name.endswith("label") and name not in names:
                        given.setdefault(name, nd.zeros(shape))
            model.init_params(None, given, self.aux_params or {})
            self._predictor = (shapes, model)
        return self._predictor[1]

    def predict(self, X, num_batch=None, return_data=False, reset=True):
        """Outputs for X as NumPy arrays: one, or a list where the symbol has several.

        return_data=True gives (outputs, data, labels).
        """
        data = self._init_iter(X, None, is_train=False)
        model = self._predict_module(data)
        parts = []
        for outputs, _, batch in model.iter_predict(data, num_batch, reset):
            rows = data.batch_size - (batch.pad or 0)
            groups = [outputs]
            if return_data:
                groups += [[x[:rows] for x in batch.data]]
                groups += [[x[:rows] for x in batch.label or ()]]
            parts.append([[x.asnumpy() for x in group] for group in groups])
        results = [
            [np.concatenate(pieces) for pieces in zip(*group)] for group in zip(*parts)
        ]
        results = [r[0] if len(r) == 1 else r for r in results]
        return tuple(results) if return_data else results[0]

    def score(
        self, X, eval_metric="acc", num_batch=None, batch_end_callback=None, reset=True
    ):
        """The value of a metric on the iterator X; a list of them for a list."""
        data = self._init_iter(X, None, is_train=False)
        eval_metric = metrics.create(eval_metric)
        self._predict_module(data).score(
            data, eval_metric, num_batch, batch_end_callback, reset=reset
        )
        return eval_metric.get()[1]

    # Files.

    def save(self, prefix, epoch=None, remove_amp_cast=True):
        """Writes a checkpoint; the epoch is num_epoch by default."""
        from .model import save_checkpoint

        epoch = self.num_epoch if epoch is None else epoch
        check(epoch is not None, "FeedForward.save: epoch is missing")
        save_checkpoint(
            prefix, epoch, self.symbol, self.arg_params, self.aux_params,
            remove_amp_cast=remove_amp_cast,
        )  # fmt: skip

    @staticmethod
    def load(prefix, epoch, ctx=None, **kwargs):
        """A model from a checkpoint; training would go on after that epoch."""
        from .model import load_checkpoint

        symbol, arg_params, aux_params = load_checkpoint(prefix, epoch)
        return FeedForward(
            symbol, ctx=ctx, arg_params=arg_params, aux_params=aux_params,
            begin_epoch=epoch, **kwargs,
        )  # fmt: skip

    @staticmethod
    def create(
        symbol,
        X,
        y=None,
        ctx=None,
        num_epoch=None,
        epoch_size=None,
        optimizer="sgd",
        initializer=_UNIFORM,
        eval_data=None,
        eval_metric="acc",
        epoch_end_callback=None,
        batch_end_callback=None,
        kvstore="local",
        logger=None,
        work_load_list=None,
        eval_end_callback=_LOG,
        eval_batch_end_callback=None,
        **kwargs,
    ):
        """A new model, trained on X (and y)."""
        model = FeedForward(
            symbol, ctx=ctx, num_epoch=num_epoch, epoch_size=epoch_size,
            optimizer=optimizer, initializer=initializer, **kwargs,
        )  # fmt: skip
        model.fit(
            X, y, eval_data, eval_metric, epoch_end_callback, batch_end_callback,
            kvstore, logger, work_load_list, None, eval_end_callback,
            eval_batch_end_callback,
        )  # fmt: skip
        return model


def _counting_from_one(callbacks):
    """Callbacks of a batch's end that count batches from one, not from zero."""
    if callbacks is None:
        return None
    callbacks = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]

    def shifted(callback):
        return lambda param: callback(param._replace(nbatch=param.nbatch + 1))

    return [shifted(callback) for callback in callbacks]
