"""Attention as a layer."""

from ..block import HybridBlock
from .basic_layers import Dense

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(HybridBlock):
    """Heads of softmax(q k^T / sqrt(size)) v, with projections before and after.

    Memory grows with the length of the sequences and not with its square: the weights
    never exist as an array.

    Parameters
    ----------
    units : int
        Width of the projections and of the result; a multiple of num_heads.
    num_heads : int
    dropout : float
        In training, the chance of a weight to become zero.
    use_bias : bool
        Whether projections add a bias.
    causal : bool
        Whether a query sees no later keys. The last query is as late as the last key.
    output_proj : bool
        Whether the result is projected once more (proj_out).
    layout : 'BTC' or 'TBC'
        Whether arrays are (batch, length, units) or (length, batch, units).
    in_units : int
        Width of the inputs; 0: known at the first call.

    Inputs: query (B, T, C), and if it is not self attention key (B, S, C) and value
    (B, S, C; the default is key). mask, which broadcasts to (B, num_heads, T, S):
    floats are added to the scores, of other types 0 hides a key. length (B,): how many
    keys count. Output: (B, T, units). Queries that see no key give 0 (before proj_out).
    """

    def __init__(
        self,
        units,
        num_heads,
        dropout=0.0,
        use_bias=True,
        causal=False,
        output_proj=True,
        layout="BTC",
        weight_initializer=None,
        bias_initializer="zeros",
        in_units=0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if num_heads < 1 or units % num_heads:
            raise ValueError(
                "MultiHeadAttention: units %s cannot be cut into %s heads; a multiple "
                "of num_heads was expected" % (units, num_heads)
            )
        if layout not in ("BTC", "TBC"):
            raise ValueError(
                "MultiHeadAttention: layout is %r; 'BTC' or 'TBC' was expected" % layout
            )
        self._units, self._num_heads = units, num_heads
        self._options = {
            "heads": num_heads,
            "causal": causal,
            "dropout": dropout,
            "layout": "BTHD" if layout == "BTC" else "TBHD",
        }

        def dense(name, width):
            return Dense(
                units,
                flatten=False,
                use_bias=use_bias,
                weight_initializer=weight_initializer,
                bias_initializer=bias_initializer,
                in_units=width,
                prefix=name + "_",
            )

        with self.name_scope():
            self.proj_query = dense("query", in_units)
            self.proj_key = dense("key", in_units)
            self.proj_value = dense("value", in_units)
            self.proj_out = dense("out", units) if output_proj else None

    def project(self, query, key=None, value=None):
        """The projections of query, key and value."""
        key = query if key is None else key
        value = key if value is None else value
        return self.proj_query(query), self.proj_key(key), self.proj_value(value)

    def attend(self, F, q, k, v, mask=None, length=None, **options):
        """The result for projected queries, keys and values; options replace those of
        the layer (causal, dropout, layout)."""
        optional = {}
        if mask is not None:
            optional.update(mask=mask, use_mask=True)
        if length is not None:
            optional.update(length=length, use_length=True)
        y = F.contrib.dot_product_attention(
            q, k, v, **optional, **{**self._options, **options}
        )
        return y if self.proj_out is None else self.proj_out(y)

    def hybrid_forward(self, F, query, key=None, value=None, mask=None, length=None):
        return self.attend(F, *self.project(query, key, value), mask, length)

    def __repr__(self):
        return "MultiHeadAttention(%d, %d heads%s)" % (
            self._units,
            self._num_heads,
            ", causal" if self._options["causal"] else "",
        )
