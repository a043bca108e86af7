"""Operators in Python as MXNet first had them, NumpyOp and NDArrayOp: an instance is
one node of a graph. They are custom operators underneath; see operator.CustomOp."""

import itertools
import warnings

from . import operator
from .error import MXNetNotImplementedError

__all__ = ["PythonOp", "NumpyOp", "NDArrayOp"]

_numbers = itertools.count()


class PythonOp:
    """What NumpyOp and NDArrayOp share: subclasses write forward and backward."""

    def __init__(self, need_top_grad=True):
        self.need_top_grad_ = need_top_grad
        warnings.warn(
            "%s has been deprecated. Please use CustomOp" % type(self).__name__,
            stacklevel=2,
        )

    def __call__(self, *args, **kwargs):
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args, **kwargs):
        """A node of a graph that runs this operator on the given symbols."""
        raise MXNetNotImplementedError(
            "PythonOp: %s derives from neither NumpyOp nor NDArrayOp"
            % type(self).__name__
        )

    def forward(self, in_data, out_data):
        """Computes out_data from in_data."""
        out_data[0][:] = in_data[0]

    def backward(self, out_grad, in_data, out_data, in_grad):
        """Computes in_grad, the gradients of in_data."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape):
        """(shapes of the arguments, of the outputs)."""
        return in_shape, [in_shape[0]]

    def list_outputs(self):
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self):
        """Names of the arguments."""
        return ["data"]

    def need_top_grad(self):
        """Whether backward reads the head gradients; losses do not."""
        return self.need_top_grad_

    def _node(self, wrapper, args, kwargs):
        from . import symbol

        op_type = "_python_op_%d" % next(_numbers)
        python_op = self  # kept alive by the class, and that by the registry

        @operator.register(op_type)
        class Prop(operator.CustomOpProp):
            def __init__(self):
                super().__init__(python_op.need_top_grad())

            def list_arguments(self):
                return python_op.list_arguments()

            def list_outputs(self):
                return python_op.list_outputs()

            def infer_shape(self, in_shape):
                return (*python_op.infer_shape(in_shape), [])

            def declare_backward_dependency(self, out_grad, in_data, out_data):
                declare = getattr(python_op, "declare_backward_dependency", None)
                if declare is None:
                    declare = super().declare_backward_dependency
                return declare(out_grad, in_data, out_data)

            def create_operator(self, ctx, in_shapes, in_dtypes):
                return wrapper(python_op)

        return symbol.Custom(*args, op_type=op_type, **kwargs)


class _OnArrays(operator.CustomOp):
    """Runs an NDArrayOp."""

    def __init__(self, python_op):
        self.op = python_op

    def forward(self, is_train, req, in_data, out_data, aux):
        self.op.forward(in_data=in_data, out_data=out_data)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.op.backward(
            out_grad=out_grad, in_data=in_data, out_data=out_data, in_grad=in_grad
        )


class _OnNumpy(operator.CustomOp):
    """Runs a NumpyOp: it works on copies, of which the results are copied back."""

    def __init__(self, python_op):
        self.op = python_op

    @staticmethod
    def _copies(arrays):
        return [None if x is None else x.asnumpy() for x in arrays]

    def forward(self, is_train, req, in_data, out_data, aux):
        results = self._copies(out_data)
        self.op.forward(in_data=self._copies(in_data), out_data=results)
        for i, result in enumerate(results):
            self.assign(out_data[i], req[i], result)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        results = self._copies(in_grad)
        self.op.backward(
            out_grad=self._copies(out_grad),
            in_data=self._copies(in_data),
            out_data=self._copies(out_data),
            in_grad=results,
        )
        for i, result in enumerate(results):
            self.assign(in_grad[i], req[i], result)


class NumpyOp(PythonOp):
    """An operator whose forward and backward work on NumPy arrays."""

    def get_symbol(self, *args, **kwargs):
        """A node of a graph that runs this operator on the given symbols."""
        return self._node(_OnNumpy, args, kwargs)


class NDArrayOp(PythonOp):
    """An operator whose forward and backward work on NDArrays."""

    def get_symbol(self, *args, **kwargs):
        """A node of a graph that runs this operator on the given symbols."""
        return self._node(_OnArrays, args, kwargs)

    def declare_backward_dependency(self, out_grad, in_data, out_data):
        """The numbers of the arrays that backward reads, of those given."""
        needed = list(out_grad) if self.need_top_grad() else []
        return needed + list(in_data) + list(out_data)
