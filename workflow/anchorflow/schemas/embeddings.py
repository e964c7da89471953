"""Tables of embeddings: one per text of the task's train and test split, and per encoder."""

import pyarrow as pa

from anchorflow.schemas import fields as f

_OF_TEXT = (
    f.TASK,
    f.field("split", pa.string(), "train or test"),
    f.field("row", pa.int32(), "row within the split, as in the table texts"),
    f.field(
        "embedding",
        pa.list_(pa.float32()),
        "the sentence encoder's embedding of the text, of unit length",
        "1",
    ),
)

EMBEDDINGS = f.table(
    "embeddings",
    "one per text of the task's train and test split",
    *_OF_TEXT,
    keys="task split row",
)

FURTHER_EMBEDDINGS = f.table(
    "further_embeddings",
    "one per further sentence encoder and text of the task's train and test split",
    f.field("encoder", pa.string(), "the encoder's name in encoder.further"),
    *_OF_TEXT,
    keys="encoder task split row",
)
