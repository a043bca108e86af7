"""Choosing words by their scores."""

import numpy as np

from .... import ndarray as nd

__all__ = ["Sampler"]


class Sampler:
    """Words (B,) by scores (B, vocabulary).

    temperature divides the scores; 0 takes the largest. top_k: only so many of the
    largest count; 0: all. seed: of this sampler's own numbers; None: of NumPy's.
    """

    def __init__(self, temperature=1.0, top_k=0, seed=None):
        if temperature < 0 or top_k < 0:
            raise ValueError(
                "Sampler: temperature is %s and top_k %s; none below 0 was expected"
                % (temperature, top_k)
            )
        self._temperature, self._top_k = temperature, top_k
        self._random = np.random if seed is None else np.random.RandomState(seed)

    def __call__(self, scores):
        if self._temperature == 0:
            return nd.argmax(scores, axis=-1)
        # A few thousand numbers: NumPy is quick enough, and sums in double.
        x = scores.astype("float64").asnumpy() / self._temperature
        if 0 < self._top_k < x.shape[-1]:
            least = np.partition(x, -self._top_k, axis=-1)[:, -self._top_k, None]
            x = np.where(x < least, -np.inf, x)
        chances = np.exp(x - x.max(axis=-1, keepdims=True)).cumsum(axis=-1)
        drawn = self._random.random_sample((len(x), 1)) * chances[:, -1:]
        words = np.minimum((chances <= drawn).sum(axis=-1), x.shape[-1] - 1)
        return nd.array(words, ctx=scores.context)
