"""GPT: a transformer that tells what comes next, with a cache for generation."""

from .... import initializer
from .... import ndarray as nd
from ...block import HybridBlock
from ...nn import Dense, Dropout, Embedding, HybridSequential, LayerNorm
from ..vision.common import with_weights
from .bert import _check_length
from .sampling import Sampler
from .transformer import TransformerCell

__all__ = ["GPTModel", "GPTCache", "gpt2_117m", "gpt2_345m"]


class GPTCache:
    """Keys and values of the positions that a GPTModel has seen: for each layer a pair
    of arrays (capacity, batch, units), filled up to `position`."""

    def __init__(self, layers, capacity, batch, units, ctx, dtype):
        self.position, self.capacity, self.batch = 0, capacity, batch
        self.layers = [
            tuple(nd.zeros((capacity, batch, units), ctx, dtype) for _ in range(2))
            for _ in range(layers)
        ]


class GPTModel(HybridBlock):
    """Embeddings, causal cells with norms before their parts, and scores of the next
    word. The scores' weight is the word embedding's.

    Parameters
    ----------
    vocab_size, num_layers, units, num_heads : int
    hidden_size : int
        Of the feed-forward parts; None: 4 * units.
    max_length : int
        How many positions there are.
    dropout : float
    weight_initializer : Initializer
        Of all weights but the positions'; None: Normal(0.02), for wide networks.

    Inputs: words (B, T), valid_length (B,) or None. Output: scores (B, T, vocab_size):
    those at t are of the word at t + 1, and depend on words up to t only.
    """

    def __init__(
        self,
        vocab_size,
        num_layers=12,
        units=768,
        num_heads=12,
        hidden_size=None,
        max_length=1024,
        dropout=0.1,
        weight_initializer=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._max_length, self._units = max_length, units
        normal = {"weight_initializer": weight_initializer or initializer.Normal(0.02)}
        with self.name_scope():
            self.word_embed = Embedding(
                vocab_size, units, prefix="word_embed_", **normal
            )
            self.position_weight = self.params.get(
                "position_weight",
                shape=(max_length, units),
                init=initializer.Normal(0.01),
            )
            self.dropout_layer = Dropout(dropout)
            self.cells = HybridSequential(prefix="cells_")
            with self.cells.name_scope():
                for _ in range(num_layers):
                    self.cells.add(
                        TransformerCell(
                            units,
                            hidden_size or 4 * units,
                            num_heads,
                            dropout,
                            pre_norm=True,
                            causal=True,
                            epsilon=1e-5,
                            **normal,
                        )
                    )
            self.layer_norm = LayerNorm(
                epsilon=1e-5, in_channels=units, prefix="layernorm_"
            )
            self.decoder = Dense(
                vocab_size,
                flatten=False,
                use_bias=False,
                in_units=units,
                params=self.word_embed.collect_params(),
            )

    def hybrid_forward(self, F, words, valid_length=None, position_weight=None):
        _check_length("GPTModel", words, self._max_length)
        positions = F.Embedding(
            F.contrib.arange_like(words, axis=1),
            position_weight,
            input_dim=self._max_length,
            output_dim=self._units,
        )
        x = F.broadcast_add(self.word_embed(words), F.expand_dims(positions, axis=0))
        x = self.dropout_layer(x)
        for cell in self.cells:
            x = cell(x, None, valid_length)
        return self.decoder(self.layer_norm(x))

    def begin_cache(self, batch_size=1, capacity=None, ctx=None):
        """An empty cache for step(); capacity: positions, max_length by default."""
        capacity = capacity or self._max_length
        if capacity > self._max_length:
            raise ValueError(
                "GPTModel: a cache of %d positions; at most max_length = %d were "
                "expected" % (capacity, self._max_length)
            )
        weight = self.position_weight.data(ctx)
        return GPTCache(
            len(self.cells),
            capacity,
            batch_size,
            self._units,
            weight.context,
            weight.dtype,
        )

    def step(self, words, cache):
        """Scores (B, vocab_size) of the word behind `words` (B, n), which follow those
        that the cache has seen. The cost of a word grows with those before it only by
        attention itself: nothing is computed again."""
        batch, n = words.shape
        begin, end = cache.position, cache.position + words.shape[1]
        if batch != cache.batch or end > cache.capacity or n == 0:
            raise ValueError(
                "GPTModel: words of shape %s behind %d positions; (%d, n) with n > 0 "
                "and at most %d positions in all were expected"
                % (words.shape, begin, cache.batch, cache.capacity)
            )
        positions = self.position_weight.data(words.context)[begin:end]
        x = self.word_embed(words.T) + nd.expand_dims(positions, axis=1)
        for cell, kept in zip(self.cells, cache.layers, strict=True):
            x = cell.step(x, kept, begin)
        cache.position = end
        return self.decoder(self.layer_norm(x[n - 1]))

    def generate(self, words, length, temperature=1.0, top_k=0, seed=None):
        """Words that follow `words` (B, n): an array (B, length).

        temperature: below 1 favours likely words; 0 takes the likeliest. top_k: only
        so many of the likeliest words are possible; 0: all. seed: the same words each
        time.
        """
        words = nd.array(words)
        if words.ndim == 1:
            words = words.expand_dims(0)
        sampler = Sampler(temperature, top_k, seed)
        capacity = words.shape[1] + length
        cache = self.begin_cache(words.shape[0], capacity, words.context)
        result = []
        for _ in range(length):
            words = sampler(self.step(words, cache)).expand_dims(1)
            result.append(words)
        if not result:
            return nd.zeros((words.shape[0], 0))
        return nd.concat(*result, dim=1)


def gpt2_117m(vocab_size=50257, pretrained=False, ctx=None, root=None, **kwargs):
    """GPT-2 small: 12 layers, 768 units, 12 heads."""
    net = GPTModel(vocab_size, 12, 768, 12, **kwargs)
    return with_weights(net, "gpt2_117m", pretrained, ctx, root)


def gpt2_345m(vocab_size=50257, pretrained=False, ctx=None, root=None, **kwargs):
    """GPT-2 medium: 24 layers, 1024 units, 16 heads."""
    net = GPTModel(vocab_size, 24, 1024, 16, **kwargs)
    return with_weights(net, "gpt2_345m", pretrained, ctx, root)
