"""Table of embeddings: one per text of the task's train and test split."""

import pyarrow as pa

from anchorflow.schemas.fields import TASK, field, table

EMBEDDINGS = table(
    "embeddings",
    "one per text of the task's train and test split",
    TASK,
    field("split", pa.string(), "train or test"),
    field("row", pa.int32(), "row within the split, counted from 0"),
    field(
        "embedding",
        pa.list_(pa.float32()),
        "the sentence encoder's embedding of the text, of unit length",
        "1",
    ),
    keys="task split row",
)
