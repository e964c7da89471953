"""Table of probes: one per (layer, key-value head, offset, source, target, demonstration)."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    DECODED,
    DEMONSTRATION,
    LAYER,
    MODEL,
    OFFSET,
    SEED,
    SOURCE,
    TASK,
    field,
    table,
)

PROBES = table(
    "probes",
    "one per (layer, key-value head, offset, source, target, demonstration)",
    MODEL,
    TASK,
    SEED,
    LAYER,
    field("head", pa.int32(), "key-value head, counted from 0"),
    OFFSET,
    SOURCE,
    DECODED,
    DEMONSTRATION,
    field("correct", pa.bool_(), "whether a probe fitted to the other folds predicts the target"),
    field(
        "shuffled",
        pa.float32(),
        "share of correct predictions over shuffles of the targets among demonstrations, which is "
        "chance; labels are shuffled within rounds, each of which has every label once",
        "1",
    ),
    keys="model task seed layer head offset source target demonstration",
)
