"""Tables of predictions without the demonstrations from some layer on."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    AVERAGED_TASK,
    EXAMPLE,
    INDICES,
    INTERVAL,
    LABEL,
    MODEL,
    SCORED,
    SEED,
    TASK,
    field,
    table,
)

SEES = field(
    "sees",
    pa.string(),
    "what queries still see of the demonstrations: first, the prompt's first token and the "
    "instruction; label, these and all tokens of label words; random, these and as many other "
    "tokens",
)
FROM_LAYER = field(
    "layer",
    pa.int32(),
    "first layer in which they see no more than this, counted from 0; the number of layers for the "
    "unmodified run",
)

CUTOFF = table(
    "cutoff",
    "one per (example, sees, draw, layer), demonstrations fixed",
    MODEL,
    TASK,
    SEED,
    EXAMPLE,
    SEES,
    field("draw", pa.int32(), "draw of the random tokens, counted from 0"),
    FROM_LAYER,
    LABEL,
    *SCORED,
    field("top_tokens", INDICES, "the most likely next tokens of the whole vocabulary, in order"),
    keys="model task seed example sees draw layer",
)

CUTOFFS = table(
    "cutoffs",
    "one per (task or average, sees, layer, measure)",
    MODEL,
    AVERAGED_TASK,
    SEES,
    FROM_LAYER,
    field(
        "measure",
        pa.string(),
        "accuracy; label_loyalty: share of predictions as in the unmodified run; word_loyalty: "
        "Jaccard similarity of the most likely tokens; needed, in rows with layer -1: number of "
        "layers in which the demonstrations have to be seen so that 95 % of accuracy and of label "
        "loyalty are kept there and with more layers",
    ),
    field("mean", pa.float64(), "mean over seeds and draws", "1, or layers"),
    *INTERVAL,
    keys="model task sees layer measure",
)
