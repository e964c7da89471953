"""Table of flow: one per (task or average, layer, flow, scale)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

FLOW = f.table(
    "flow",
    "one per (task or average, layer, flow, scale)",
    *f.OF_TASK,
    f.LAYER,
    f.field(
        "flow",
        pa.string(),
        "s_wp, s_pq or s_ww; these with _text, _before or _after, for matched positions in place "
        "of label words; other columns of the table saliency; target_share_text and "
        "target_share_template: target_label / (target_label + target_text), or target_template; "
        "into_share: into_label / (into_label + into_text), each 1/2 if label words are like other "
        "tokens",
    ),
    f.field(
        "scale",
        pa.string(),
        "absolute: the value itself; proportion: S divided by S_wp + S_pq + S_ww of the same "
        "example and positions; for parts of S_wp, divided by S_wp; for shares, themselves",
    ),
    f.field("mean", pa.float64(), "mean over examples, then over seeds", "nats, or 1 (proportion)"),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task layer flow scale",
)
