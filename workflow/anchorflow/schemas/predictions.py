"""Table of predictions: one per example."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

PREDICTIONS = table(
    "predictions",
    "one per example, demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.LABEL,
    *f.SCORED,
    f.TOP_TOKENS,
    Column("top_texts", "list<string>", "the same tokens as text"),
    Column(
        "top_probabilities",
        "list<float32>",
        "their probabilities over the whole vocabulary",
        "probability",
    ),
    f.TOKEN_GROUPS,
    keys="model task seed example",
)
