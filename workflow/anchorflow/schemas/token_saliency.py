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
    keys="model task seed example",
)
