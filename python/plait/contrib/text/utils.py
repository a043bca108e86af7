"""Counting the tokens of a text."""

import collections
import re

__all__ = ["count_tokens_from_str"]


def count_tokens_from_str(
    source_str, token_delim=" ", seq_delim="\n", to_lower=False, counter_to_update=None
):
    """How often each token stands in source_str, as a Counter.

    The delimiters are regular expressions. counter_to_update, where given, is added to
    and returned.
    """
    counter = collections.Counter() if counter_to_update is None else counter_to_update
    tokens = filter(None, re.split("%s|%s" % (token_delim, seq_delim), source_str))
    counter.update(map(str.lower, tokens) if to_lower else tokens)
    return counter
