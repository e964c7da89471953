"""Tables of accuracy."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

ACCURACY_SUMMARY = table(
    "accuracy_summary",
    "one per (task, measure)",
    *f.OF_TASK,
    Column(
        "measure",
        "string",
        "accuracy; macro_f1; majority: share of the most frequent true label; "
        + f.MEANS_IN_VOCABULARY,
    ),
    Column("mean", "float64", "mean over seeds", "1"),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task measure",
)
