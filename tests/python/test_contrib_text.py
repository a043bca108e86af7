"""Vocabularies and word vectors of plait.contrib.text."""

import collections
import hashlib
import zipfile

import numpy as np
import pytest

import plait as mx
from plait.contrib import text


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("a 1 2 3\nb 4 5 6\na 7 8 9\n<unk> 0.5 0.5 0.5\n")
    return str(path)


def _load(path, **kwargs):
    with pytest.warns(UserWarning, match="occurs again"):
        return text.embedding.CustomEmbedding(path, **kwargs)


def test_tokens_are_counted_between_delimiters():
    count = text.utils.count_tokens_from_str
    assert count("A b\nb c") == {"A": 1, "b": 2, "c": 1}
    assert count("A b\nb a", to_lower=True) == {"a": 2, "b": 2}
    before = collections.Counter(b=3)
    assert count("b|b;c", r"\|", ";", counter_to_update=before) is before
    assert before == {"b": 5, "c": 1}


def test_a_vocabulary_numbers_frequent_tokens_first():
    counter = collections.Counter(["a", "b", "b", "c", "c", "c", "d"])
    v = text.vocab.Vocabulary(counter, reserved_tokens=["<pad>", "b"], min_freq=1)
    assert v.idx_to_token == ["<unk>", "<pad>", "b", "c", "a", "d"]
    assert v.to_indices(["c", "zzz"]) == [3, 0] and v.to_indices("a") == 4
    assert v.to_tokens([0, 5]) == ["<unk>", "d"] and len(v) == 6
    assert text.vocab.Vocabulary(counter, most_freq_count=2).idx_to_token[1:] == [
        "c",
        "b",
    ]
    for index in (6, -1, "a"):
        with pytest.raises(ValueError, match="0 to 5 was expected"):
            v.to_tokens(index)


@pytest.mark.parametrize(
    "bad",
    [
        {"min_freq": 0},
        {"reserved_tokens": ["b", "b"]},
        {"reserved_tokens": ["<unk>"]},
        {"counter": ["a"]},
    ],
)
def test_a_vocabulary_refuses_bad_arguments(bad):
    with pytest.raises(AssertionError, match="Vocabulary"):
        text.vocab.Vocabulary(**{"counter": collections.Counter("ab"), **bad})


def test_vectors_of_a_file(vectors):
    e = _load(vectors)
    assert e.vec_len == 3 and e.idx_to_token == ["<unk>", "a", "b"]
    np.testing.assert_array_equal(e.get_vecs_by_tokens("b").asnumpy(), [4, 5, 6])
    rows = e.get_vecs_by_tokens(["A", "a", "nothing"])
    np.testing.assert_array_equal(rows.asnumpy(), [[0.5] * 3, [1, 2, 3], [0.5] * 3])
    rows = e.get_vecs_by_tokens(["A"], lower_case_backup=True)
    np.testing.assert_array_equal(rows.asnumpy(), [[1, 2, 3]])
    e.update_token_vectors("a", mx.nd.array([7, 7, 7]))
    np.testing.assert_array_equal(e.idx_to_vec.asnumpy()[1], [7, 7, 7])
    with pytest.raises(ValueError, match="'c' is unknown"):
        e.update_token_vectors("c", mx.nd.zeros(3))
    with pytest.raises(AssertionError, match=r"\(1, 3\) was expected"):
        e.update_token_vectors("a", mx.nd.zeros(2))


def test_embeddings_of_a_vocabulary_stand_side_by_side(vectors):
    v = text.vocab.Vocabulary(collections.Counter("bbc"), reserved_tokens=["<pad>"])
    one = _load(vectors, vocabulary=v)
    two = _load(vectors, init_unknown_vec=mx.nd.ones, unknown_token="<none>")
    assert one.idx_to_token == ["<unk>", "<pad>", "b", "c"]
    both = text.embedding.CompositeEmbedding(v, [one, two])
    assert both.vec_len == 6 and both.idx_to_vec.shape == (4, 6)
    np.testing.assert_array_equal(
        both.get_vecs_by_tokens("b").asnumpy(), [4, 5, 6, 4, 5, 6]
    )
    np.testing.assert_array_equal(
        both.get_vecs_by_tokens("c").asnumpy(), [0.5, 0.5, 0.5, 1, 1, 1]
    )
    with pytest.raises(AssertionError, match="token embeddings were expected"):
        text.embedding.CompositeEmbedding(v, [v])


def test_bad_files_of_vectors_are_named_with_the_line(tmp_path):
    path = tmp_path / "bad.txt"
    for content, message in (
        ("a 1 2\nb 1\nc 1 2 3\n", "line 3: token c has a vector of 3 numbers"),
        ("a 1 2\nb\n", "line 2: a token and its vector"),
        ("", "no vectors"),
    ):
        path.write_text(content)
        with pytest.raises(AssertionError, match=message):
            text.embedding.CustomEmbedding(str(path))
    with pytest.raises(ValueError, match="path of a file"):
        text.embedding.CustomEmbedding(str(tmp_path / "none.txt"))


def test_published_vectors_come_from_local_files(tmp_path, monkeypatch):
    names = text.embedding.get_pretrained_file_names()
    assert len(names["glove"]) == 10 and len(names["fasttext"]) == 327
    with pytest.raises(KeyError, match="one of"):
        text.embedding.get_pretrained_file_names("word2vec")
    with pytest.raises(KeyError, match="there is no file 'glove.1'"):
        text.embedding.create("glove", pretrained_file_name="glove.1")
    root = str(tmp_path)
    with pytest.raises(FileNotFoundError, match="glove.6B.zip is there"):
        text.embedding.create(
            "GloVe", pretrained_file_name="glove.6B.50d.txt", embedding_root=root
        )
    (tmp_path / "fasttext").mkdir()
    with zipfile.ZipFile(tmp_path / "fasttext" / "wiki.simple.zip", "w") as packed:
        packed.writestr("wiki.simple.vec", "2 2\na 1 2\n")
    with pytest.raises(OSError, match="SHA-1 differs"):
        text.embedding.create("fasttext", embedding_root=root)
    sha1 = hashlib.sha1(b"2 2\na 1 2\n").hexdigest()
    monkeypatch.setitem(
        text.embedding.FastText.pretrained_file_name_sha1, "wiki.simple.vec", sha1
    )
    with pytest.warns(UserWarning, match="likely a header"):
        e = text.embedding.create("fasttext", embedding_root=root)
    np.testing.assert_array_equal(e.idx_to_vec.asnumpy(), [[0, 0], [1, 2]])


def test_wikitext_gives_tokens_and_the_ones_that_follow(tmp_path):
    from plait.gluon.contrib.data.text import WikiText2, WikiText103

    content = " = Title = \n\n a b c a \n b a d \n"
    with zipfile.ZipFile(tmp_path / "wikitext-2-v1.zip", "w") as packed:
        packed.writestr("wikitext-2/wiki.train.tokens", content)
        packed.writestr("wikitext-2/wiki.valid.tokens", "a z\n")
    data = WikiText2(str(tmp_path), seq_len=4)
    # = Title = <eos> a b c a <eos> b a d <eos>
    assert len(data) == 3 and data.frequencies["a"] == 3
    assert data.vocabulary.reserved_tokens == ["<eos>"]
    tokens, following = data[1]
    words = data.vocabulary.to_tokens
    assert words(tokens.asnumpy().tolist()) == ["a", "b", "c", "a"]
    assert words(following.asnumpy().tolist()) == ["b", "c", "a", "<eos>"]
    assert tokens.dtype == np.int32
    part = WikiText2(str(tmp_path), "validation", data.vocabulary, seq_len=2)
    assert words(part[0][0].asnumpy().tolist()) == ["a", "<unk>"]
    (tmp_path / "wiki.test.tokens").write_text("a b\n", encoding="utf8")
    assert len(WikiText103(str(tmp_path), "test", seq_len=5)) == 0
    with pytest.raises(FileNotFoundError, match="wikitext-103-v1.zip with it is in"):
        WikiText103(str(tmp_path))
    for bad in ({"segment": "all"}, {"seq_len": 0}):
        with pytest.raises(ValueError, match="a positive number"):
            WikiText2(str(tmp_path), **bad)
