"""Table of loyalty: one per (task or average, variant, positions, side, layers, measure)."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    AVERAGED_TASK,
    INTERVAL,
    LAYERS,
    MODEL,
    POSITIONS,
    SIDE,
    SKIPPED,
    VARIANT,
    field,
    table,
)

LOYALTY = table(
    "loyalty",
    "one per (task or average, variant, positions, side, layers, measure)",
    MODEL,
    AVERAGED_TASK,
    VARIANT,
    POSITIONS,
    SIDE,
    LAYERS,
    field(
        "measure",
        pa.string(),
        "label_loyalty: share of predictions as in the unmodified run; word_loyalty: Jaccard "
        "similarity of the most likely tokens with those of the unmodified run; accuracy; "
        "divergence: Kullback-Leibler divergence of the label distribution from the unmodified one",
    ),
    field("mean", pa.float64(), "mean over seeds", "1, or nats (divergence)"),
    *INTERVAL,
    field("draws", pa.int32(), "draws of random positions averaged; 1 for label words", "draws"),
    SKIPPED,
    keys="model task variant positions side layers measure",
)
