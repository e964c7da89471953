"""Table of texts: one per text of the task's train and test split."""

import pyarrow as pa

from anchorflow.schemas import fields as f

SPLITS = ("train", "test")

TEXTS = f.table(
    "texts",
    "one per text of the task's train and test split",
    f.TASK,
    f.field("split", pa.string(), "train or test"),
    f.field(
        "row",
        pa.int32(),
        "row within the split; among the texts drawn if train_examples are fewer",
    ),
    f.field(
        "text",
        pa.string(),
        "the text as in the source; several fields are joined by U+001F in the order of the "
        "task's columns",
    ),
    f.LABEL,
    keys="task split row",
)
