"""Table of samples: one per (demonstration protocol, test example)."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

SAMPLES = table(
    "samples",
    "one per (demonstration protocol, test example)",
    f.TASK,
    f.SEED,
    f.PROTOCOL,
    f.EXAMPLE,
    Column("text", "string", "the test text; several fields joined as in the table texts"),
    f.LABEL,
    Column(
        "demonstration_rows",
        f.INDICES,
        "row of each demonstration within the train split; for other_task, that of the other task",
    ),
    Column(
        "demonstration_texts",
        "list<string>",
        "text of each demonstration, in order; several fields joined as in the table texts; for "
        "other_task, in the fields of this task",
    ),
    f.DEMONSTRATION_LABELS,
    keys="task seed demonstrations example",
)
