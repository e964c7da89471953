"""Tables of compression: what is measured, and its summary."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

COMPRESSION = table(
    "compression",
    "one per (example, method, share, draw), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.COMPRESSED,
    f.SHARE,
    Column("draw", "int32", "draw of random positions"),
    Column(
        "kept",
        "int32",
        "tokens kept in each layer and head; if layers differ, their mean, rounded up",
        "tokens",
    ),
    Column("shared", "int32", "tokens of all demonstrations", "tokens"),
    f.LABEL,
    *f.SCORED,
    f.TOP_TOKENS,
    keys="model task seed example method share draw",
)

COMPRESSION_SUMMARY = table(
    "compression_summary",
    "one per (task, method, share, measure)",
    *f.OF_TASK,
    f.COMPRESSED,
    f.SHARE,
    Column(
        "measure",
        "string",
        "compared with everything kept, label_loyalty: share of predictions that stay the same; "
        "word_loyalty: Jaccard similarity of the five most likely tokens; kept_share: share of the "
        "demonstrations' tokens that is kept; accuracy; accuracy_change: the difference; "
        + f.RETAINED_MEASURE
        + f.PARTS_OF_CHANGE,
    ),
    Column("mean", "float64", "mean over seeds", "1"),
    *f.INTERVAL,
    Column("draws", "int32", "draws of positions averaged", "draws"),
    f.SKIPPED,
    Column("published", "float64", "[A] Table 2, if model and tasks are the paper's", "1"),
    keys="model task method share measure",
)
