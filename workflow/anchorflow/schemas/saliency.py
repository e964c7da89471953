"""Table of saliency: one per (example, layer)."""

import pyarrow as pa

from anchorflow.schemas.fields import EXAMPLE, LAYER, MODEL, SEED, TASK, field, table

SALIENCY = table(
    "saliency",
    "one per (example, layer)",
    MODEL,
    TASK,
    SEED,
    EXAMPLE,
    LAYER,
    field("s_wp", pa.float64(), "S_wp: mean significance, earlier tokens to label words", "nats"),
    field("s_pq", pa.float64(), "S_pq: mean significance, label words to the target", "nats"),
    field("s_ww", pa.float64(), "S_ww: mean significance of all other token pairs", "nats"),
    keys="model task seed example layer",
)
