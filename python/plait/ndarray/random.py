"""plait.nd.random: samples of distributions, with numbers or arrays as parameters."""

from .. import _plait
from ..error import MXNetTypeError, MXNetValueError
from ._core import NDArray, _Null, op
from ._namespaces import install as _install

__all__ = [
    "uniform",
    "normal",
    "randn",
    "poisson",
    "exponential",
    "gamma",
    "negative_binomial",
    "generalized_negative_binomial",
    "multinomial",
    "shuffle",
    "randint",
]


def _sample(distribution, params, shape, dtype, ctx, out, kwargs):
    """Draws of one distribution, or of one for each element of the parameters."""
    values = list(params.values())
    shape = kwargs.pop("size", shape)
    if any(isinstance(v, NDArray) for v in values):
        if not all(isinstance(v, NDArray) for v in values):
            raise MXNetValueError(
                "random.%s: distribution parameters must all have the same "
                "type, but got both %s and NDArray"
                % (distribution, [type(v).__name__ for v in values])
            )
        return op("_sample_" + distribution)(*values, shape=shape, dtype=dtype, out=out)
    for name, v in params.items():
        if not isinstance(v, (int, float)) and not hasattr(v, "__float__"):
            raise MXNetValueError(
                "random.%s: parameter %s is %s; a number or an NDArray was "
                "expected" % (distribution, name, type(v).__name__)
            )
    if shape is _Null and out is None:
        shape = (1,)
    if dtype is _Null and out is None and distribution != "randint":
        dtype = _plait.default_dtype()
    if out is not None and shape is _Null:
        shape = out.shape
    return op("_random_" + distribution)(
        shape=shape, dtype=dtype, out=out, ctx=ctx, **params
    )


def uniform(low=0, high=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Numbers of the uniform distribution on [low, high)."""
    return _sample(
        "uniform", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs
    )


def normal(loc=0, scale=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Numbers of the normal distribution with mean loc and standard deviation scale."""
    return _sample(
        "normal", {"loc": loc, "scale": scale}, shape, dtype, ctx, out, kwargs
    )


def randn(*shape, **kwargs):
    """Numbers of the normal distribution, of a shape given as arguments."""
    loc, scale = kwargs.pop("loc", 0), kwargs.pop("scale", 1)
    dtype, ctx = kwargs.pop("dtype", _Null), kwargs.pop("ctx", None)
    out = kwargs.pop("out", None)
    if isinstance(loc, NDArray) != isinstance(scale, NDArray):
        raise MXNetValueError(
            "random.randn: loc and scale must both be numbers or NDArrays"
        )
    return normal(loc, scale, shape or _Null, dtype, ctx, out)


def poisson(lam=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Numbers of the Poisson distribution with mean lam."""
    return _sample("poisson", {"lam": lam}, shape, dtype, ctx, out, kwargs)


def exponential(scale=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Numbers of the exponential distribution with mean scale."""
    lam = 1.0 / scale
    return _sample("exponential", {"lam": lam}, shape, dtype, ctx, out, kwargs)


def gamma(alpha=1, beta=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Numbers of the gamma distribution with shape alpha and scale beta."""
    return _sample(
        "gamma", {"alpha": alpha, "beta": beta}, shape, dtype, ctx, out, kwargs
    )


def negative_binomial(k=1, p=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Failures before the k-th success of probability p."""
    return _sample(
        "negative_binomial", {"k": k, "p": p}, shape, dtype, ctx, out, kwargs
    )


def generalized_negative_binomial(
    mu=1, alpha=1, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs
):
    """Numbers of the negative binomial distribution by mean mu and dispersion alpha."""
    return _sample(
        "generalized_negative_binomial",
        {"mu": mu, "alpha": alpha},
        shape,
        dtype,
        ctx,
        out,
        kwargs,
    )


def multinomial(data, shape=_Null, get_prob=False, out=None, dtype="int32", **kwargs):
    """Indices drawn by the probabilities in the last axis of data."""
    return op("_sample_multinomial")(
        data, shape=shape, get_prob=get_prob, dtype=dtype, out=out
    )


def shuffle(data, **kwargs):
    """The array with its first axis in random order."""
    return op("_shuffle")(data, **kwargs)


def randint(low, high, shape=_Null, dtype=_Null, ctx=None, out=None, **kwargs):
    """Integers from low (included) to high (not), int32 by default."""
    if isinstance(low, NDArray) or isinstance(high, NDArray):
        raise MXNetTypeError("random.randint: low and high are numbers here")
    return _sample(
        "randint", {"low": low, "high": high}, shape, dtype, ctx, out, kwargs
    )


_install({"random": globals()})
