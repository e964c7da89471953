"""Table of texts: one per text of the task's train and test split."""

import pyarrow as pa

from anchorflow.schemas.fields import LABEL, TASK, field, table

TEXTS = table(
    "texts",
    "one per text of the task's train and test split",
    TASK,
    field("split", pa.string(), "train or test"),
    field("row", pa.int32(), "row within the split, counted from 0"),
    field(
        "text",
        pa.string(),
        "the text as in the source; the fields of a task with several joined by U+001F in the "
        "order of its columns",
    ),
    LABEL,
    keys="task split row",
)
