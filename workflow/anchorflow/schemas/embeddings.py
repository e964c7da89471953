"""Tables of embeddings: one per text of the task's train and test split, and of each encoder."""

import pyarrow as pa

from anchorflow.schemas.fields import TASK, field, table

_OF_TEXT = (
    TASK,
    field("split", pa.string(), "train or test"),
    field("row", pa.int32(), "row within the split, counted from 0"),
    field(
        "embedding",
        pa.list_(pa.float32()),
        "the sentence encoder's embedding of the text, of unit length",
        "1",
    ),
)

EMBEDDINGS = table(
    "embeddings",
    "one per text of the task's train and test split",
    *_OF_TEXT,
    keys="task split row",
)

FURTHER_EMBEDDINGS = table(
    "further_embeddings",
    "one per further sentence encoder and text of the task's train and test split",
    field("encoder", pa.string(), "the encoder's name in encoder.further"),
    *_OF_TEXT,
    keys="encoder task split row",
)
