"""BERT: a transformer that reads in both directions (Devlin and others, 2018)."""

from .... import initializer
from ...block import HybridBlock
from ...nn import GELU, Dense, Dropout, Embedding, HybridSequential, LayerNorm
from ..vision.common import with_weights
from .transformer import TransformerCell

__all__ = ["BERTEncoder", "BERTModel", "bert_12_768_12", "bert_24_1024_16"]


def _check_length(model, x, max_length):
    shape = getattr(x, "shape", None)  # a symbol has none
    if shape is not None and shape[1] > max_length:
        raise ValueError(
            "%s: a sequence of %d positions; at most max_length = %d were expected"
            % (model, shape[1], max_length)
        )


class BERTEncoder(HybridBlock):
    """Position embeddings and a stack of cells.

    Inputs: x (B, T, units), valid_length (B,) or None. Output: (B, T, units).
    """

    def __init__(
        self,
        num_layers,
        units,
        hidden_size,
        num_heads,
        max_length=512,
        dropout=0.1,
        weight_initializer=None,
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._max_length, self._units = max_length, units
        with self.name_scope():
            self.position_weight = self.params.get(
                "position_weight",
                shape=(max_length, units),
                init=initializer.Normal(0.02),
            )
            self.layer_norm = LayerNorm(epsilon=1e-12, in_channels=units)
            self.dropout_layer = Dropout(dropout)
            self.transformer_cells = HybridSequential(prefix="transformer_")
            with self.transformer_cells.name_scope():
                for _ in range(num_layers):
                    self.transformer_cells.add(
                        TransformerCell(
                            units,
                            hidden_size,
                            num_heads,
                            dropout,
                            weight_initializer=weight_initializer,
                            bias_initializer=bias_initializer,
                        )
                    )

    def hybrid_forward(self, F, x, valid_length=None, position_weight=None):
        _check_length("BERTEncoder", x, self._max_length)
        # Small floats cannot count as far as there are positions.
        one = F.cast(F.slice_axis(x, axis=2, begin=0, end=1), dtype="float32")
        positions = F.Embedding(
            F.contrib.arange_like(one, axis=1),
            position_weight,
            input_dim=self._max_length,
            output_dim=self._units,
        )
        x = F.broadcast_add(x, F.expand_dims(positions, axis=0))
        x = self.dropout_layer(self.layer_norm(x))
        for cell in self.transformer_cells:
            x = cell(x, None, valid_length)
        return x


class BERTModel(HybridBlock):
    """Embeddings, encoder, and the heads of BERT's two tasks.

    Parameters
    ----------
    vocab_size, num_layers, units, hidden_size, num_heads, max_length : int
    token_type_vocab_size : int
        How many kinds of sentences there are.
    dropout : float
    use_pooler, use_decoder, use_classifier : bool
        Whether the first position's summary, the scores of masked words (its last
        weight is the word embedding's), and those of the next sentence exist.

    Inputs: words (B, T); token_types (B, T) or None; valid_length (B,) or None, beyond
    which nothing is seen; masked_positions (B, M) or None.
    Outputs: the sequence (B, T, units); with use_pooler, the summary (B, units); with
    use_classifier, scores (B, 2); where masked_positions are given, scores of words
    (B, M, vocab_size). One output is given alone, several as a list.
    """

    def __init__(
        self,
        vocab_size,
        num_layers=12,
        units=768,
        hidden_size=3072,
        num_heads=12,
        max_length=512,
        token_type_vocab_size=2,
        dropout=0.1,
        use_pooler=True,
        use_decoder=True,
        use_classifier=True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if use_classifier and not use_pooler:
            raise ValueError(
                "BERTModel: use_classifier without use_pooler; the classifier reads "
                "what the pooler gives"
            )
        normal = {"weight_initializer": initializer.Normal(0.02)}
        with self.name_scope():
            self.word_embed = HybridSequential(prefix="word_embed_")
            with self.word_embed.name_scope():
                self.word_embed.add(Embedding(vocab_size, units, **normal))
            self.token_type_embed = HybridSequential(prefix="token_type_embed_")
            with self.token_type_embed.name_scope():
                self.token_type_embed.add(
                    Embedding(token_type_vocab_size, units, **normal)
                )
            self.encoder = BERTEncoder(
                num_layers,
                units,
                hidden_size,
                num_heads,
                max_length,
                dropout,
                prefix="encoder_",
                **normal,
            )
            self.pooler = self.classifier = self.decoder = None
            if use_pooler:
                self.pooler = Dense(
                    units,
                    activation="tanh",
                    flatten=False,
                    in_units=units,
                    prefix="pooler_",
                    **normal,
                )
            if use_classifier:
                self.classifier = Dense(
                    2, in_units=units, prefix="classifier_", **normal
                )
            if use_decoder:
                self.decoder = HybridSequential(prefix="decoder_")
                with self.decoder.name_scope():
                    self.decoder.add(
                        Dense(units, flatten=False, in_units=units, **normal),
                        GELU(),
                        LayerNorm(epsilon=1e-12, in_channels=units),
                        Dense(
                            vocab_size,
                            flatten=False,
                            in_units=units,
                            params=self.word_embed[0].collect_params(),
                        ),
                    )

    def hybrid_forward(
        self, F, words, token_types=None, valid_length=None, masked_positions=None
    ):
        x = self.word_embed(words)
        if token_types is not None:
            x = x + self.token_type_embed(token_types)
        sequence = self.encoder(x, valid_length)
        outputs = [sequence]
        if self.pooler is not None:
            first = F.slice_axis(sequence, axis=1, begin=0, end=1)
            outputs.append(self.pooler(F.reshape(first, (0, -1))))
        if self.classifier is not None:
            outputs.append(self.classifier(outputs[1]))
        if masked_positions is not None:
            if self.decoder is None:
                raise ValueError(
                    "BERTModel: masked_positions were given; a model with use_decoder "
                    "was expected"
                )
            outputs.append(self.decoder(self._take(F, sequence, masked_positions)))
        return outputs[0] if len(outputs) == 1 else outputs

    @staticmethod
    def _take(F, sequence, positions):
        """sequence (B, T, C) at positions (B, M): (B, M, C)."""
        rows = F.contrib.arange_like(positions, axis=0)
        rows = F.broadcast_like(F.expand_dims(rows, axis=1), positions)
        where = F.stack(rows, F.cast(positions, dtype="float32"), axis=0)
        return F.gather_nd(sequence, where)


def bert_12_768_12(vocab_size=30522, pretrained=False, ctx=None, root=None, **kwargs):
    """BERT base: 12 layers, 768 units, 12 heads."""
    net = BERTModel(vocab_size, 12, 768, 3072, 12, **kwargs)
    return with_weights(net, "bert_12_768_12", pretrained, ctx, root)


def bert_24_1024_16(vocab_size=30522, pretrained=False, ctx=None, root=None, **kwargs):
    """BERT large: 24 layers, 1024 units, 16 heads."""
    net = BERTModel(vocab_size, 24, 1024, 4096, 16, **kwargs)
    return with_weights(net, "bert_24_1024_16", pretrained, ctx, root)
