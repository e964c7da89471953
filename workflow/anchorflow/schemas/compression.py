"""Table of compression: one per (example, method, share, draw)."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    COMPRESSED,
    EXAMPLE,
    INDICES,
    LABEL,
    MODEL,
    SCORED,
    SEED,
    SHARE,
    TASK,
    field,
    table,
)

COMPRESSION = table(
    "compression",
    "one per (example, method, share, draw), demonstrations fixed",
    MODEL,
    TASK,
    SEED,
    EXAMPLE,
    COMPRESSED,
    SHARE,
    field("draw", pa.int32(), "draw of random positions, counted from 0"),
    field(
        "kept",
        pa.int32(),
        "tokens kept in each layer and head; if layers differ, their mean, rounded up",
        "tokens",
    ),
    field("shared", pa.int32(), "tokens of all demonstrations", "tokens"),
    LABEL,
    *SCORED,
    field("top_tokens", INDICES, "the five most likely next tokens of the whole vocabulary"),
    keys="model task seed example method share draw",
)
