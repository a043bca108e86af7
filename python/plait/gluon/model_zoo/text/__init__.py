"""Networks for text: BERT and GPT, and the layers they are made of."""

from . import bert as _bert
from . import gpt as _gpt
from .bert import *  # noqa: F403
from .gpt import *  # noqa: F403
from .sampling import *  # noqa: F403
from .transformer import *  # noqa: F403

_NAMES = ("bert_12_768_12", "bert_24_1024_16", "gpt2_117m", "gpt2_345m")


def _table():
    """Model name -> function."""
    return {name: getattr(_bert, name, None) or getattr(_gpt, name) for name in _NAMES}


def get_model(name, **kwargs):
    """A network by name; kwargs: vocab_size, pretrained, ctx, root, prefix, ..."""
    table = _table()
    name = name.lower()
    if name not in table:
        raise ValueError(
            "Model %s is not supported. Available options are\n\t%s"
            % (name, "\n\t".join(sorted(table)))
        )
    return table[name](**kwargs)
