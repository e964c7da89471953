"""Table of predictions: one per example."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    EXAMPLE,
    INDICES,
    LABEL,
    MODEL,
    SCORED,
    SEED,
    TASK,
    TOKEN_GROUPS,
    field,
    table,
)

PREDICTIONS = table(
    "predictions",
    "one per example, demonstrations fixed",
    MODEL,
    TASK,
    SEED,
    EXAMPLE,
    LABEL,
    *SCORED,
    field("top_tokens", INDICES, "the five most likely next tokens of the whole vocabulary"),
    field("top_texts", pa.list_(pa.string()), "the same tokens as text"),
    field(
        "top_probabilities",
        pa.list_(pa.float32()),
        "their probabilities over the whole vocabulary",
        "probability",
    ),
    TOKEN_GROUPS,
    keys="model task seed example",
)
