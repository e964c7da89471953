"""Tables of knockout: what is measured, and its summary."""

import pyarrow as pa

from anchorflow.schemas import fields as f

EDGES = f.field(
    "edges",
    pa.string(),
    "which edges of attention, described in the configuration reference at knockout.classes; "
    "none: the unmodified run",
)

CONTROL = f.field(
    "control",
    pa.bool_(),
    "true: instead of these edges, the same number of random ones of the same rows over similar "
    "distances",
)

BAND = f.field(
    "band",
    pa.string(),
    "which layers: single, each one alone; first, middle, and last third; all; none",
)

FIRST_LAYER = f.field("layer", pa.int32(), "first of these layers; -1 for none")

LAYERS = f.field("layers", pa.int32(), "number of these layers", "layers")

KNOCKOUT = f.table(
    "knockout",
    "one per (example, edges, control, draw, band, layer), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    EDGES,
    CONTROL,
    f.field("draw", pa.int32(), "draw of the random edges"),
    BAND,
    FIRST_LAYER,
    LAYERS,
    f.field("cut", pa.int64(), "edges that were cut, summed over the layers", "edges"),
    f.LABEL,
    *f.SCORED,
    f.field(
        "loss",
        pa.float64(),
        "cross-entropy of the true label among the label words' first tokens",
        "nats",
    ),
    f.TOP_TOKENS,
    keys="model task seed example edges control draw band layer",
)

KNOCKOUT_SUMMARY = f.table(
    "knockout_summary",
    "one per (task, edges, control, band, layer, measure)",
    *f.OF_TASK,
    EDGES,
    CONTROL,
    BAND,
    FIRST_LAYER,
    LAYERS,
    f.field(
        "measure",
        pa.string(),
        "effect of the cut: loss_change, log_odds_change and probability_change, for the true "
        "label; label_loyalty, word_loyalty, and accuracy_change, as in "
        "isolation_summary; " + f.PARTS_OF_CHANGE,
    ),
    f.field("mean", pa.float64(), "mean over seeds and draws", "nats or 1"),
    *f.INTERVAL,
    keys="model task edges control band layer measure",
)
