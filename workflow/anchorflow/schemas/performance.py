"""Table of performance: one per (task or average, method, measure)."""

import pyarrow as pa

from anchorflow.schemas.fields import AVERAGED_TASK, INTERVAL, METHOD, MODEL, SKIPPED, field, table

PERFORMANCE = table(
    "performance",
    "one per (task or average, method, measure)",
    MODEL,
    AVERAGED_TASK,
    METHOD,
    field(
        "measure",
        pa.string(),
        "accuracy; macro_f1; accuracy_gain and macro_f1_gain: the same minus vanilla's on the same "
        "examples (not for vanilla itself)",
    ),
    field("mean", pa.float64(), "mean over seeds", "1"),
    *INTERVAL,
    SKIPPED,
    field(
        "published", pa.float64(), "[A] Table 1, if model and task are the paper's; or null", "1"
    ),
    keys="model task method measure",
)
