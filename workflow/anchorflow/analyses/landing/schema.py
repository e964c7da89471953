"""Tables of landing."""

import pyarrow as pa

from anchorflow.schemas import fields as f

LANDING_SUMMARY = f.table(
    "landing_summary",
    "one per (task or average, layer, segment) and one per (task or average, layer, place)",
    *f.OF_TASK,
    f.LAYER,
    f.field(
        "segment",
        pa.string(),
        "before_text, text, before_label, label or after, or with several fields before_NAME and "
        "NAME of each in place of the first two; null for a place; the average has the segments "
        "that all tasks share",
    ),
    f.field("place", pa.float64(), "as in the table places; null for a segment"),
    f.field(
        "measure",
        pa.string(),
        "per_token: attention from the target to one token; share: attention to this segment, as a "
        "share of that to all demonstrations; length: tokens of this segment, as a share of the "
        "demonstrations' tokens; width: the segment's share of a demonstration, averaged over "
        "demonstrations",
    ),
    f.field(
        "mean",
        pa.float64(),
        "mean over heads and examples, then seeds",
        "probability (per_token), or 1",
    ),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task layer segment place measure",
)
