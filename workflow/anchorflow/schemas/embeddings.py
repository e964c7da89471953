"""Tables of embeddings: one per text of the task's train and test split, and per encoder."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

_OF_TEXT = (
    f.TASK,
    Column("split", "string", "train or test"),
    Column("row", "int32", "row within the split, as in the table texts"),
    Column(
        "embedding",
        "list<float32>",
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
    Column("encoder", "string", "the encoder's name in encoder.further"),
    *_OF_TEXT,
    keys="encoder task split row",
)
