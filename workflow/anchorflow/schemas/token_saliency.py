"""Tables of token saliency."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    EXAMPLE,
    LABEL,
    LAYER,
    MODEL,
    PREDICTED,
    PROTOCOL,
    SEED,
    TASK,
    field,
    table,
)

TOKEN_SALIENCY = table(
    "token_saliency",
    "one per (example, layer, token), for the examples that have an information-flow page",
    MODEL,
    TASK,
    SEED,
    EXAMPLE,
    LAYER,
    field("token", pa.int32(), "i: the token that information flows to, counted from 0"),
    field(
        "significance",
        pa.list_(pa.float32()),
        "I_l(i, j): significance of the flow from each earlier token j < i, in order",
        "nats",
    ),
    keys="model task seed example layer token",
)

SHOWN_PROMPTS = table(
    "shown_prompts",
    "one per example that has an information-flow page",
    MODEL,
    TASK,
    SEED,
    PROTOCOL,
    EXAMPLE,
    LABEL,
    *PREDICTED,
    field(
        "texts",
        pa.list_(pa.string()),
        "each token of the prompt as text; U+FFFD for bytes that are not valid text by themselves",
    ),
    field("query", pa.string(), "the query's tokens together as text, with its template"),
    field("strongest_wp", pa.int32(), "layer of the largest S_wp, counted from 0"),
    field("strongest_pq", pa.int32(), "layer of the largest S_pq, counted from 0"),
    keys="model task seed example",
)

SHOWN_KNOCKOUTS = table(
    "shown_knockouts",
    "one per (example, edges, layer), for the examples that have an information-flow page; "
    "attention is hidden before the softmax in that layer alone",
    MODEL,
    TASK,
    SEED,
    EXAMPLE,
    field(
        "edges",
        pa.string(),
        "which edges are cut: before_to_label (S_wp), label_to_target (S_pq), others (S_ww)",
    ),
    LAYER,
    field("loss_change", pa.float64(), "change of the loss of the true label by the cut", "nats"),
    *PREDICTED,
    keys="model task seed example edges layer",
)
