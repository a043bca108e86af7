"""Vectors of tokens: read from files, joined, and looked up."""

import logging
import os
import warnings
import zipfile

import numpy as np

from ... import base, registry
from ... import ndarray as nd
from ...error import MXNetKeyError, MXNetOSError, MXNetValueError, check
from ...gluon.utils import check_sha1
from . import pretrained, vocab
from .vocab import UNKNOWN_INDEX

__all__ = [
    "register",
    "create",
    "get_pretrained_file_names",
    "GloVe",
    "FastText",
    "CustomEmbedding",
    "CompositeEmbedding",
]


def register(embedding_cls):
    """A class decorator after which create() knows the class."""
    return registry.get_register_func(_TokenEmbedding, "token embedding")(embedding_cls)


def create(embedding_name, **kwargs):
    """An embedding by the name of its class, in any case: glove, fasttext, ..."""
    make = registry.get_create_func(_TokenEmbedding, "token embedding")
    return make(embedding_name, **kwargs)


def get_pretrained_file_names(embedding_name=None):
    """The files of vectors that an embedding knows, or those of each by its name."""
    classes = registry.get_registry(_TokenEmbedding)
    if embedding_name is None:
        return {k: list(c.pretrained_file_name_sha1) for k, c in classes.items()}
    if embedding_name not in classes:
        raise MXNetKeyError(
            "get_pretrained_file_names: embedding_name is %r; one of %s was expected"
            % (embedding_name, sorted(classes))
        )
    return list(classes[embedding_name].pretrained_file_name_sha1)


def _default_root():
    return os.path.join(base.data_dir(), "embeddings")


def _embeddings_of(token_embeddings):
    listed = isinstance(token_embeddings, list)
    listed = token_embeddings if listed else [token_embeddings]
    for item in listed:
        check(
            isinstance(item, _TokenEmbedding),
            "embedding: token_embeddings holds a %s; token embeddings were expected",
            type(item).__name__,
        )
    return listed


class _TokenEmbedding(vocab.Vocabulary):
    """A vocabulary with a vector for each token; the base of all embeddings.

    Token 0, which stands for all unknown ones, has the vector that the file gives for
    unknown_token, else what init_unknown_vec makes.
    """

    pretrained_file_name_sha1 = {}

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self._vec_len = None
        self._idx_to_vec = None

    @property
    def vec_len(self):
        """How many numbers a vector has."""
        return self._vec_len

    @property
    def idx_to_vec(self):
        """The vectors, one row a token."""
        return self._idx_to_vec

    @classmethod
    def _check_pretrained_file_names(cls, pretrained_file_name):
        if pretrained_file_name not in cls.pretrained_file_name_sha1:
            raise MXNetKeyError(
                "%s: there is no file %r; one of %s was expected"
                % (
                    cls.__name__,
                    pretrained_file_name,
                    ", ".join(cls.pretrained_file_name_sha1),
                )
            )

    @classmethod
    def _archive_name(cls, pretrained_file_name):
        """The archive in which the file is published, or the file itself."""
        return pretrained_file_name

    @classmethod
    def _get_pretrained_file(cls, embedding_root, pretrained_file_name):
        """The path of a file of vectors, unpacked where only its archive is there."""
        folder = os.path.join(os.path.expanduser(embedding_root), cls.__name__.lower())
        path = os.path.join(folder, pretrained_file_name)
        archive = os.path.join(folder, cls._archive_name(pretrained_file_name))
        if not os.path.exists(path) and archive.endswith(".zip"):
            if os.path.exists(archive):
                with zipfile.ZipFile(archive) as packed:
                    packed.extract(pretrained_file_name, folder)
        if not os.path.exists(path):
            raise FileNotFoundError(
                "%s: neither %s nor %s is there, and Plait downloads no vectors; put "
                "one of them there" % (cls.__name__, path, os.path.basename(archive))
            )
        if not check_sha1(path, cls.pretrained_file_name_sha1[pretrained_file_name]):
            raise MXNetOSError(
                "%s: %s has another content than the published file (SHA-1 differs)"
                % (cls.__name__, path)
            )
        return path

    def _load_embedding(
        self, pretrained_file_path, elem_delim, init_unknown_vec, encoding="utf8"
    ):
        path = os.path.expanduser(pretrained_file_path)
        if not os.path.isfile(path):
            raise MXNetValueError(
                "embedding: pretrained_file_path is %r; the path of a file of vectors "
                "was expected" % pretrained_file_path
            )
        logging.info("Loading pre-trained token embedding vectors from %s", path)
        unknown, vectors = None, []
        with open(path, encoding=encoding) as file:
            for number, line in enumerate(file, 1):
                token, *items = line.rstrip().split(elem_delim)
                where = "%s, line %d" % (path, number)

                def skip(why, where=where, token=token):
                    warnings.warn(
                        "%s: token %s %s; skipped" % (where, token, why), stacklevel=5
                    )

                check(items, "%s: a token and its vector were expected", where)
                vector = np.array(items, np.float32)
                if token == self.unknown_token and unknown is None:
                    unknown = vector
                elif token in self._token_to_idx:
                    skip("occurs again")
                elif len(vector) == 1:
                    skip("with the one number %s is likely a header" % items[0])
                else:
                    check(
                        not vectors or len(vector) == len(vectors[0]),
                        "%s: token %s has a vector of %d numbers; %d as before were "
                        "expected",
                        where,
                        token,
                        len(vector),
                        len(vectors[0]) if vectors else 0,
                    )
                    vectors.append(vector)
                    self._append(token)
        check(vectors, "%s: no vectors are in it", path)
        self._keep(vectors, unknown, init_unknown_vec)

    def _keep(self, vectors, unknown, init_unknown_vec):
        """Sets the rows; those of reserved tokens, which no file holds, are as 0's."""
        self._vec_len = len(vectors[0])
        first = len(self) - len(vectors)
        rows = np.zeros((len(self), self._vec_len), np.float32)
        rows[first:] = vectors
        if unknown is None:
            unknown = init_unknown_vec(shape=self._vec_len).asnumpy()
        rows[:first] = unknown
        self._idx_to_vec = nd.array(rows)

    def _adopt(self, vocabulary):
        """Takes over the tokens of a vocabulary."""
        self._token_to_idx = dict(vocabulary.token_to_idx)
        self._idx_to_token = list(vocabulary.idx_to_token)
        self._unknown_token = vocabulary.unknown_token
        reserved = vocabulary.reserved_tokens
        self._reserved_tokens = None if reserved is None else list(reserved)

    def _join(self, embeddings):
        """The vectors of all tokens, those of several embeddings side by side."""
        rest = self._idx_to_token[1:]
        parts = []
        for item in embeddings:
            first = item.idx_to_vec[UNKNOWN_INDEX].reshape((1, -1))
            others = [item.get_vecs_by_tokens(rest)] if rest else []
            parts.append(nd.concat(first, *others, dim=0))
        self._idx_to_vec = parts[0] if len(parts) == 1 else nd.concat(*parts, dim=1)
        self._vec_len = self._idx_to_vec.shape[1]

    def _build_embedding_for_vocabulary(self, vocabulary):
        if vocabulary is None:
            return
        check(
            isinstance(vocabulary, vocab.Vocabulary),
            "embedding: vocabulary is a %s; a Vocabulary was expected",
            type(vocabulary).__name__,
        )
        source = _TokenEmbedding()
        source.__dict__.update(self.__dict__)
        self._adopt(vocabulary)
        self._join([source])

    def get_vecs_by_tokens(self, tokens, lower_case_backup=False):
        """The vector of a token, or a row for each of a list of tokens.

        lower_case_backup looks up a token that is not found in lower case.
        """
        listed = tokens if isinstance(tokens, list) else [tokens]
        known = self._token_to_idx
        if lower_case_backup:
            listed = [t if t in known else t.lower() for t in listed]
        indices = nd.array(self.to_indices(listed), dtype="int64")
        rows = nd.take(self._idx_to_vec, indices)
        return rows if isinstance(tokens, list) else rows[0]

    def update_token_vectors(self, tokens, new_vectors):
        """Sets the vector of a token, or those of a list of tokens."""
        check(
            self._idx_to_vec is not None, "update_token_vectors: there are no vectors"
        )
        listed = tokens if isinstance(tokens, list) else [tokens]
        fits = isinstance(new_vectors, nd.NDArray) and (
            new_vectors.shape == (len(listed), self._vec_len)
            or (len(listed) == 1 and new_vectors.shape == (self._vec_len,))
        )
        check(
            fits,
            "update_token_vectors: new_vectors is %s; an NDArray of shape %s was "
            "expected",
            getattr(new_vectors, "shape", type(new_vectors).__name__),
            (len(listed), self._vec_len),
        )
        for token in listed:
            if token not in self._token_to_idx:
                raise MXNetValueError(
                    "update_token_vectors: token %r is unknown; give unknown_token %r "
                    "itself to change the vector of all unknown tokens"
                    % (token, self._unknown_token)
                )
        rows = nd.array(self.to_indices(listed), dtype="int64")
        self._idx_to_vec[rows] = new_vectors.reshape((len(listed), self._vec_len))


class _Published(_TokenEmbedding):
    """An embedding whose files have known names."""

    def __init__(
        self, pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, kwargs
    ):
        self._check_pretrained_file_names(pretrained_file_name)
        super().__init__(**kwargs)
        path = self._get_pretrained_file(
            embedding_root or _default_root(), pretrained_file_name
        )
        self._load_embedding(path, " ", init_unknown_vec)
        self._build_embedding_for_vocabulary(vocabulary)


@register
class GloVe(_Published):
    """Vectors of GloVe, from files in $MXNET_HOME/embeddings/glove."""

    pretrained_file_name_sha1 = pretrained.table(pretrained.GLOVE)

    def __init__(
        self,
        pretrained_file_name="glove.840B.300d.txt",
        embedding_root=None,
        init_unknown_vec=nd.zeros,
        vocabulary=None,
        **kwargs,
    ):
        super().__init__(
            pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, kwargs
        )

    @classmethod
    def _archive_name(cls, pretrained_file_name):
        stem = pretrained_file_name[: -len(".txt")]
        # Those of several sizes share an archive: glove.6B.50d and glove.6B.100d.
        alone = stem in ("glove.42B.300d", "glove.840B.300d")
        return (stem if alone else stem.rpartition(".")[0]) + ".zip"


@register
class FastText(_Published):
    """Vectors of fastText, from files in $MXNET_HOME/embeddings/fasttext."""

    pretrained_file_name_sha1 = pretrained.table(pretrained.FASTTEXT)

    def __init__(
        self,
        pretrained_file_name="wiki.simple.vec",
        embedding_root=None,
        init_unknown_vec=nd.zeros,
        vocabulary=None,
        **kwargs,
    ):
        super().__init__(
            pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, kwargs
        )

    @classmethod
    def _archive_name(cls, pretrained_file_name):
        return pretrained_file_name.rpartition(".")[0] + ".zip"


class CustomEmbedding(_TokenEmbedding):
    """Vectors of a file: a line is a token and its numbers, elem_delim between them."""

    def __init__(
        self,
        pretrained_file_path,
        elem_delim=" ",
        encoding="utf8",
        init_unknown_vec=nd.zeros,
        vocabulary=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._load_embedding(
            pretrained_file_path, elem_delim, init_unknown_vec, encoding
        )
        self._build_embedding_for_vocabulary(vocabulary)


class CompositeEmbedding(_TokenEmbedding):
    """The vectors of one or more embeddings, side by side, for a vocabulary."""

    def __init__(self, vocabulary, token_embeddings):
        super().__init__()
        check(
            isinstance(vocabulary, vocab.Vocabulary),
            "CompositeEmbedding: vocabulary is a %s; a Vocabulary was expected",
            type(vocabulary).__name__,
        )
        embeddings = _embeddings_of(token_embeddings)
        self._adopt(vocabulary)
        self._join(embeddings)
