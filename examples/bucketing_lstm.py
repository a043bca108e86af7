"""A language model over sentences of many lengths: BucketingModule and LSTM cells.

The sentences are made here: each word tells the next one by a fixed rule, apart from
noise, so that the best perplexity is known. A graph is unrolled for each of a few
lengths; all of them share weights and memory.
"""

import argparse
import logging
import random

import numpy as np

import plait as mx

BUCKETS = [5, 10, 20]
PAD = 0  # a word that stands for nothing


def sentences(count, words, noise, rng):
    """Lists of words from 1 to `words`; with probability `noise` a word is any."""
    follower = rng.permutation(words) + 1
    result = []
    for _ in range(count):
        sentence = [int(rng.randint(words)) + 1]
        for _ in range(rng.randint(2, BUCKETS[-1])):
            known = int(follower[sentence[-1] - 1])
            any_word = int(rng.randint(words)) + 1
            sentence.append(any_word if rng.rand() < noise else known)
        result.append(sentence)
    return result


def model(words, embedding, hidden, layers):
    """A function that gives the graph for a length, and the names of its inputs."""
    stack = mx.rnn.SequentialRNNCell()
    for layer in range(layers):
        stack.add(mx.rnn.LSTMCell(hidden, prefix=f"lstm{layer}_"))

    def unrolled(length):
        data, label = mx.sym.Variable("data"), mx.sym.Variable("softmax_label")
        x = mx.sym.Embedding(
            data, input_dim=words + 1, output_dim=embedding, name="embedding"
        )
        x, _ = stack.unroll(length, x, merge_outputs=True)
        x = mx.sym.Reshape(x, shape=(-1, hidden))
        x = mx.sym.FullyConnected(x, num_hidden=words + 1, name="scores")
        x = mx.sym.SoftmaxOutput(
            x, mx.sym.Reshape(label, shape=(-1,)), name="softmax",
            use_ignore=True, ignore_label=PAD, normalization="valid",
        )  # fmt: skip
        return x, ("data",), ("softmax_label",)

    return unrolled


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", default=8, type=int)
    parser.add_argument("--sentences", default=4000, type=int)
    parser.add_argument("--words", default=50, type=int)
    parser.add_argument("--noise", default=0.1, type=float)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    random.seed(1)
    np.random.seed(1)
    mx.random.seed(1)

    text = sentences(args.sentences, args.words, args.noise, np.random.RandomState(2))
    held_out = len(text) // 10
    train_data, test_data = (
        mx.rnn.BucketSentenceIter(part, 32, buckets=list(BUCKETS), invalid_label=PAD)
        for part in (text[held_out:], text[:held_out])
    )
    module = mx.mod.BucketingModule(
        model(args.words, embedding=32, hidden=64, layers=1),
        default_bucket_key=train_data.default_bucket_key,
    )
    metric = mx.metric.Perplexity(ignore_label=PAD)
    module.fit(
        train_data,
        test_data,
        eval_metric=metric,
        optimizer="adam",
        optimizer_params={"learning_rate": 0.01, "rescale_grad": 1.0},
        initializer=mx.init.Xavier(),
        num_epoch=args.epochs,
    )
    # What a perfect model would reach: the rule is known, the noise is not.
    right = 1 - args.noise + args.noise / args.words
    wrong = args.noise / args.words
    best = np.exp(-right * np.log(right) - (args.words - 1) * wrong * np.log(wrong))
    test_data.reset()
    ((_, perplexity),) = module.score(test_data, metric)
    print(f"perplexity {perplexity:.2f} of {args.words} words; the best is {best:.2f}")


if __name__ == "__main__":
    main()
