"""Table of isolation: one per (example, variant, positions, draw, side, layers)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

ISOLATION = f.table(
    "isolation",
    "one per (example, variant, positions, draw, side, layers), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.VARIANT,
    f.POSITIONS,
    f.field("draw", pa.int32(), "draw of the positions random and text, counted from 0"),
    f.SIDE,
    f.LAYERS,
    f.LABEL,
    *f.SCORED,
    f.TOP_TOKENS,
    keys="model task seed example variant positions draw side layers",
)
