"""Table of neighbors: one per (task or average, choice of demonstrations, measure)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

NEIGHBORS = f.table(
    "neighbors",
    "one per (task or average, choice of demonstrations, measure)",
    *f.OF_TASK,
    f.CHOICE,
    f.field(
        "measure",
        pa.string(),
        "accuracy; similarity and same_label, as in the retrieval table; majority: accuracy of the "
        "demonstrations' most frequent label, of several the last, without any model; "
        "accuracy_gain: accuracy minus that with random demonstrations, on the examples run with "
        "both (not for random)",
    ),
    f.field("mean", pa.float64(), "mean over seeds", "1"),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task choice measure",
)
