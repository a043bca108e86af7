"""Vocabulary: tokens and their numbers."""

import collections

from ...error import MXNetIndexError, check

__all__ = ["Vocabulary"]

UNKNOWN_INDEX = 0


class Vocabulary:
    """Numbers the tokens of a text: the unknown token is 0, then come the reserved
    tokens, then the keys of `counter`, the most frequent first, equal ones in order.

    most_freq_count bounds how many keys of the counter are taken, min_freq is how often
    one must occur. Tokens may be any hashable objects of one type.
    """

    def __init__(
        self,
        counter=None,
        most_freq_count=None,
        min_freq=1,
        unknown_token="<unk>",
        reserved_tokens=None,
    ):
        check(
            min_freq > 0, "Vocabulary: min_freq is %r; above 0 was expected", min_freq
        )
        reserved = None if reserved_tokens is None else list(reserved_tokens)
        check(
            len(set(reserved or ())) == len(reserved or ()),
            "Vocabulary: a token stands twice in reserved_tokens %r",
            reserved,
        )
        check(
            unknown_token not in (reserved or ()),
            "Vocabulary: unknown_token %r stands in reserved_tokens, too",
            unknown_token,
        )
        self._unknown_token = unknown_token
        self._reserved_tokens = reserved
        self._idx_to_token = [unknown_token] + (reserved or [])
        self._token_to_idx = {t: i for i, t in enumerate(self._idx_to_token)}
        if counter is not None:
            self._add_keys(counter, most_freq_count, min_freq)

    def _add_keys(self, counter, most_freq_count, min_freq):
        check(
            isinstance(counter, collections.Counter),
            "Vocabulary: counter is a %s; a collections.Counter was expected",
            type(counter).__name__,
        )
        most = len(counter) if most_freq_count is None else most_freq_count
        limit = len(self._idx_to_token) + most
        for token in sorted(sorted(counter), key=counter.get, reverse=True):
            if counter[token] < min_freq or len(self._idx_to_token) == limit:
                break
            if token not in self._token_to_idx:
                self._append(token)

    def _append(self, token):
        self._token_to_idx[token] = len(self._idx_to_token)
        self._idx_to_token.append(token)

    def __len__(self):
        return len(self._idx_to_token)

    @property
    def token_to_idx(self):
        """Token -> number."""
        return self._token_to_idx

    @property
    def idx_to_token(self):
        """The tokens by their numbers."""
        return self._idx_to_token

    @property
    def unknown_token(self):
        """The token that stands for all that are not numbered."""
        return self._unknown_token

    @property
    def reserved_tokens(self):
        """The tokens that are always numbered, or None."""
        return self._reserved_tokens

    def to_indices(self, tokens):
        """The number of a token, or of each of a list; 0 for tokens that have none."""
        if isinstance(tokens, list):
            return [self._token_to_idx.get(t, UNKNOWN_INDEX) for t in tokens]
        return self._token_to_idx.get(tokens, UNKNOWN_INDEX)

    def to_tokens(self, indices):
        """The token of a number, or of each of a list."""
        if isinstance(indices, list):
            return [self._token(i) for i in indices]
        return self._token(indices)

    def _token(self, index):
        if not isinstance(index, int) or not 0 <= index < len(self):
            raise VocabularyIndexError(
                "to_tokens: index %r has no token; 0 to %d was expected"
                % (index, len(self) - 1)
            )
        return self._idx_to_token[index]


class VocabularyIndexError(MXNetIndexError, ValueError):
    """A number without a token: a ValueError, too, as MXNet has it."""
