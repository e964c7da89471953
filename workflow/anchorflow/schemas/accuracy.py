"""Table of accuracy: one per (task or average, measure)."""

import pyarrow as pa

from anchorflow.schemas.fields import AVERAGED_TASK, INTERVAL, MODEL, SKIPPED, field, table

ACCURACY = table(
    "accuracy",
    "one per (task or average, measure)",
    MODEL,
    AVERAGED_TASK,
    field(
        "measure",
        pa.string(),
        "accuracy; macro_f1; majority: share of the most frequent true label",
    ),
    field("mean", pa.float64(), "mean over seeds", "1"),
    *INTERVAL,
    SKIPPED,
    keys="model task measure",
)
