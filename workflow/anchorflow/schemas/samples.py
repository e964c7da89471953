"""Table of samples: one per (demonstration protocol, test example)."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    DEMONSTRATION_LABELS,
    EXAMPLE,
    INDICES,
    LABEL,
    PROTOCOL,
    SEED,
    TASK,
    field,
    table,
)

SAMPLES = table(
    "samples",
    "one per (demonstration protocol, test example)",
    TASK,
    SEED,
    PROTOCOL,
    EXAMPLE,
    field("text", pa.string(), "the test text; several fields joined as in the table texts"),
    LABEL,
    field(
        "demonstration_rows",
        INDICES,
        "row of each demonstration within the train split; for other_task, that of the other task",
    ),
    field(
        "demonstration_texts",
        pa.list_(pa.string()),
        "text of each demonstration, in order; several fields joined as in the table texts; for "
        "other_task, in the fields of this task",
    ),
    DEMONSTRATION_LABELS,
    keys="task seed demonstrations example",
)
