"""Tables of isolation: what is measured, and its summary."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f
from anchorflow.schemas import measures as m
from anchorflow.schemas.summaries import summary_of

ISOLATION = table(
    "isolation",
    "one per (example, variant, positions, draw, side, layers), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.VARIANT,
    f.POSITIONS,
    Column("draw", "int32", "draw of the positions random and text"),
    f.SIDE,
    f.LAYERS,
    f.LABEL,
    *f.SCORED,
    f.TOP_TOKENS,
    keys="model task seed example variant positions draw side layers",
)

ISOLATION_SUMMARY = summary_of(
    "isolation",
    (f.VARIANT, f.POSITIONS, f.SIDE, f.LAYERS),
    (
        *(m.LABEL_LOYALTY, m.WORD_LOYALTY, m.ACCURACY, m.RETAINED),
        *m.ACCURACY_CHANGES,
        *m.IN_VOCABULARY,
    ),
    (
        Column("draws", "int32", "draws of random positions averaged; 1 for label words", "draws"),
        f.SKIPPED,
    ),
)
