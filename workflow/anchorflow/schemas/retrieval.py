"""Table of retrieval: one per (example, choice of demonstrations)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

RETRIEVAL = f.table(
    "retrieval",
    "one per (example, choice of demonstrations)",
    *f.CELL,
    f.EXAMPLE,
    f.CHOICE,
    f.LABEL,
    *f.SCORED,
    f.field(
        "similarity",
        pa.float64(),
        "mean cosine similarity of the demonstrations' texts, as they are in their own task, with "
        "the test text",
        "1",
    ),
    f.field(
        "same_label", pa.float64(), "share of the demonstrations that have the true label", "1"
    ),
    keys="model task seed example choice",
)
