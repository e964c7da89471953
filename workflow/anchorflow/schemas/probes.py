"""Table of probes: one per (layer, key-value head, offset, source, target, demonstration)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

PROBES = f.table(
    "probes",
    "one per (layer, key-value head, offset, source, target, demonstration)",
    *f.CELL,
    f.LAYER,
    f.field("head", pa.int32(), "key-value head, counted from 0"),
    f.OFFSET,
    f.SOURCE,
    f.DECODED,
    f.DEMONSTRATION,
    f.field("correct", pa.bool_(), "whether a probe fitted to the other folds predicts the target"),
    f.field(
        "shuffled",
        pa.float32(),
        "share of correct predictions over shuffles of the targets among demonstrations, which is "
        "chance; labels are shuffled within rounds, each of which has every label once",
        "1",
    ),
    keys="model task seed layer head offset source target demonstration",
)
