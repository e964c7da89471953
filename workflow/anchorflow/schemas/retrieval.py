"""Table of retrieval: one per (example, choice of demonstrations)."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    CHOICE,
    EXAMPLE,
    LABEL,
    MODEL,
    SCORED,
    SEED,
    TASK,
    field,
    table,
)

RETRIEVAL = table(
    "retrieval",
    "one per (example, choice of demonstrations)",
    MODEL,
    TASK,
    SEED,
    EXAMPLE,
    CHOICE,
    LABEL,
    *SCORED,
    field(
        "similarity",
        pa.float64(),
        "mean cosine similarity of the demonstrations' texts, as they are in their own task, with "
        "the test text",
        "1",
    ),
    field("same_label", pa.float64(), "share of the demonstrations that have the true label", "1"),
    keys="model task seed example choice",
)
