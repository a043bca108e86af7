"""ParameterDict: parameters by name, with a prefix and sharing; load and save of all of
them.
"""

from collections import OrderedDict, defaultdict

import numpy as np

from .. import initializer
from .. import ndarray as nd
from ..error import check
from ._parameter import Constant, Parameter
from .utils import _brief_print_list, _indent, _nearest

__all__ = ["ParameterDict"]

_DEFAULT_INIT = initializer.Uniform()


class ParameterDict:
    """Parameters by full name. `shared` is looked into before a parameter is made."""

    def __init__(self, prefix="", shared=None):
        self._prefix = prefix
        self._params = OrderedDict()
        self._shared = shared
        self._structure = None  # of a block's: full names by structural ones

    def __repr__(self):
        return "%s(\n%s\n)" % (
            self._prefix + " " if self._prefix else "",
            "\n".join(_indent("  %s" % p, 2) for p in self.values()),
        )

    def __getitem__(self, key):
        return self._params[key]

    def __iter__(self):
        return iter(self._params)

    def __contains__(self, key):
        return key in self._params

    def items(self):
        """(name, Parameter) pairs."""
        return self._params.items()

    def keys(self):
        """Full names."""
        return self._params.keys()

    def values(self):
        """Parameters."""
        return self._params.values()

    @property
    def prefix(self):
        """What get() puts before a name."""
        return self._prefix

    def _get_impl(self, name):
        param = self._params.get(name)
        if param is None and self._shared is not None:
            param = self._shared._get_impl(name)
            if param is not None:
                self._params[name] = param
        return param

    def get(self, name, **kwargs):
        """The parameter prefix+name, made with `kwargs` if neither here nor in
        `shared`.

        For one that exists, kwargs must agree with its attributes; unknown sizes of its
        shape are filled in from kwargs.
        """
        name = self._prefix + name
        param = self._get_impl(name)
        if param is None:
            param = self._params[name] = Parameter(name, **kwargs)
            return param
        for key, wanted in kwargs.items():
            existing = getattr(param, key, None)
            if existing is None:
                setattr(param, key, wanted)
            elif not _agree(param, key, wanted, existing):
                check(
                    wanted is None or wanted == existing,
                    "Cannot retrieve Parameter '%s' because desired attribute does not "
                    "match "
                    "with stored for attribute '%s': desired '%s' vs stored '%s'.",
                    name,
                    key,
                    wanted,
                    existing,
                )
        return param

    def get_constant(self, name, value=None):
        """The constant prefix+name; `value` makes it, or must equal what is there."""
        name = self._prefix + name
        param = self._get_impl(name)
        if param is None:
            if value is None:
                raise KeyError(
                    "No constant named '%s'. Please specify value if you want to "
                    "create a new constant." % name
                )
            param = self._params[name] = Constant(name, value)
        elif value is not None:
            check(
                isinstance(param, Constant),
                "Parameter '%s' already exists but it is not a constant.",
                name,
            )
            value = (
                value.asnumpy() if isinstance(value, nd.NDArray) else np.asarray(value)
            )
            check(
                param.shape == value.shape and (param.value.asnumpy() == value).all(),
                "Constant '%s' already exists but it's value doesn't match new value",
                name,
            )
        return param

    def update(self, other):
        """Takes over all parameters of another dict; equal names must be
        equal objects.
        """
        for name, param in other.items():
            check(
                self._params.get(name, param) is param,
                "Cannot update self with other because they have different Parameters "
                "with the "
                "same name '%s'",
                name,
            )
        self._params.update(other.items())

    def initialize(
        self, init=_DEFAULT_INIT, ctx=None, verbose=False, force_reinit=False
    ):
        """Initializes all; `init` is for those without an initializer of their own."""
        if verbose:
            init.set_verbosity(verbose=verbose)
        for param in self.values():
            param.initialize(None, ctx, init, force_reinit=force_reinit)

    def zero_grad(self):
        """Sets all gradients to zero, on each context in one call."""
        dense = defaultdict(list)
        for param in self.values():
            for grad in param._grad or ():
                if grad.stype == "default":
                    dense[grad.context].append(grad)
                else:
                    nd.zeros_like(grad, out=grad)
        for grads in dense.values():
            nd.reset_arrays(*grads, num_arrays=len(grads))

    def reset_ctx(self, ctx):
        """Moves all to other contexts."""
        for param in self.values():
            param.reset_ctx(ctx)

    def list_ctx(self):
        """The contexts that any of them is on."""
        return list({ctx for param in self.values() for ctx in param.list_ctx()})

    def setattr(self, name, value):
        """Sets an attribute of all: ``params.setattr('grad_req', 'null')``."""
        for param in self.values():
            setattr(param, name, value)

    def save(self, filename, strip_prefix=""):
        """Saves all by name, without a prefix that all must have."""
        arrays = {}
        for param in self.values():
            if not param.name.startswith(strip_prefix):
                raise ValueError(
                    "Prefix '%s' is to be striped before saving, but Parameter's "
                    "name '%s' does not start with '%s'. This may be due to your "
                    "Block shares parameters from other Blocks or you forgot to use "
                    "'with name_scope()' when creating child blocks."
                    % (strip_prefix, param.name, strip_prefix)
                )
            arrays[param.name[len(strip_prefix) :]] = param._reduce()
        nd.save(filename, arrays)

    def load(
        self,
        filename,
        ctx=None,
        allow_missing=False,
        ignore_extra=False,
        restore_prefix="",
        cast_dtype=False,
        dtype_source="current",
    ):
        """Loads all by name from a file; `restore_prefix` is put before the file's
        names.
        """
        for name in self.keys() if restore_prefix else ():
            check(
                name.startswith(restore_prefix),
                "restore_prefix is '%s' but Parameters name '%s' does not start with "
                "'%s'",
                restore_prefix,
                name,
                restore_prefix,
            )
        self.load_dict(
            nd.load(filename),
            ctx,
            allow_missing,
            ignore_extra,
            restore_prefix,
            filename,
            cast_dtype,
            dtype_source,
        )

    def load_dict(
        self,
        param_dict,
        ctx=None,
        allow_missing=False,
        ignore_extra=False,
        restore_prefix="",
        filename=None,
        cast_dtype=False,
        dtype_source="current",
    ):
        """Loads all by name from a dict of NDArrays; 'arg:' and 'aux:' are dropped."""
        pairs = param_dict.items() if isinstance(param_dict, dict) else param_dict
        arrays = {restore_prefix + strip_kind(name): array for name, array in pairs}
        if self._structure and not any(name in self._params for name in arrays):
            arrays = self._with_own_names(arrays)
        source = "file: %s" % filename if filename else "param_dict"
        skip = len(restore_prefix)
        for name in () if allow_missing else self.keys():
            check(
                name in arrays,
                "Parameter '%s' is missing in %s, which contains parameters: %s. "
                "Please make "
                "sure source and target networks have the same prefix.%s",
                name[skip:],
                source,
                _brief_print_list(arrays),
                "" if name in arrays else _nearest(name, arrays),
            )
        for name, array in arrays.items():
            if name in self._params:
                self._params[name]._load_init(
                    array, ctx, cast_dtype=cast_dtype, dtype_source=dtype_source
                )
            else:
                check(
                    ignore_extra,
                    "Parameter '%s' loaded from %s is not present in ParameterDict, "
                    "choices "
                    "are: %s. Set ignore_extra to True to ignore. Please make sure "
                    "source and "
                    "target networks have the same prefix.%s",
                    name[skip:],
                    source,
                    _brief_print_list(self._params),
                    "" if ignore_extra else _nearest(name, self._params),
                )

    def _with_own_names(self, arrays):
        """A file by Block.save_parameters(): structural names turned into full ones."""
        return {self._structure.get(k, k): array for k, array in arrays.items()}


def strip_kind(name):
    """A name from a checkpoint without its 'arg:' or 'aux:'."""
    return name[4:] if name.startswith(("arg:", "aux:")) else name


def _agree(param, key, wanted, existing):
    """Whether a wanted attribute fits the existing one; shapes are merged
    into `param`.
    """
    if key == "shape" and len(wanted) == len(existing):
        if any(a > 0 and b > 0 and a != b for a, b in zip(wanted, existing)):
            return False
        param._shape = tuple(b if a in (0, -1) else a for a, b in zip(wanted, existing))
        return True
    return key == "dtype" and np.dtype(wanted) == np.dtype(existing)
