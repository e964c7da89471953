"""Tables of faithfulness: what is measured, and its summary."""

import pyarrow as pa

from anchorflow.analyses.knockout.schema import CONTROL, EDGES
from anchorflow.schemas import fields as f

FAITHFULNESS = f.table(
    "faithfulness",
    "one per (example, edges, control, draw, layer), demonstrations fixed; sums over the edges, "
    "for the loss of the label word's first token with either scoring",
    *f.CELL,
    f.EXAMPLE,
    EDGES,
    CONTROL,
    f.field("draw", pa.int32(), "draw of the random edges"),
    f.LAYER,
    f.field("saliency", pa.float64(), "significance I_l, as in the table flow", "nats"),
    f.field(
        "gradient",
        pa.float64(),
        "predicted change of the loss without the edges: minus attention times gradient",
        "nats",
    ),
    f.field(
        "integrated",
        pa.float64(),
        "the same with the gradient averaged while the layer's attention is scaled from 0 to its "
        "full value; null if faithfulness.steps is 0",
        "nats",
    ),
    f.field("attention", pa.float64(), "attention, averaged over heads", "probability"),
    keys="model task seed example edges control draw layer",
)

FAITHFULNESS_SUMMARY = f.table(
    "faithfulness_summary",
    "one per (task, edges, control, estimate, measure)",
    *f.OF_TASK,
    EDGES,
    CONTROL,
    f.field(
        "estimate",
        pa.string(),
        "what is compared with cutting the edges in single layers: saliency; gradient and "
        "integrated, which have a sign; attention",
    ),
    f.field(
        "measure",
        pa.string(),
        "rank: correlation of the ranks of layers by size, within each prompt; sign: share of "
        "layers in which the loss changes in the predicted direction; slope: of measured on "
        "predicted change, by regression through the origin, of absolute values for estimates "
        "without sign",
    ),
    f.field("mean", pa.float64(), "mean over seeds and draws", "1, or nats per unit"),
    *f.INTERVAL,
    keys="model task edges control estimate measure",
)
