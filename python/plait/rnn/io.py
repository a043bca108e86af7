"""Sentences as numbers, and an iterator over them in buckets of equal length."""

import bisect
import logging
import random

import numpy as np

from .. import ndarray as nd
from ..error import MXNetValueError
from ..io import DataBatch, DataDesc, DataIter

__all__ = ["encode_sentences", "BucketSentenceIter"]


def encode_sentences(
    sentences,
    vocab=None,
    invalid_label=-1,
    invalid_key="\n",
    start_label=0,
    unknown_token=None,
):
    """(sentences as lists of numbers, vocabulary): words are numbered as they come.

    With a given vocabulary a new word is an error, or with unknown_token stands for
    that one. invalid_label, the filling, is never given to a word.
    """
    grows = vocab is None
    if grows:
        vocab = {invalid_key: invalid_label}
    number, result = start_label, []
    for sentence in sentences:
        coded = []
        for word in sentence:
            if word not in vocab:
                if not grows and not unknown_token:
                    raise MXNetValueError(
                        "encode_sentences: %r is not in the vocabulary; give "
                        "unknown_token for such words" % (word,)
                    )
                word = unknown_token or word
                if word not in vocab:
                    number += number == invalid_label
                    vocab[word] = number
                    number += 1
            coded.append(vocab[word])
        result.append(coded)
    return result, vocab


class BucketSentenceIter(DataIter):
    """Batches of sentences of about the same length, for BucketingModule.

    Each sentence goes to the smallest of the `buckets` (lengths) that holds it and is
    filled up with invalid_label; longer ones are dropped. Labels are the sentences
    moved on by one word. By default there is a bucket for each length that fills a
    batch. layout: NT, or TN for time first.
    """

    def __init__(
        self,
        sentences,
        batch_size,
        buckets=None,
        invalid_label=-1,
        data_name="data",
        label_name="softmax_label",
        dtype="float32",
        layout="NT",
    ):
        super().__init__(batch_size)
        if sorted(layout) != ["N", "T"]:
            raise MXNetValueError(
                "BucketSentenceIter: layout is %r; expected NT or TN" % (layout,)
            )
        lengths = [len(s) for s in sentences]
        if not buckets:
            counts = np.bincount(lengths) if lengths else ()
            buckets = [n for n, count in enumerate(counts) if count >= batch_size]
        buckets = sorted(buckets)
        rows = [[] for _ in buckets]
        dropped = 0
        for sentence, length in zip(sentences, lengths):
            place = bisect.bisect_left(buckets, length)
            if place == len(buckets):
                dropped += 1
                continue
            row = np.full(buckets[place], invalid_label, dtype=dtype)
            row[:length] = sentence
            rows[place].append(row)
        if dropped:
            logging.warning(
                "BucketSentenceIter: %d sentences are longer than the largest bucket "
                "and were dropped",
                dropped,
            )
        self.buckets = [b for b, r in zip(buckets, rows) if r]
        self.data = [np.asarray(r, dtype=dtype) for r in rows if r]
        if not self.buckets:
            raise MXNetValueError(
                "BucketSentenceIter: no bucket has a sentence; buckets are %s, lengths "
                "%d to %d" % (buckets, min(lengths, default=0), max(lengths, default=0))
            )
        self.data_name, self.label_name = data_name, label_name
        self.dtype, self.layout = dtype, layout
        self.invalid_label = invalid_label
        self.major_axis = layout.find("N")
        self.default_bucket_key = max(self.buckets)
        shape = (batch_size, self.default_bucket_key)
        shape = shape if self.major_axis == 0 else shape[::-1]
        self.provide_data = [DataDesc(data_name, shape, layout=layout)]
        self.provide_label = [DataDesc(label_name, shape, layout=layout)]
        self.idx = [
            (i, j)
            for i, data in enumerate(self.data)
            for j in range(0, len(data) - batch_size + 1, batch_size)
        ]
        self.reset()

    def reset(self):
        """Shuffles the batches, and the sentences in each bucket."""
        self.curr_idx = 0
        random.shuffle(self.idx)
        self.nddata, self.ndlabel = [], []
        for data in self.data:
            np.random.shuffle(data)
            label = np.full_like(data, self.invalid_label)
            label[:, :-1] = data[:, 1:]
            self.nddata.append(nd.array(data, dtype=self.dtype))
            self.ndlabel.append(nd.array(label, dtype=self.dtype))

    def next(self):
        if self.curr_idx == len(self.idx):
            raise StopIteration
        i, j = self.idx[self.curr_idx]
        self.curr_idx += 1
        data, label = (
            arrays[i][j : j + self.batch_size] for arrays in (self.nddata, self.ndlabel)
        )
        if self.major_axis == 1:
            data, label = data.T, label.T
        return DataBatch(
            [data],
            [label],
            pad=0,
            bucket_key=self.buckets[i],
            provide_data=[DataDesc(self.data_name, data.shape, layout=self.layout)],
            provide_label=[DataDesc(self.label_name, label.shape, layout=self.layout)],
        )
