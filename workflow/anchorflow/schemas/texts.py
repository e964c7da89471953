"""Table of texts: one per text of the task's train and test split."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

SPLITS = ("train", "test")

TEXTS = table(
    "texts",
    "one per text of the task's train and test split",
    f.TASK,
    Column("split", "string", "train or test"),
    Column(
        "row", "int32", "row within the split; among the texts drawn if train_examples are fewer"
    ),
    Column(
        "text",
        "string",
        "the text as in the source; several fields are joined by U+001F in the order of the "
        "task's columns",
    ),
    f.LABEL,
    keys="task split row",
)
