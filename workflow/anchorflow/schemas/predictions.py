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
    f.field("top_tokens", f.INDICES, "the five most likely next tokens of the whole vocabulary"),
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
