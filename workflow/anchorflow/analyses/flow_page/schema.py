"""Tables of flow_page."""

import pyarrow as pa

from anchorflow.schemas import fields as f

TOKEN_SALIENCY = f.table(
    "token_saliency",
    "one per (example, layer, token), for the examples that have an information-flow page",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    f.field("token", pa.int32(), "i: the token that information flows to"),
    f.field(
        "significance",
        pa.list_(pa.float32()),
        "I_l(i, j): significance of the flow from each earlier token j < i, in order",
        "nats",
    ),
    keys="model task seed example layer token",
)

SHOWN_PROMPTS = f.table(
    "shown_prompts",
    "one per example that has an information-flow page",
    *f.CELL,
    f.PROTOCOL,
    f.EXAMPLE,
    f.LABEL,
    *f.PREDICTED,
    f.field(
        "texts",
        pa.list_(pa.string()),
        "each token of the prompt as text; U+FFFD for bytes that are not valid text alone",
    ),
    f.TOKEN_GROUPS,
    f.field("query", pa.string(), "the query's tokens together as text, with its template"),
    f.field("strongest_wp", pa.int32(), "layer of the largest S_wp"),
    f.field("strongest_pq", pa.int32(), "layer of the largest S_pq"),
    keys="model task seed example",
)

SHOWN_KNOCKOUTS = f.table(
    "shown_knockouts",
    "one per (example, edges, layer), for the examples that have an information-flow page; "
    "attention is hidden before the softmax in that layer alone",
    *f.CELL,
    f.EXAMPLE,
    f.field(
        "edges",
        pa.string(),
        "which edges are cut: before_to_label (S_wp), label_to_target (S_pq), others (S_ww), "
        "equal_to_target (random keys of the target that hold as much attention as S_pq)",
    ),
    f.LAYER,
    f.field(
        "loss_change", pa.float64(), "change of the loss of the true label due to the cut", "nats"
    ),
    *f.PREDICTED,
    keys="model task seed example edges layer",
)

SHOWN_HEADS = f.table(
    "shown_heads",
    "one per (example, layer, head, token up to the target), for the examples that have an "
    "information-flow page; empty if where the model's heads write is not known",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    f.field("head", pa.int32(), "head, counted from 0"),
    f.field("token", pa.int32(), "j: the token that the target attends to"),
    f.field("attention", pa.float32(), "α: the target's attention to the token", "1"),
    f.field(
        "writes",
        pa.list_(pa.float32()),
        "φ: direct effect of the token through this head on the logit of each class of labels, "
        "minus the mean of the other classes'; labels whose words begin alike are one class, "
        "classes are in the order of their first labels",
        "logits",
    ),
    keys="model task seed example layer head token",
)
