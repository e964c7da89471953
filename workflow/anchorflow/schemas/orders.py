"""Table of orders: one per (arrangement, number, example)."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    ARRANGEMENT,
    EXAMPLE,
    INDICES,
    LABEL,
    MODEL,
    PREDICTED,
    SEED,
    TASK,
    field,
    table,
)

ORDERS = table(
    "orders",
    "one per (arrangement, number, example), with as many demonstrations as kernel regression has",
    MODEL,
    TASK,
    SEED,
    ARRANGEMENT,
    field("number", pa.int32(), "which order, 0 for that of kernel regression, or which draw"),
    EXAMPLE,
    LABEL,
    *PREDICTED,
    field(
        "heads",
        INDICES,
        "what kernel regression with each head's largest attention to a demonstration predicts, in "
        "order of layer and head; null if all its weights are 0",
    ),
    keys="model task seed arrangement number example",
)
