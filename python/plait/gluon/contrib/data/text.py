"""Texts for language models, from local files: WikiText2 and WikiText103."""

import os
import zipfile

import numpy as np

from .... import base, nd
from ....contrib import text
from ....error import MXNetValueError
from ...data import dataset

__all__ = ["WikiText2", "WikiText103"]

_END = "<eos>"
_SEGMENTS = {
    "train": "wiki.train.tokens",
    "validation": "wiki.valid.tokens",
    "test": "wiki.test.tokens",
}


class _WikiText(dataset._DownloadedDataset):
    """A text cut into samples of seq_len tokens: (tokens, the tokens that follow each).

    <eos> stands at the end of each line that is not empty. Without `vocab` all tokens
    of the segment are numbered; `vocabulary` and `frequencies` tell them.
    """

    _name = None

    def __init__(self, root=None, segment="train", vocab=None, seq_len=35):
        if segment not in _SEGMENTS or not seq_len > 0:
            raise MXNetValueError(
                "%s: segment is %r and seq_len %r; one of %s and a positive number "
                "were expected"
                % (type(self).__name__, segment, seq_len, sorted(_SEGMENTS))
            )
        self._segment, self._seq_len = segment, seq_len
        self._vocab, self._counter = vocab, None
        folder = os.path.join(base.data_dir(), "datasets", self._name)
        super().__init__(root or folder, None)

    @property
    def vocabulary(self):
        """The Vocabulary that numbers the tokens."""
        return self._vocab

    @property
    def frequencies(self):
        """How often each token stands in the segment, a Counter."""
        return self._counter

    def _content(self):
        name = _SEGMENTS[self._segment]
        path = os.path.join(self._root, name)
        if os.path.exists(path):
            with open(path, encoding="utf8") as file:
                return file.read()
        archive = os.path.join(self._root, self._name + "-v1.zip")
        if os.path.exists(archive):
            with zipfile.ZipFile(archive) as packed:
                for member in packed.namelist():
                    if os.path.basename(member) == name:
                        return packed.read(member).decode("utf8")
        raise FileNotFoundError(
            "%s: neither %s nor %s with it is in %s, and Plait downloads no data sets; "
            "put one of them there"
            % (type(self).__name__, name, os.path.basename(archive), self._root)
        )

    def _get_data(self):
        content = self._content()
        self._counter = text.utils.count_tokens_from_str(content)
        if self._vocab is None:
            self._vocab = text.vocab.Vocabulary(self._counter, reserved_tokens=[_END])
        lines = [line.split() for line in content.splitlines()]
        tokens = [token for line in lines if line for token in (*line, _END)]
        numbers = np.array(self._vocab.to_indices(tokens), np.int32)
        rows = max(len(numbers) - 1, 0) // self._seq_len
        used = rows * self._seq_len
        for name, part in (("_data", numbers[:-1]), ("_label", numbers[1:])):
            part = part[:used].reshape(rows, self._seq_len)
            setattr(self, name, nd.array(part, dtype="int32"))

    def __getitem__(self, idx):
        return self._data[idx], self._label[idx]


class WikiText2(_WikiText):
    """WikiText-2: wiki.*.tokens or wikitext-2-v1.zip, in `root`, by default
    $MXNET_HOME/datasets/wikitext-2."""

    _name = "wikitext-2"


class WikiText103(_WikiText):
    """WikiText-103: wiki.*.tokens or wikitext-103-v1.zip, in `root`, by default
    $MXNET_HOME/datasets/wikitext-103."""

    _name = "wikitext-103"
