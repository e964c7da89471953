"""Table of compression: one per (example, method, share, draw)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

COMPRESSION = f.table(
    "compression",
    "one per (example, method, share, draw), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.COMPRESSED,
    f.SHARE,
    f.field("draw", pa.int32(), "draw of random positions, counted from 0"),
    f.field(
        "kept",
        pa.int32(),
        "tokens kept in each layer and head; if layers differ, their mean, rounded up",
        "tokens",
    ),
    f.field("shared", pa.int32(), "tokens of all demonstrations", "tokens"),
    f.LABEL,
    *f.SCORED,
    f.field("top_tokens", f.INDICES, "the five most likely next tokens of the whole vocabulary"),
    keys="model task seed example method share draw",
)
