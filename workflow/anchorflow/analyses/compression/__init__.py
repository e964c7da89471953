"""Predictions from compressed demonstrations ([A] §3.2, Table 2)."""

from anchorflow.config.analysis import ANCHORS, Analysis, Measured, Presented, Summary
from anchorflow.config.table import SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas import measures as m
from anchorflow.schemas.summaries import summary_of

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

COMPRESSION_SUMMARY = summary_of(
    "compression",
    (f.COMPRESSED, f.SHARE),
    (
        *(m.LABEL_LOYALTY, m.WORD_LOYALTY, m.ACCURACY),
        Measure("kept_share", "share of the demonstrations' tokens that is kept", SHARE),
        m.RETAINED,
        *m.ACCURACY_CHANGES,
        *m.IN_VOCABULARY,
    ),
    (
        Column("draws", "int32", "draws of positions averaged", "draws"),
        f.SKIPPED,
        Column("published", "float64", "[A] Table 2, if model and tasks are the paper's", "1"),
    ),
    about="compared with everything kept, ",
)


ANALYSIS = Analysis(
    subject="loyalty of {} with compressed demonstrations",
    category=ANCHORS,
    measured=Measured(sharded=True, twins=True),
    summary=Summary({"compression": "compression", "prompts": "prompts"}),
    figure=Presented("Compressed demonstrations (Table 2 of [A])", settings=("labels",)),
    table=Presented("Compressed demonstrations (Table 2 of [A])"),
)
