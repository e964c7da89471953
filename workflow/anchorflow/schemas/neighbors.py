"""Table of neighbors: one per (task or average, choice of demonstrations, measure)."""

import pyarrow as pa

from anchorflow.schemas.fields import AVERAGED_TASK, CHOICE, INTERVAL, MODEL, SKIPPED, field, table

NEIGHBORS = table(
    "neighbors",
    "one per (task or average, choice of demonstrations, measure)",
    MODEL,
    AVERAGED_TASK,
    CHOICE,
    field(
        "measure",
        pa.string(),
        "accuracy; similarity and same_label, as in the retrieval table; majority: accuracy of the "
        "demonstrations' most frequent label, of several the last, without any model; "
        "accuracy_gain: accuracy minus that with random demonstrations, on the examples run with "
        "both (not for random)",
    ),
    field("mean", pa.float64(), "mean over seeds", "1"),
    *INTERVAL,
    SKIPPED,
    keys="model task choice measure",
)
