"""Table of predictions: one per example."""

import pyarrow as pa

from anchorflow.schemas import fields as f

PREDICTIONS = f.table(
    "predictions",
    "one per example, demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.LABEL,
    *f.SCORED,
    f.TOP_TOKENS,
    f.field("top_texts", pa.list_(pa.string()), "the same tokens as text"),
    f.field(
        "top_probabilities",
        pa.list_(pa.float32()),
        "their probabilities over the whole vocabulary",
        "probability",
    ),
    f.TOKEN_GROUPS,
    keys="model task seed example",
)
