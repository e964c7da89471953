"""Which layers of a model attend, and whether kept keys suffice, from its configuration.

In hybrid models, only some layers attend; the others mix tokens by a state space, a linear
attention, or a convolution. Layers that attend are numbered densely wherever the model runs (axis L
of arrays, ``AttentionCall.layer``), and by their place in the model in tables.
"""

from collections.abc import Sequence

import polars as pl
from transformers import PretrainedConfig

# transformers' names of layers, in ``layer_types``, that do something else than attend.
_STATE = ("linear_attention", "conv")
_BOTH = ("hybrid", "hybrid_sliding")  # a state beside attention
_NEITHER = ("moe", "mlp")


def attention_layers(config: PretrainedConfig) -> list[int]:
    """The places in the model of the layers that attend, increasing."""
    text = config.get_text_config()
    kinds = getattr(text, "layer_types", None) or [""] * text.num_hidden_layers
    return [place for place, kind in enumerate(kinds) if kind not in (*_STATE, *_NEITHER)]


def runs_again(config: PretrainedConfig) -> bool:
    """Whether what precedes some tokens has to run again with them, since kept keys don't suffice.

    It does if a token gets something from earlier ones by another way than attention, a state, or
    if layers select keys among all of a prompt.
    """
    kinds = getattr(config.get_text_config(), "layer_types", None) or ()
    return selects_keys(config) or any(kind in (*_STATE, *_BOTH) for kind in kinds)


def selects_keys(config: PretrainedConfig) -> bool:
    """Whether layers select by themselves the tokens that they attend to, among all of a prompt.

    They do so by an indexer, of which transformers' configurations give the sizes.
    """
    return any(name.startswith("index") for name in vars(config.get_text_config()))


def streams_first(config: PretrainedConfig) -> bool:
    """Whether hidden states are [streams, B, T, hidden] between layers, as in Gemma 3n.

    Other families with several residual streams have [B, T, streams, hidden].
    """
    return hasattr(config.get_text_config(), "altup_num_inputs")


def by_place(frame: pl.DataFrame, layers: Sequence[int], depth: int) -> pl.DataFrame:
    """A table whose column ``layer`` has places in the model, given dense numbers.

    ``layers`` are the :func:`attention_layers` of a model with ``depth`` layers. Their number, the
    layer after the last, becomes ``depth``; -1 and null, for no layer, stay.
    """
    if "layer" not in frame.columns or len(layers) == depth:
        return frame
    places = dict(enumerate([*layers, depth]))
    return frame.with_columns(pl.col("layer").replace(places))
