"""Table of retention: one per (task or average, method, share, measure)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

RETENTION = f.table(
    "retention",
    "one per (task or average, method, share, measure)",
    *f.OF_TASK,
    f.COMPRESSED,
    f.SHARE,
    f.field(
        "measure",
        pa.string(),
        "label_loyalty: share of predictions as with everything kept; word_loyalty: Jaccard "
        "similarity of the five most likely tokens with those; accuracy; kept_share: share of the "
        "demonstrations' tokens that is kept",
    ),
    f.field("mean", pa.float64(), "mean over seeds", "1"),
    *f.INTERVAL,
    f.field("draws", pa.int32(), "draws of positions averaged", "draws"),
    f.SKIPPED,
    f.field(
        "published",
        pa.float64(),
        "[A] Table 2, if model and tasks are the paper's; or null",
        "1",
    ),
    keys="model task method share measure",
)
