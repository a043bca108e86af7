"""The layers of transformers: a feed-forward part, and a cell with attention."""

from ...block import HybridBlock
from ...nn import GELU, Activation, Dense, Dropout, LayerNorm, MultiHeadAttention

__all__ = ["PositionwiseFFN", "TransformerCell"]


class PositionwiseFFN(HybridBlock):
    """Two dense layers at each position with an activation between, added to the input:
    ffn_1, ffn_2, and layer_norm before them (pre_norm) or after the sum.

    Input and output: (..., units).
    """

    def __init__(
        self,
        units,
        hidden_size,
        dropout=0.0,
        activation="gelu",
        pre_norm=False,
        epsilon=1e-12,
        weight_initializer=None,
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._pre_norm = pre_norm
        options = {
            "flatten": False,
            "weight_initializer": weight_initializer,
            "bias_initializer": bias_initializer,
        }
        with self.name_scope():
            self.ffn_1 = Dense(hidden_size, in_units=units, prefix="ffn_1_", **options)
            self.activation = GELU() if activation == "gelu" else Activation(activation)
            self.ffn_2 = Dense(units, in_units=hidden_size, prefix="ffn_2_", **options)
            self.dropout_layer = Dropout(dropout)
            self.layer_norm = LayerNorm(
                epsilon=epsilon, in_channels=units, prefix="layernorm_"
            )

    def hybrid_forward(self, F, x):
        y = self.layer_norm(x) if self._pre_norm else x
        y = x + self.dropout_layer(self.ffn_2(self.activation(self.ffn_1(y))))
        return y if self._pre_norm else self.layer_norm(y)


class TransformerCell(HybridBlock):
    """Self attention and a feed-forward part, each with a residual sum and a norm.

    Parameters
    ----------
    units, hidden_size : int
        Width of the cell, and of the feed-forward part's inside.
    num_heads : int
    dropout, attention_dropout : float
        Of the two parts' results; of the weights of attention.
    pre_norm : bool
        Whether norms stand before the parts (GPT-2) or after the sums (BERT).
    causal : bool
        Whether a position sees no later ones.

    Inputs: x (B, T, units), and as keyword arguments mask and length as
    MultiHeadAttention takes them. Output: (B, T, units).
    """

    def __init__(
        self,
        units,
        hidden_size,
        num_heads,
        dropout=0.0,
        attention_dropout=None,
        activation="gelu",
        pre_norm=False,
        causal=False,
        epsilon=1e-12,
        weight_initializer=None,
        bias_initializer="zeros",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self._pre_norm = pre_norm
        if attention_dropout is None:
            attention_dropout = dropout
        initializers = {
            "weight_initializer": weight_initializer,
            "bias_initializer": bias_initializer,
        }
        with self.name_scope():
            self.attention_cell = MultiHeadAttention(
                units,
                num_heads,
                dropout=attention_dropout,
                causal=causal,
                output_proj=False,
                in_units=units,
                prefix="attention_",
                **initializers,
            )
            self.proj = Dense(
                units, flatten=False, in_units=units, prefix="proj_", **initializers
            )
            self.dropout_layer = Dropout(dropout)
            self.layer_norm = LayerNorm(
                epsilon=epsilon, in_channels=units, prefix="layernorm_"
            )
            self.ffn = PositionwiseFFN(
                units,
                hidden_size,
                dropout,
                activation,
                pre_norm,
                epsilon,
                prefix="ffn_",
                **initializers,
            )

    def _rest(self, x, y):
        """What follows attention, whose result is y."""
        x = x + self.dropout_layer(self.proj(y))
        return self.ffn(x if self._pre_norm else self.layer_norm(x))

    def hybrid_forward(self, F, x, mask=None, length=None):
        seen = self.layer_norm(x) if self._pre_norm else x
        return self._rest(x, self.attention_cell(seen, None, None, mask, length))

    def step(self, x, cache, position):
        """The cell for positions `position` and following, of which x (n, B, units) is
        the input, behind those that `cache` holds. The cache, a pair of arrays
        (capacity, B, units) for keys and values, takes the new ones."""
        from .... import ndarray

        attention = self.attention_cell
        seen = self.layer_norm(x) if self._pre_norm else x
        q, *new = attention.project(seen)
        end = position + x.shape[0]
        for kept, rows in zip(cache, new, strict=True):
            kept[position:end] = rows
        keys, values = (kept[:end] for kept in cache)  # views: nothing is copied
        y = attention.attend(
            ndarray, q, keys, values, causal=True, dropout=0.0, layout="TBHD"
        )
        return self._rest(x, y)
