"""Block and HybridBlock: the building blocks of networks."""

import re
import warnings
from collections import OrderedDict

from .. import initializer
from .. import ndarray as nd
from ..context import current_context
from . import block_file, graph
from .infer import Deferred, Deferring
from .naming import BlockScope
from .parameter import DeferredInitializationError, Parameter, ParameterDict
from .utils import HookHandle, _indent

__all__ = ["Block", "HybridBlock"]

_NDArray = nd.NDArray
_BlockScope = BlockScope  # MXNet's names, which libraries import
_flatten, _regroup = graph.flatten, graph.regroup
_DEFAULT_INIT = initializer.Uniform()


class Block:
    """A layer or a model. Subclasses implement forward().

    Blocks and Parameters assigned as attributes become its children and parameters.
    `prefix` begins the names of all parameters; `params` shares those of another block.
    """

    def __init__(self, prefix=None, params=None):
        # Plain attributes, past the registration in __setattr__.
        own = self.__dict__
        own["_empty_prefix"] = prefix == ""
        own["_prefix"], own["_params"] = BlockScope.create(
            prefix, params, self._alias()
        )
        own["_name_counts"] = {}
        own["_children"] = OrderedDict()
        own["_reg_params"] = {}
        own["_forward_hooks"] = OrderedDict()
        own["_forward_pre_hooks"] = OrderedDict()

    def __repr__(self):
        children = [
            "  (%s): %s" % (key, _indent(repr(block), 2))
            for key, block in self.__dict__.items()
            if isinstance(block, Block)
        ]
        return "%s(\n%s\n)" % (type(self).__name__, "\n".join(children))

    def __setattr__(self, name, value):
        existing = self.__dict__.get(name)
        if isinstance(existing, (Parameter, Block)) and not isinstance(
            value, type(existing)
        ):
            raise TypeError(
                "Changing attribute type for %s from %s to %s is not allowed."
                % (name, type(existing), type(value))
            )
        if isinstance(value, Block):
            self.register_child(value, name)
        elif isinstance(value, Parameter):
            assert name not in self._reg_params, (
                "Overriding Parameter attribute %s is not allowed. If you want to "
                "share "
                "parameters between blocks, please set 'params' at Block construction "
                "instead." % name
            )
            self._reg_params[name] = value
        object.__setattr__(self, name, value)

    def _alias(self):
        """The word that automatic names of this class begin with."""
        return type(self).__name__.lower()

    # Names, children and parameters.

    @property
    def prefix(self):
        """What the names of its parameters begin with."""
        return self._prefix

    @property
    def name(self):
        """The prefix without the '_' at its end."""
        return self._prefix[:-1] if self._prefix.endswith("_") else self._prefix

    def name_scope(self):
        """A `with` block in which children are named after this block."""
        return BlockScope(self)

    @property
    def _scope(self):
        return BlockScope(self)

    @property
    def params(self):
        """Its own parameters, without those of children."""
        return self._params

    def collect_params(self, select=None):
        """All parameters, children's included; `select` is a regular expression on
        names.
        """
        self._warn_of_hidden_blocks()
        found = ParameterDict(self._params.prefix)
        keep = re.compile(select).match if select else (lambda name: True)
        self._collect_into(found, keep)
        found._structure = {
            key: param.name for key, param in self._collect_params_with_prefix().items()
        }
        return found

    def _collect_into(self, found, keep):
        if (
            type(self).collect_params is not Block.collect_params
        ):  # a class with its own way
            found.update({n: p for n, p in self.collect_params().items() if keep(n)})
            return
        found.update({n: p for n, p in self._params.items() if keep(n)})
        for child in self._children.values():
            child._warn_of_hidden_blocks()
            child._collect_into(found, keep)

    def _warn_of_hidden_blocks(self):
        """Warns of blocks in plain lists and dicts, whose parameters nobody
        would find.
        """
        children = set(map(id, self._children.values()))

        def hidden(value):
            if isinstance(value, Block):
                return id(value) not in children
            if isinstance(value, dict):
                value = value.values()
            elif not isinstance(value, (list, tuple)):
                return False
            return any(hidden(v) for v in value)

        for key, value in self.__dict__.items():
            if (
                key != "_children"
                and not key.startswith("__")
                and isinstance(value, (list, tuple, dict))
                and value
                and hidden(value)
            ):
                warnings.warn(
                    '"%s.%s" is an unregistered container with Blocks. Note that '
                    "Blocks inside the list, tuple or dict will not be registered "
                    "automatically. Make sure to register them using register_child() "
                    "or switching to nn.Sequential/nn.HybridSequential instead."
                    % (type(self).__name__, key),
                    stacklevel=4,
                )

    def _collect_params_with_prefix(self, prefix=""):
        """Parameters by structural name: attribute names joined by dots."""
        if prefix:
            prefix += "."
        found = {prefix + key: param for key, param in self._reg_params.items()}
        for name, child in self._children.items():
            found.update(child._collect_params_with_prefix(prefix + name))
        return found

    def register_child(self, block, name=None):
        """Makes `block` a child; attributes that are blocks are registered by
        themselves.
        """
        self._children[str(len(self._children)) if name is None else name] = block

    def register_forward_pre_hook(self, hook):
        """Calls hook(block, inputs) before every forward(); returns a handle to detach
        it.
        """
        handle = HookHandle()
        handle.attach(self._forward_pre_hooks, hook)
        return handle

    def register_forward_hook(self, hook):
        """Calls hook(block, inputs, outputs) after every forward(); returns
        a handle.
        """
        handle = HookHandle()
        handle.attach(self._forward_hooks, hook)
        return handle

    def register_op_hook(self, callback, monitor_all=False):
        """Calls callback(name, op, array) for operators of hybridized children."""
        for child in self._children.values():
            child.register_op_hook(callback, monitor_all)

    def apply(self, fn):
        """Calls fn on every child, theirs included, and then on this block;
        returns it.
        """
        for child in self._children.values():
            child.apply(fn)
        fn(self)
        return self

    # Values.

    def initialize(
        self, init=_DEFAULT_INIT, ctx=None, verbose=False, force_reinit=False
    ):
        """Initializes all parameters; `init` is for those without their own
        initializer.
        """
        self.collect_params().initialize(init, ctx, verbose, force_reinit)

    def cast(self, dtype):
        """Casts all parameters."""
        for child in self._children.values():
            child.cast(dtype)
        for param in self._params.values():
            param.cast(dtype)

    def hybridize(self, active=True, **kwargs):
        """Hybridizes the children that can be; see HybridBlock.hybridize."""
        for child in self._children.values():
            child.hybridize(active, **kwargs)

    def compile(self, active=True, **kwargs):
        """Another name of hybridize()."""
        self.hybridize(active, **kwargs)

    def save_parameters(self, filename, deduplicate=False):
        """Saves all parameters under structural names; see load_parameters.

        deduplicate: a shared parameter is saved once instead of under each of its
        names.
        """
        block_file.save_parameters(self, filename, deduplicate)

    def load_parameters(
        self,
        filename,
        ctx=None,
        allow_missing=False,
        ignore_extra=False,
        cast_dtype=False,
        dtype_source="current",
    ):
        """Loads parameters that save_parameters, export or ParameterDict.save wrote.

        allow_missing, ignore_extra: what the file lacks, or has too much, is no error.
        cast_dtype with dtype_source 'current' casts the file's arrays, 'saved' the
        parameters.
        """
        block_file.load_parameters(
            self, filename, ctx, allow_missing, ignore_extra, cast_dtype, dtype_source
        )

    def save_params(self, filename):
        """[deprecated] Use save_parameters."""
        warnings.warn(
            "save_params is deprecated. Please use save_parameters. Note that if you "
            "want load from SymbolBlock later, please use export instead.",
            stacklevel=2,
        )
        self.collect_params().save(filename, strip_prefix=self.prefix)

    def load_params(self, filename, ctx=None, allow_missing=False, ignore_extra=False):
        """[deprecated] Use load_parameters."""
        warnings.warn(
            "load_params is deprecated. Please use load_parameters.", stacklevel=2
        )
        self.load_parameters(filename, ctx, allow_missing, ignore_extra)

    def save(self, prefix):
        """Saves <prefix>-model.json (names) and <prefix>-model.params for load()."""
        block_file.save_model(self, prefix)

    def load(self, prefix):
        """Loads what save() wrote into a block of the same structure."""
        block_file.load_model(self, prefix)

    # Running.

    def __call__(self, *args):
        if self._forward_pre_hooks:
            for hook in list(self._forward_pre_hooks.values()):
                hook(self, args)
        out = self.forward(*args)
        if self._forward_hooks:
            for hook in list(self._forward_hooks.values()):
                hook(self, args, out)
        return out

    def forward(self, *args):
        """The computation; subclasses implement it."""
        raise NotImplementedError(
            "%s: forward() is not implemented" % type(self).__name__
        )

    def summary(self, *inputs):
        """Prints a table of layers, output shapes and parameter counts for these
        inputs.
        """
        from .block_summary import print_summary

        print_summary(self, inputs)


class HybridBlock(Block):
    """A block whose hybrid_forward(F, x, *args, **params) runs on arrays, and on
    symbols.

    F is plait.nd; parameters come in by their attribute names. hybridize() turns on
    running by a traced graph, which `graph.trace` provides.
    """

    def __init__(self, prefix=None, params=None):
        super().__init__(prefix, params)
        own = self.__dict__
        own["_active"] = False
        own["_flags"] = {}
        own["_graph"] = None  # runs instead of hybrid_forward when there is one
        own["_op_hook"] = None  # (callback, whether it sees inputs)

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if isinstance(value, HybridBlock):
            self._clear_cached_op()

    def _clear_cached_op(self):
        own = self.__dict__
        own.pop("forward", None)
        if not self._active:
            own["_graph"] = None
        elif type(self).forward is HybridBlock.forward:
            own["_graph"] = graph.SymbolGraph()
        else:  # a class with a forward() of its own, which the trace stands before
            own["_graph"] = graph.TracedForward()
            own["forward"] = graph.Forwarding(self)

    def register_child(self, block, name=None):
        if not isinstance(block, HybridBlock):
            raise ValueError(
                "Children of HybridBlock must also be HybridBlock, but %s has type "
                "%s. If you are using Sequential, please try HybridSequential "
                "instead." % (block, type(block))
            )
        super().register_child(block, name)
        self._clear_cached_op()

    def hybridize(
        self,
        active=True,
        backend=None,
        clear=True,
        static_alloc=False,
        static_shape=False,
        inline_limit=2,
        forward_bulk_size=None,
        backward_bulk_size=None,
        **kwargs,
    ):
        """Turns running by a traced graph on or off, for children too.

        static_alloc keeps buffers between calls, static_shape the launch plan as well;
        the other options are accepted for compatibility.
        """
        if backend is not None:
            from ..symbol.backends import check_backend

            check_backend("hybridize", backend)
        self._active = active
        self._flags = dict(
            backend=backend,
            static_alloc=static_alloc,
            static_shape=static_shape,
            inline_limit=inline_limit,
            forward_bulk_size=forward_bulk_size,
            backward_bulk_size=backward_bulk_size,
            **kwargs,
        )
        if clear or not active or self._graph is None:
            self._clear_cached_op()
        if active and (self._forward_hooks or self._forward_pre_hooks):
            warnings.warn(
                '"%s" is being hybridized while still having forward hook/pre-hook. '
                "If it is a child of HybridBlock, the hooks will not take effect."
                % self.name,
                stacklevel=2,
            )
        super().hybridize(
            active,
            static_alloc=static_alloc,
            static_shape=static_shape,
            inline_limit=inline_limit,
            forward_bulk_size=forward_bulk_size,
            backward_bulk_size=backward_bulk_size,
        )

    def cast(self, dtype):
        self._clear_cached_op()
        super().cast(dtype)

    def forward(self, x, *args):
        """Runs the traced graph, or hybrid_forward with plait.nd and the parameters."""
        if self._graph is not None and self._graph.runs_hybrid_forward:
            return self._graph(self, x, *args)
        return self._forward_hybrid(x, *args)

    def _forward_untraced(self, x, *args):
        """What a graph stands for: a class's own forward, or hybrid_forward."""
        if type(self).forward is not HybridBlock.forward:
            return type(self).forward(self, x, *args)
        return self._forward_hybrid(x, *args)

    def _forward_hybrid(self, x, *args):
        """hybrid_forward with plait.nd and the parameters."""
        if not isinstance(x, _NDArray):
            return self._forward_other(x, args)
        for other in args:
            if not isinstance(other, _NDArray):
                graph.check_no_symbol(self, other)
        params = {}
        for name, param in self._reg_params.items():
            array = param._array
            if array is None:  # not made yet, or not on exactly one context
                return self._forward_on(x.context, x, args)
            params[name] = array
        return self.hybrid_forward(nd, x, *args, **params)

    def _forward_other(self, x, args):
        """forward() where the first input is not an array."""
        first = graph.first_array(x, args)
        if first is not None:
            graph.check_no_symbol(self, [x, *args])
            return self._forward_on(first.context, x, args)
        return graph.compose(self, x, args)

    def _forward_on(self, ctx, x, args):
        """hybrid_forward with the parameters of one context, which becomes current."""
        if ctx != current_context():
            with ctx:
                return self._forward_on(ctx, x, args)
        try:
            params = {name: param.data(ctx) for name, param in self._reg_params.items()}
        except DeferredInitializationError:
            return self._forward_deferred(ctx, x, args)
        return self.hybrid_forward(nd, x, *args, **params)

    def _forward_deferred(self, ctx, x, args):
        """The first forward(), which finds the shapes of parameters that
        are not known.
        """
        params = {}
        for name, param in self._reg_params.items():
            deferred = param._data is None and param._deferred_init
            params[name] = Deferred(param, ctx) if deferred else param.data(ctx)
        return self.hybrid_forward(Deferring(), x, *args, **params)

    def hybrid_forward(self, F, x, *args, **kwargs):
        """The computation, with F's operators; subclasses implement it."""
        raise NotImplementedError(
            "%s: hybrid_forward() is not implemented" % type(self).__name__
        )

    def infer_shape(self, *args):
        """Finds the shapes of all parameters from sample inputs."""
        from .. import autograd

        with autograd.pause():
            self.forward(*args)

    def infer_type(self, *args):
        """Sets the dtype of all float parameters to that of the sample inputs."""
        dtype = graph.first_array(args, ()).dtype
        for param in self.collect_params().values():
            if "float" in str(param.dtype):
                param.cast(dtype)

    def optimize_for(
        self,
        x,
        *args,
        backend=None,
        clear=False,
        static_alloc=False,
        static_shape=False,
        inline_limit=2,
        forward_bulk_size=None,
        backward_bulk_size=None,
        **kwargs,
    ):
        """Hybridizes and runs once, so that the graph is ready."""
        self.hybridize(
            True,
            backend,
            clear,
            static_alloc,
            static_shape,
            inline_limit,
            forward_bulk_size,
            backward_bulk_size,
            **kwargs,
        )
        self.forward(x, *args)

    def export(self, path, epoch=0, remove_amp_cast=True):
        """Writes <path>-symbol.json and <path>-NNNN.params for other languages."""
        graph.export(self, path, epoch, remove_amp_cast)

    def register_op_hook(self, callback, monitor_all=False):
        """Calls callback(name, operator, array) for what each operator gives when the
        block runs hybridized; with monitor_all for what it reads, too."""
        self.__dict__["_op_hook"] = (callback, bool(monitor_all))
        if self._graph is not None and self._graph.symbol is not None:
            self._graph.make_function(self)
        super().register_op_hook(callback, monitor_all)


def __getattr__(name):
    if name == "SymbolBlock":
        from .symbol_block import SymbolBlock

        return SymbolBlock
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
