"""Tables of accuracy."""

import pyarrow as pa

from anchorflow.schemas import fields as f

ACCURACY_SUMMARY = f.table(
    "accuracy_summary",
    "one per (task, measure)",
    *f.OF_TASK,
    f.field(
        "measure",
        pa.string(),
        "accuracy; macro_f1; majority: share of the most frequent true label; "
        + f.MEANS_IN_VOCABULARY,
    ),
    f.field("mean", pa.float64(), "mean over seeds", "1"),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task measure",
)
