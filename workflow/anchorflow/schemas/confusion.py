"""Table of confusion."""

import pyarrow as pa

from anchorflow.schemas import fields as f

CONFUSION = f.table(
    "confusion",
    "one per (task, pair of labels) for auc, (task, heads, layer, pair) for distance, (task or "
    "average, heads, layer) for correlation",
    *f.OF_TASK,
    f.field(
        "measure",
        pa.string(),
        "auc: how well the ratio of two labels' probabilities separates their examples; distance: "
        "between the keys of their label words; correlation: Spearman's rank correlation of the "
        "two over pairs of labels",
    ),
    f.field("heads", pa.string(), "concatenated or separate, as in diagnosis; null for auc"),
    f.field("layer", pa.int32(), "transformer layer, counted from 0; null for auc"),
    f.field("label", pa.int32(), "one label of a pair; null for correlation"),
    f.field("other", pa.int32(), "the other label of the pair; null for correlation"),
    f.field(
        "mean",
        pa.float64(),
        "mean over seeds; null if undefined, such as a correlation over fewer than three pairs",
        "1",
    ),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task measure heads layer label other",
)
