"""Table of rare_words: one per content word of the task's test texts."""

import pyarrow as pa

from anchorflow.schemas import fields as f

RARE_WORDS = f.table(
    "rare_words",
    "one per content word of the task's test texts",
    f.TASK,
    f.field("word", pa.string(), "the content word, in lower case"),
    f.field("count", pa.int32(), "how often it is in the task's training texts", "words"),
    f.field(
        "replacement",
        pa.string(),
        "the rarer word nearest to it in the encoder's space; null if none is rarer",
    ),
    f.field(
        "replacement_count", pa.int32(), "how often that is in the task's training texts", "words"
    ),
    f.field("similarity", pa.float64(), "cosine of the two words' embeddings", "1"),
    keys="task word",
)
