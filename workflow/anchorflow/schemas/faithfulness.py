"""Tables of what is estimated of edges of attention, and of how it agrees with cutting them."""

import pyarrow as pa

from anchorflow.schemas import fields as f
from anchorflow.schemas.knockout import CONTROL, EDGES

FAITHFULNESS = f.table(
    "faithfulness",
    "one per (example, edges, control, draw, layer), demonstrations fixed; sums over the edges, of "
    "the loss of the label word's first token, whatever scoring is",
    *f.CELL,
    f.EXAMPLE,
    EDGES,
    CONTROL,
    f.field("draw", pa.int32(), "draw of the random edges, counted from 0"),
    f.LAYER,
    f.field("saliency", pa.float64(), "significance I_l, as in the saliency table", "nats"),
    f.field(
        "gradient",
        pa.float64(),
        "change of the loss without the edges, to first order: attention times gradient, negative",
        "nats",
    ),
    f.field(
        "integrated",
        pa.float64(),
        "the same with the gradient averaged while the layer's attention is scaled from 0 to what "
        "it is; null if knockout.steps is 0",
        "nats",
    ),
    f.field("attention", pa.float64(), "attention, averaged over heads", "probability"),
    keys="model task seed example edges control draw layer",
)

FAITHFUL = f.table(
    "faithful",
    "one per (task or average, edges, control, estimate, measure)",
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
        "layers in which the loss changes the way that is foretold; slope: change of the loss per "
        "unit of the estimate, by regression through the origin, of sizes where it has no sign",
    ),
    f.field("mean", pa.float64(), "mean over seeds and draws", "1, or nats per unit"),
    *f.INTERVAL,
    keys="model task edges control estimate measure",
)
