"""plait.sym.random: draws of distributions, with numbers or symbols as parameters."""

from ..error import MXNetValueError
from ..ndarray._core import _Null
from ._op import install as _install
from ._op import op
from .symbol import Symbol

__all__ = [
    "uniform", "normal", "randn", "poisson", "exponential", "gamma",
    "negative_binomial", "generalized_negative_binomial", "multinomial", "shuffle",
    "randint",
]  # fmt: skip


def _sample(distribution, params, shape, dtype, kwargs):
    """Draws of one distribution, or of one for each element of the parameters."""
    values = list(params.values())
    symbols = [isinstance(v, Symbol) for v in values]
    if all(symbols):
        return op("_sample_" + distribution)(
            *values, shape=shape, dtype=dtype, **kwargs
        )
    if any(symbols):
        raise MXNetValueError(
            "random.%s: distribution parameters must all have the same type, but got "
            "%s" % (distribution, [type(v).__name__ for v in values])
        )
    return op("_random_" + distribution)(shape=shape, dtype=dtype, **params, **kwargs)


def uniform(low=0, high=1, shape=_Null, dtype=_Null, **kwargs):
    """Numbers of the uniform distribution on [low, high)."""
    return _sample("uniform", {"low": low, "high": high}, shape, dtype, kwargs)


def normal(loc=0, scale=1, shape=_Null, dtype=_Null, **kwargs):
    """Numbers of the normal distribution."""
    if isinstance(loc, Symbol):
        return _sample("normal", {"mu": loc, "sigma": scale}, shape, dtype, kwargs)
    return _sample("normal", {"loc": loc, "scale": scale}, shape, dtype, kwargs)


def randn(*shape, loc=0, scale=1, dtype=_Null, **kwargs):
    """normal() with the shape as arguments."""
    return normal(loc, scale, shape, dtype, **kwargs)


def poisson(lam=1, shape=_Null, dtype=_Null, **kwargs):
    """Numbers of the Poisson distribution."""
    return _sample("poisson", {"lam": lam}, shape, dtype, kwargs)


def exponential(scale=1, shape=_Null, dtype=_Null, **kwargs):
    """Numbers of the exponential distribution of mean `scale`."""
    return _sample("exponential", {"lam": 1.0 / scale}, shape, dtype, kwargs)


def gamma(alpha=1, beta=1, shape=_Null, dtype=_Null, **kwargs):
    """Numbers of the gamma distribution."""
    return _sample("gamma", {"alpha": alpha, "beta": beta}, shape, dtype, kwargs)


def negative_binomial(k=1, p=1, shape=_Null, dtype=_Null, **kwargs):
    """Numbers of the negative binomial distribution."""
    return _sample("negative_binomial", {"k": k, "p": p}, shape, dtype, kwargs)


def generalized_negative_binomial(mu=1, alpha=1, shape=_Null, dtype=_Null, **kwargs):
    """Numbers of the generalized negative binomial distribution."""
    return _sample(
        "generalized_negative_binomial",
        {"mu": mu, "alpha": alpha},
        shape,
        dtype,
        kwargs,
    )


def multinomial(data, shape=_Null, get_prob=True, dtype="int32", **kwargs):
    """Classes drawn with the probabilities of the last axis."""
    return op("_sample_multinomial")(
        data, shape=shape, get_prob=get_prob, dtype=dtype, **kwargs
    )


def shuffle(data, **kwargs):
    """The rows in a random order."""
    return op("_shuffle")(data, **kwargs)


def randint(low, high, shape=_Null, dtype=_Null, **kwargs):
    """Whole numbers of [low, high)."""
    return _sample("randint", {"low": low, "high": high}, shape, dtype, kwargs)


_install({"random": globals()})
