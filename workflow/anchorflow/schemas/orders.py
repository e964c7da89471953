"""Table of orders: one per (arrangement, number, example)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

ORDERS = f.table(
    "orders",
    "one per (arrangement, number, example), with as many demonstrations as kernel regression has",
    *f.CELL,
    f.ARRANGEMENT,
    f.field("number", pa.int32(), "which order, 0 for that of kernel regression, or which draw"),
    f.EXAMPLE,
    f.LABEL,
    *f.PREDICTED,
    f.field(
        "heads",
        f.INDICES,
        "what kernel regression with each head's largest attention to a demonstration predicts, in "
        "order of layer and head; null if all its weights are 0",
    ),
    keys="model task seed arrangement number example",
)
