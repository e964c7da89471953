"""Table of samples: one per (demonstration protocol, test example)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

SAMPLES = f.table(
    "samples",
    "one per (demonstration protocol, test example)",
    f.TASK,
    f.SEED,
    f.PROTOCOL,
    f.EXAMPLE,
    f.field("text", pa.string(), "the test text; several fields joined as in the table texts"),
    f.LABEL,
    f.field(
        "demonstration_rows",
        f.INDICES,
        "row of each demonstration within the train split; for other_task, that of the other task",
    ),
    f.field(
        "demonstration_texts",
        pa.list_(pa.string()),
        "text of each demonstration, in order; several fields joined as in the table texts; for "
        "other_task, in the fields of this task",
    ),
    f.DEMONSTRATION_LABELS,
    keys="task seed demonstrations example",
)
