"""Tables of landing."""

import pyarrow as pa

from anchorflow.schemas import fields as f

LANDING_SUMMARY = f.table(
    "landing_summary",
    "one per (task, layer, segment), one per (task, layer, place), and one per (task, layer)",
    *f.OF_TASK,
    f.LAYER,
    f.field(
        "segment",
        pa.string(),
        "as in the table segments; null for a place and for all demonstrations; the average has "
        "the segments that all tasks share",
    ),
    f.field("place", pa.float64(), "as in the table places; null otherwise"),
    f.field(
        "measure",
        pa.string(),
        "per_token: attention from the target to one token; share: attention to this segment, as a "
        "share of that to all demonstrations; length: tokens of this segment, as a share of the "
        "demonstrations' tokens; width: the segment's share of a demonstration, averaged over "
        "demonstrations; whole: attention to all demonstrations, of which the rest goes to the "
        "prompt's first token, the instruction, and the query",
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
