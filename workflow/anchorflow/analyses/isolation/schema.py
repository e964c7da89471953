"""Tables of isolation: what is measured, and its summary."""

import pyarrow as pa

from anchorflow.schemas import fields as f

ISOLATION = f.table(
    "isolation",
    "one per (example, variant, positions, draw, side, layers), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.VARIANT,
    f.POSITIONS,
    f.field("draw", pa.int32(), "draw of the positions random and text"),
    f.SIDE,
    f.LAYERS,
    f.LABEL,
    *f.SCORED,
    f.TOP_TOKENS,
    keys="model task seed example variant positions draw side layers",
)

ISOLATION_SUMMARY = f.table(
    "isolation_summary",
    "one per (task, variant, positions, side, layers, measure)",
    *f.OF_TASK,
    f.VARIANT,
    f.POSITIONS,
    f.SIDE,
    f.LAYERS,
    f.field(
        "measure",
        pa.string(),
        "compared with the unmodified run, label_loyalty: share of predictions that stay the same; "
        "word_loyalty: Jaccard similarity of the most likely tokens; accuracy; accuracy_change: "
        "the difference; " + f.RETAINED_MEASURE + f.PARTS_OF_CHANGE,
    ),
    f.field("mean", pa.float64(), "mean over seeds", "1"),
    *f.INTERVAL,
    f.field("draws", pa.int32(), "draws of random positions averaged; 1 for label words", "draws"),
    f.SKIPPED,
    keys="model task variant positions side layers measure",
)
