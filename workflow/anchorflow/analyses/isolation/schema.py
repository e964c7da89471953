"""Tables of isolation: what is measured, and its summary."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

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

ISOLATION_SUMMARY = table(
    "isolation_summary",
    "one per (task, variant, positions, side, layers, measure)",
    *f.OF_TASK,
    f.VARIANT,
    f.POSITIONS,
    f.SIDE,
    f.LAYERS,
    Column(
        "measure",
        "string",
        "compared with the unmodified run, label_loyalty: share of predictions that stay the same; "
        "word_loyalty: Jaccard similarity of the most likely tokens; accuracy; accuracy_change: "
        "the difference; " + f.RETAINED_MEASURE + f.PARTS_OF_CHANGE,
    ),
    Column("mean", "float64", "mean over seeds", "1"),
    *f.INTERVAL,
    Column("draws", "int32", "draws of random positions averaged; 1 for label words", "draws"),
    f.SKIPPED,
    keys="model task variant positions side layers measure",
)
