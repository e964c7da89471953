"""Table of heads: one per (task or average, layer, head, weights, measure)."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    AVERAGED_TASK,
    HEAD,
    INTERVAL,
    LAYER,
    MODEL,
    SKIPPED,
    WEIGHTS,
    field,
    table,
)

HEADS = table(
    "heads",
    "one per (task or average, layer, head, weights, measure)",
    MODEL,
    AVERAGED_TASK,
    LAYER,
    HEAD,
    WEIGHTS,
    field(
        "measure",
        pa.string(),
        "agreement: share of examples for which kernel regression on the head's attention predicts "
        "what the model predicts; accuracy: share for which it predicts the true label; "
        "correlation: Pearson's correlation of attention with the similarity of the texts over "
        "demonstrations, averaged over examples",
    ),
    field("mean", pa.float64(), "mean over seeds; null if undefined", "1"),
    *INTERVAL,
    SKIPPED,
    keys="model task layer head weights measure",
)
