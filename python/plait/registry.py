"""Registries of classes by lower-case name, as optimizers, metrics and initializers
use.
"""

import json
import warnings

_registries = {}


def _registry_of(base_class):
    return _registries.setdefault(base_class, {})


def get_registry(base_class):
    """A copy of the name -> class table of `base_class`."""
    return dict(_registry_of(base_class))


def get_register_func(base_class, nickname):
    """A function register(klass, name=None) for subclasses of `base_class`."""
    table = _registry_of(base_class)

    def register(klass, name=None):
        assert isinstance(klass, type) and issubclass(klass, base_class), (
            "Can only register subclass of %s" % base_class.__name__
        )
        key = (name or klass.__name__).lower()
        old = table.get(key)
        if old is not None and old is not klass:
            warnings.warn(
                "New %s %s.%s registered with name %s is overriding existing %s %s.%s"
                % (
                    nickname,
                    klass.__module__,
                    klass.__name__,
                    key,
                    nickname,
                    old.__module__,
                    old.__name__,
                ),
                UserWarning,
                stacklevel=2,
            )
        table[key] = klass
        return klass

    register.__doc__ = "Registers %s to the %s factory." % (
        base_class.__name__,
        nickname,
    )
    return register


def get_alias_func(base_class, nickname):
    """A decorator factory alias(*names) that registers a class under more names."""
    register = get_register_func(base_class, nickname)

    def alias(*names):
        def decorate(klass):
            for name in names:
                register(klass, name)
            return klass

        return decorate

    return alias


def get_create_func(base_class, nickname):
    """A function that makes an instance from a name, a JSON text, a dict or an
    instance.
    """
    table = _registry_of(base_class)

    def create(*args, **kwargs):
        what = args[0] if args else kwargs.pop(nickname)
        args = args[1:]
        if isinstance(what, base_class):
            assert not args and not kwargs, (
                "%s is already an instance. Additional arguments are invalid" % nickname
            )
            return what
        if isinstance(what, dict):
            return create(**what)
        assert isinstance(what, str), "%s must be of string type, got %s" % (
            nickname,
            type(what).__name__,
        )
        if what[:1] in "[{" and what:
            assert not args and not kwargs
            spec = json.loads(what)
            if isinstance(spec, dict):
                return create(**spec)
            return create(spec[0], **spec[1])
        klass = table.get(what.lower())
        assert klass is not None, (
            "%s is not registered. Please register with %s.register first; known are: "
            "%s" % (what, nickname, ", ".join(sorted(table)))
        )
        return klass(*args, **kwargs)

    create.__doc__ = (
        "Makes a %s from a name with arguments, a JSON text, a dict, or returns "
        "the instance given." % nickname
    )
    return create
