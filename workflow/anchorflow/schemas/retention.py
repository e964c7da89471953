"""Table of retention: one per (task or average, method, share, measure)."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    AVERAGED_TASK,
    COMPRESSED,
    INTERVAL,
    MODEL,
    SHARE,
    SKIPPED,
    field,
    table,
)

RETENTION = table(
    "retention",
    "one per (task or average, method, share, measure)",
    MODEL,
    AVERAGED_TASK,
    COMPRESSED,
    SHARE,
    field(
        "measure",
        pa.string(),
        "label_loyalty: share of predictions as with everything kept; word_loyalty: Jaccard "
        "similarity of the five most likely tokens with those; accuracy; kept_share: share of the "
        "demonstrations' tokens that is kept",
    ),
    field("mean", pa.float64(), "mean over seeds", "1"),
    *INTERVAL,
    field("draws", pa.int32(), "draws of positions averaged", "draws"),
    SKIPPED,
    field(
        "published",
        pa.float64(),
        "[A] Table 2, if model and tasks are the paper's; or null",
        "1",
    ),
    keys="model task method share measure",
)
