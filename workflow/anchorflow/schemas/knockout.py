"""Tables of knocked-out attention and of what it changes."""

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

EDGES = field(
    "edges",
    pa.string(),
    "which edges of attention, described in config/README.md at knockout.classes; none: the "
    "unmodified run",
)
CONTROL = field(
    "control",
    pa.bool_(),
    "true: not these edges, but as many random ones of the same rows over about the same distances",
)
BAND = field(
    "band",
    pa.string(),
    "which layers: single, each one alone; first, middle, and last third; all; none",
)
FIRST_LAYER = field("layer", pa.int32(), "first of these layers, counted from 0; -1 for none")
LAYERS = field("layers", pa.int32(), "number of these layers", "layers")

KNOCKOUT = table(
    "knockout",
    "one per (example, edges, control, draw, band, layer), demonstrations fixed",
    MODEL,
    TASK,
    SEED,
    EXAMPLE,
    EDGES,
    CONTROL,
    field("draw", pa.int32(), "draw of the random edges, counted from 0"),
    BAND,
    FIRST_LAYER,
    LAYERS,
    field("cut", pa.int64(), "edges that were cut, summed over the layers", "edges"),
    LABEL,
    *SCORED,
    field(
        "loss",
        pa.float64(),
        "cross-entropy of the true label among the label words' first tokens",
        "nats",
    ),
    field("top_tokens", INDICES, "the most likely next tokens of the whole vocabulary, in order"),
    keys="model task seed example edges control draw band layer",
)

KNOCKOUTS = table(
    "knockouts",
    "one per (task, edges, control, band, layer, measure)",
    MODEL,
    AVERAGED_TASK,
    EDGES,
    CONTROL,
    BAND,
    FIRST_LAYER,
    LAYERS,
    field(
        "measure",
        pa.string(),
        "by the cut: loss_change and probability_change, of the true label; loss_size, the "
        "absolute value of loss_change; label_loyalty: share of unchanged predictions; "
        "word_loyalty: mean Jaccard similarity of the most likely tokens; accuracy_change",
    ),
    field("mean", pa.float64(), "mean over seeds and draws", "nats or 1"),
    *INTERVAL,
    keys="model task edges control band layer measure",
)
