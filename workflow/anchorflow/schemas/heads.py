"""Table of heads: one per (task or average, layer, head, weights, measure)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

HEADS = f.table(
    "heads",
    "one per (task or average, layer, head, weights, measure)",
    *f.OF_TASK,
    f.LAYER,
    f.HEAD,
    f.WEIGHTS,
    f.field(
        "measure",
        pa.string(),
        "agreement: share of examples for which kernel regression on the head's attention predicts "
        "what the model predicts; accuracy: share for which it predicts the true label; "
        "correlation: Pearson's correlation of attention with the similarity of the texts over "
        "demonstrations, averaged over examples",
    ),
    f.field("mean", pa.float64(), "mean over seeds; null if undefined", "1"),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task layer head weights measure",
)
