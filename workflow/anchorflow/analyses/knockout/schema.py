"""Tables of knockout: what is measured, and its summary."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

EDGES = Column(
    "edges",
    "string",
    "which edges of attention, described in the configuration reference at knockout.classes; "
    "none: the unmodified run",
)

CONTROL = Column(
    "control",
    "bool",
    "true: instead of these edges, the same number of random ones of the same rows over similar "
    "distances",
)

BAND = Column(
    "band",
    "string",
    "which layers: single, each one alone; first, middle, and last third; all; none",
)

FIRST_LAYER = Column("layer", "int32", "first of these layers; -1 for none")

LAYERS = Column("layers", "int32", "number of these layers", "layers")

KNOCKOUT = table(
    "knockout",
    "one per (example, edges, control, draw, band, layer), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    EDGES,
    CONTROL,
    Column("draw", "int32", "draw of the random edges"),
    BAND,
    FIRST_LAYER,
    LAYERS,
    Column("cut", "int64", "edges that were cut, summed over the layers", "edges"),
    f.LABEL,
    *f.SCORED,
    Column(
        "loss",
        "float64",
        "cross-entropy of the true label among the label words' first tokens",
        "nats",
    ),
    f.TOP_TOKENS,
    keys="model task seed example edges control draw band layer",
)

KNOCKOUT_SUMMARY = table(
    "knockout_summary",
    "one per (task, edges, control, band, layer, measure)",
    *f.OF_TASK,
    EDGES,
    CONTROL,
    BAND,
    FIRST_LAYER,
    LAYERS,
    Column(
        "measure",
        "string",
        "effect of the cut: loss_change, log_odds_change and probability_change, for the true "
        "label; label_loyalty, word_loyalty, and accuracy_change, as in "
        "isolation_summary; " + f.PARTS_OF_CHANGE,
    ),
    Column("mean", "float64", "mean over seeds and draws", "nats or 1"),
    *f.INTERVAL,
    keys="model task edges control band layer measure",
)
