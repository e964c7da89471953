"""Table of isolation: one per (example, variant, positions, draw, side, layers)."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    EXAMPLE,
    INDICES,
    LABEL,
    LAYERS,
    MODEL,
    POSITIONS,
    SCORED,
    SEED,
    SIDE,
    TASK,
    VARIANT,
    field,
    table,
)

ISOLATION = table(
    "isolation",
    "one per (example, variant, positions, draw, side, layers), demonstrations fixed",
    MODEL,
    TASK,
    SEED,
    EXAMPLE,
    VARIANT,
    POSITIONS,
    field("draw", pa.int32(), "draw of the positions random and text, counted from 0"),
    SIDE,
    LAYERS,
    LABEL,
    *SCORED,
    field("top_tokens", INDICES, "the most likely next tokens of the whole vocabulary, in order"),
    keys="model task seed example variant positions draw side layers",
)
