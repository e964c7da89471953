"""Table of performance: one per (task or average, method, measure)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

PERFORMANCE = f.table(
    "performance",
    "one per (task or average, method, measure)",
    *f.OF_TASK,
    f.METHOD,
    f.field(
        "measure",
        pa.string(),
        "accuracy; macro_f1; accuracy_gain and macro_f1_gain: the same minus vanilla's on the same "
        "examples (not for vanilla itself)",
    ),
    f.field("mean", pa.float64(), "mean over seeds", "1"),
    *f.INTERVAL,
    f.SKIPPED,
    f.field(
        "published", pa.float64(), "[A] Table 1, if model and task are the paper's; or null", "1"
    ),
    keys="model task method measure",
)
