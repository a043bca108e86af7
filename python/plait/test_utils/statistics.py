"""Statistical tests of random number generators."""

import numpy as np

__all__ = [
    "gen_buckets_probs_with_ppf",
    "mean_check",
    "var_check",
    "chi_square_check",
    "verify_generator",
]


def gen_buckets_probs_with_ppf(ppf, nbuckets):
    """(buckets, probabilities): equally probable intervals by the inverse
    distribution.
    """
    assert nbuckets > 0
    edges = [ppf(i / float(nbuckets)) for i in range(nbuckets + 1)]
    return list(zip(edges[:-1], edges[1:])), [1.0 / nbuckets] * nbuckets


def mean_check(generator, mu, sigma, nsamples=1000000):
    """Whether the samples' mean is within three standard errors of mu."""
    mean = np.array(generator(nsamples)).mean()
    return abs(mean - mu) < 3 * sigma / np.sqrt(nsamples)


def var_check(generator, sigma, nsamples=1000000):
    """Whether the samples' variance is within three standard errors of sigma^2."""
    variance = np.array(generator(nsamples)).var(ddof=1)
    return abs(variance - sigma**2) < 3 * np.sqrt(2 * sigma**4 / (nsamples - 1))


def chi_square_check(generator, buckets, probs, nsamples=1000000):
    """(p, observed, expected) of a chi-square test.

    buckets are values of a discrete distribution, or intervals in ascending order.
    """
    import scipy.stats as ss

    assert isinstance(buckets, list) and len(probs) == len(buckets)
    samples = np.array(generator(nsamples)).ravel()
    expected = (nsamples * np.array(probs, dtype=np.float32)).astype(np.int32)
    if isinstance(buckets[0], (list, tuple)):
        edges = np.array(buckets, dtype=np.float32).ravel()
        assert (np.diff(edges) >= 0).all(), "buckets overlap or are not in order"
        places = np.searchsorted(edges, samples, side="right") // 2
        observed = np.array([(places == i).sum() for i in range(len(buckets))])
    else:
        observed = np.array([(samples == value).sum() for value in buckets])
    # Sums that differ by rounding alone are no finding, but SciPy refuses them.
    scaled = (
        expected * (observed.sum() / float(expected.sum()))
        if np.isclose(observed.sum(), expected.sum(), rtol=1e-3)
        else expected
    )
    _, p = ss.chisquare(f_obs=observed, f_exp=scaled)
    return p, observed, expected


def verify_generator(
    generator, buckets, probs, nsamples=1000000, nrepeat=5, success_rate=0.2, alpha=0.05
):
    """Asserts that enough of `nrepeat` chi-square tests pass at level alpha."""
    results = [
        chi_square_check(generator, buckets, probs, nsamples) for _ in range(nrepeat)
    ]
    values = [p for p, _, _ in results]
    if (np.array(values) > alpha).sum() < nrepeat * success_rate:
        raise AssertionError(
            "Generator test fails, Chi-square p=%s, obs_freq=%s, "
            "expected_freq=%s.\nbuckets=%s, probs=%s"
            % (
                values,
                [o for _, o, _ in results],
                [e for _, _, e in results],
                buckets,
                probs,
            )
        )
    return values
