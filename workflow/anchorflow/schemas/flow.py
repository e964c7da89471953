"""Table of flow: one per (task or average, layer, flow, scale)."""

import pyarrow as pa

from anchorflow.schemas.fields import AVERAGED_TASK, INTERVAL, LAYER, MODEL, SKIPPED, field, table

FLOW = table(
    "flow",
    "one per (task or average, layer, flow, scale)",
    MODEL,
    AVERAGED_TASK,
    LAYER,
    field("flow", pa.string(), "s_wp, s_pq or s_ww"),
    field(
        "scale",
        pa.string(),
        "absolute: S itself; proportion: S divided by S_wp + S_pq + S_ww of the same example",
    ),
    field("mean", pa.float64(), "mean over examples, then over seeds", "nats, or 1 (proportion)"),
    *INTERVAL,
    SKIPPED,
    keys="model task layer flow scale",
)
